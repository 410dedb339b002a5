//===- RaceCheck.cpp - Accesses that no barrier orders --------------------===//
//
// Each byte remembers who loaded and who stored since the last barrier. Of
// loads two threads are enough: a third one conflicts with whatever these do.
//
//===----------------------------------------------------------------------===//

#include "runtime/emulator/RaceCheck.h"

using namespace sextant::runtime::emulator;

RaceCheck::Byte &RaceCheck::find(uintptr_t address) {
  uintptr_t number = address / kPage;
  if (!lastPage || number != lastNumber) {
    std::unique_ptr<Page> &page = pages[number];
    if (!page)
      page = std::make_unique<Page>();
    lastPage = page.get();
    lastNumber = number;
  }
  Byte &byte = (*lastPage)[address % kPage];
  if (byte.epoch != epoch) {
    byte = {};
    byte.epoch = epoch;
  }
  return byte;
}

static std::string describe(int thread, const char *what, int32_t place) {
  return "thread " + std::to_string(thread) + " " + what + " (access " +
         std::to_string(place) + ")";
}

std::string RaceCheck::note(const void *address, int32_t bytes, bool isStore,
                            int thread, int32_t place) {
  auto start = reinterpret_cast<uintptr_t>(address);
  for (int32_t i = 0; i != bytes; ++i) {
    Byte &byte = find(start + i);
    std::string before;
    if (byte.storer >= 0 && byte.storer != thread)
      before = describe(byte.storer, "stored", byte.storePlace);
    else if (isStore && byte.loader >= 0 && byte.loader != thread)
      before = describe(byte.loader, "loaded", byte.loadPlace);
    else if (isStore && byte.other >= 0 && byte.other != thread)
      before = describe(byte.other, "loaded", byte.loadPlace);
    if (!before.empty())
      return "threads of a warp access the same memory without a barrier "
             "between them: " +
             before + ", " +
             describe(thread, isStore ? "stores" : "loads", place);
    if (isStore) {
      byte.storer = static_cast<int8_t>(thread);
      byte.storePlace = place;
    } else if (byte.loader < 0) {
      byte.loader = static_cast<int8_t>(thread);
      byte.loadPlace = place;
    } else if (byte.loader != thread) {
      byte.other = static_cast<int8_t>(thread);
    }
  }
  return {};
}

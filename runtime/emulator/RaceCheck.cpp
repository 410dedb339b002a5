//===- RaceCheck.cpp - Accesses that nothing orders -----------------------===//
//
// Each byte remembers who stored last and who loaded since. A store that comes
// after all of these takes their place: whoever comes after it comes after
// them.
//
//===----------------------------------------------------------------------===//

#include "runtime/emulator/RaceCheck.h"
#include <algorithm>

using namespace sextant::runtime::emulator;

void RaceCheck::begin(int warps) {
  ++generation;
  if (pages.size() > kKept) {
    pages.clear();
    lastPage = nullptr;
  }
  auto count = static_cast<size_t>(warps);
  clocks.assign(count, Clock(count, 0));
  for (size_t warp = 0; warp != count; ++warp)
    clocks[warp][warp] = 1;
  afterBarrier.assign(count, 1);
}

void RaceCheck::passBarrier(int warp) {
  afterBarrier[warp] = ++clocks[warp][warp];
}

static void add(RaceCheck::Clock &clock, const RaceCheck::Clock &other) {
  clock.resize(std::max(clock.size(), other.size()));
  for (size_t warp = 0; warp != other.size(); ++warp)
    clock[warp] = std::max(clock[warp], other[warp]);
}

void RaceCheck::release(int warp, Clock &clock) {
  add(clock, clocks[warp]);
  ++clocks[warp][warp];
}

void RaceCheck::acquire(int warp, const Clock &clock) {
  add(clocks[warp], clock);
}

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
  if (byte.generation != generation) {
    byte = {};
    byte.generation = generation;
  }
  return byte;
}

bool RaceCheck::isBefore(const Visit &visit, int32_t warp,
                         int32_t thread) const {
  if (visit.thread < 0)
    return true;
  if (visit.warp != warp)
    return visit.epoch <= clocks[warp][visit.warp];
  return visit.thread == thread || visit.epoch < afterBarrier[warp];
}

bool RaceCheck::isBefore(const Loads &loads, int32_t warp,
                         int32_t thread) const {
  if (!isBefore(loads.first, warp, thread))
    return false;
  Visit other = loads.first;
  other.thread = loads.other;
  return isBefore(other, warp, thread);
}

void RaceCheck::noteLoad(Byte &byte, const Visit &visit) {
  Loads *own = &byte.loads;
  if (own->first.thread >= 0 && own->first.warp != visit.warp) {
    if (!byte.elsewhere)
      byte.elsewhere = std::make_unique<std::vector<Loads>>();
    std::vector<Loads> &others = *byte.elsewhere;
    auto found =
        std::find_if(others.begin(), others.end(), [&](const Loads &loads) {
          return loads.first.warp == visit.warp;
        });
    own = found != others.end() ? &*found : &others.emplace_back();
  }
  Visit &first = own->first;
  bool isNew = first.thread < 0 || first.epoch < afterBarrier[visit.warp];
  if (isNew) {
    *own = {visit, -1};
  } else {
    if (first.thread != visit.thread)
      own->other = visit.thread;
    first.epoch = visit.epoch;
  }
}

std::optional<Race> RaceCheck::note(const Access &access, int32_t warp,
                                    int32_t thread) {
  Visit visit = {thread, warp, access.place, clocks[warp][warp]};
  uintptr_t start = access.begin();
  auto describe = [](const Visit &other, bool stored) {
    return Race{other.warp, other.thread, stored, other.place};
  };
  for (int32_t i = 0; i != access.bytes; ++i) {
    Byte &byte = find(start + static_cast<uintptr_t>(i));
    if (!isBefore(byte.store, warp, thread))
      return describe(byte.store, true);
    if (!access.isStore) {
      noteLoad(byte, visit);
      continue;
    }
    auto conflicts = [&](const Loads &loads) -> std::optional<Race> {
      if (isBefore(loads, warp, thread))
        return std::nullopt;
      Race race = describe(loads.first, false);
      if (isBefore(loads.first, warp, thread))
        race.thread = loads.other;
      return race;
    };
    if (std::optional<Race> race = conflicts(byte.loads))
      return race;
    if (byte.elsewhere)
      for (const Loads &loads : *byte.elsewhere)
        if (std::optional<Race> race = conflicts(loads))
          return race;
    byte.store = visit;
    byte.loads = {};
    byte.elsewhere.reset();
  }
  return std::nullopt;
}

//===- AsyncCopies.cpp - Copies that are under way ------------------------===//

#include "runtime/emulator/AsyncCopies.h"
#include <algorithm>
#include <cstring>
#include <utility>

using namespace sextant::runtime::emulator;

/// Copies are of whole words.
static constexpr uintptr_t kWord = 4;

/// The number of the word behind the last one of an access.
static uintptr_t getEnd(const Access &access) {
  return (access.begin() + static_cast<uintptr_t>(access.bytes) + kWord - 1) /
         kWord;
}

void AsyncCopies::clear(int32_t count) {
  threads.assign(static_cast<size_t>(count), Thread());
  words.clear();
}

void AsyncCopies::begin(int32_t thread, const AsyncCopy &copy, const void *from,
                        int32_t given) {
  Copy begun = {copy, {}};
  std::memcpy(begun.contents.data(), from, static_cast<size_t>(given));
  std::memset(copy.to, 0xff, static_cast<size_t>(copy.bytes));
  Access to = {copy.to, copy.bytes, AccessKind::Store, copy.place};
  for (uintptr_t word = to.begin() / kWord; word != getEnd(to); ++word)
    words[word] = {thread, copy.place};
  threads[thread].begun.push_back(begun);
}

void AsyncCopies::commit(int32_t thread) {
  Thread &own = threads[thread];
  own.committed.push_back(std::exchange(own.begun, {}));
}

std::vector<AsyncCopy> AsyncCopies::wait(int32_t thread, int32_t groups) {
  std::vector<AsyncCopy> brought;
  std::deque<Group> &committed = threads[thread].committed;
  auto kept = static_cast<size_t>(std::max(groups, 0));
  for (; committed.size() > kept; committed.pop_front())
    for (const Copy &copy : committed.front()) {
      Access to = {copy.to, copy.bytes, AccessKind::Store, copy.place};
      for (uintptr_t word = to.begin() / kWord; word != getEnd(to); ++word)
        words.erase(word);
      std::memcpy(copy.to, copy.contents.data(),
                  static_cast<size_t>(copy.bytes));
      brought.push_back(copy);
    }
  return brought;
}

std::optional<InFlight> AsyncCopies::find(const Access &access) const {
  if (words.empty())
    return std::nullopt;
  for (uintptr_t word = access.begin() / kWord; word != getEnd(access);
       ++word) {
    auto found = words.find(word);
    if (found != words.end())
      return found->second;
  }
  return std::nullopt;
}

//===- RaceCheck.cpp - Accesses that nothing orders -----------------------===//
//
// Each word, or byte, remembers who stored last and who loaded since. A store
// that comes after all of these takes their place: whoever comes after it comes
// after them.
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

RaceCheck::Accesses RaceCheck::Accesses::copy() const {
  Accesses result{store, loads, nullptr};
  if (elsewhere)
    result.elsewhere = std::make_unique<std::vector<Loads>>(*elsewhere);
  return result;
}

void RaceCheck::Word::split() {
  if (bytes)
    return;
  bytes = std::make_unique<std::array<Accesses, kWord>>();
  for (Accesses &accesses : *bytes)
    accesses = whole.copy();
}

RaceCheck::Word &RaceCheck::find(uintptr_t number) {
  uintptr_t pageNumber = number / (kPage / kWord);
  if (!lastPage || pageNumber != lastNumber) {
    std::unique_ptr<Page> &page = pages[pageNumber];
    if (!page)
      page = std::make_unique<Page>();
    lastPage = page.get();
    lastNumber = pageNumber;
  }
  Word &word = (*lastPage)[number % (kPage / kWord)];
  if (word.generation != generation) {
    word = {};
    word.generation = generation;
  }
  return word;
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

void RaceCheck::noteLoad(Accesses &accesses, const Visit &visit) {
  Loads *own = &accesses.loads;
  if (own->first.thread >= 0 && own->first.warp != visit.warp) {
    if (!accesses.elsewhere)
      accesses.elsewhere = std::make_unique<std::vector<Loads>>();
    std::vector<Loads> &others = *accesses.elsewhere;
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

std::optional<Race> RaceCheck::note(Accesses &accesses, const Visit &visit,
                                    bool isStore) {
  auto describe = [](const Visit &other, bool stored) {
    return Race{other.warp, other.thread, stored, other.place};
  };
  if (!isBefore(accesses.store, visit.warp, visit.thread))
    return describe(accesses.store, true);
  if (!isStore) {
    noteLoad(accesses, visit);
    return std::nullopt;
  }
  auto conflicts = [&](const Loads &loads) -> std::optional<Race> {
    if (isBefore(loads, visit.warp, visit.thread))
      return std::nullopt;
    Race race = describe(loads.first, false);
    if (isBefore(loads.first, visit.warp, visit.thread))
      race.thread = loads.other;
    return race;
  };
  if (std::optional<Race> race = conflicts(accesses.loads))
    return race;
  if (accesses.elsewhere)
    for (const Loads &loads : *accesses.elsewhere)
      if (std::optional<Race> race = conflicts(loads))
        return race;
  accesses.store = visit;
  accesses.loads = {};
  accesses.elsewhere.reset();
  return std::nullopt;
}

std::optional<Race> RaceCheck::note(const Access &access, int32_t warp,
                                    int32_t thread) {
  Visit visit = {thread, warp, access.place, clocks[warp][warp]};
  uintptr_t begin = access.begin();
  uintptr_t end = begin + static_cast<uintptr_t>(access.bytes);
  for (uintptr_t number = begin / kWord; number * kWord < end; ++number) {
    Word &word = find(number);
    uintptr_t first = std::max(begin, number * kWord) - number * kWord;
    uintptr_t last = std::min(end, (number + 1) * kWord) - number * kWord;
    if (last - first == kWord && !word.bytes) {
      if (std::optional<Race> race = note(word.whole, visit, access.isStore))
        return race;
      continue;
    }
    word.split();
    for (uintptr_t byte = first; byte != last; ++byte)
      if (std::optional<Race> race =
              note((*word.bytes)[byte], visit, access.isStore))
        return race;
  }
  return std::nullopt;
}

//===- RaceCheck.cpp - Accesses that nothing orders -----------------------===//
//
// Each word, or byte, remembers who stored last, and who loaded or atomically
// changed it since. A store that comes after all of these takes their place:
// whoever comes after it comes after them.
//
//===----------------------------------------------------------------------===//

#include "runtime/emulator/RaceCheck.h"
#include <algorithm>

using namespace sextant::runtime::emulator;

const char *sextant::runtime::emulator::describeNow(AccessKind kind) {
  static constexpr const char *names[] = {"loads", "stores",
                                          "atomically changes"};
  return names[static_cast<int>(kind)];
}

const char *sextant::runtime::emulator::describeBefore(AccessKind kind) {
  static constexpr const char *names[] = {"loaded", "stored",
                                          "atomically changed"};
  return names[static_cast<int>(kind)];
}

void RaceCheck::begin(int warps) {
  ++generation;
  if (pages.size() > kKept) {
    pages.clear();
    recent.fill({});
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

static void join(RaceCheck::Clock &clock, const RaceCheck::Clock &other) {
  clock.resize(std::max(clock.size(), other.size()));
  for (size_t warp = 0; warp != other.size(); ++warp)
    clock[warp] = std::max(clock[warp], other[warp]);
}

void RaceCheck::release(int warp, Clock &clock) {
  join(clock, clocks[warp]);
  ++clocks[warp][warp];
}

void RaceCheck::acquire(int warp, const Clock &clock) {
  join(clocks[warp], clock);
}

RaceCheck::Together RaceCheck::Together::copy() const {
  Together result{warp, nullptr};
  if (elsewhere)
    result.elsewhere = std::make_unique<std::vector<OfWarp>>(*elsewhere);
  return result;
}

RaceCheck::Accesses RaceCheck::Accesses::copy() const {
  Accesses result{store, loads.copy(), nullptr};
  if (changes)
    result.changes = std::make_unique<Together>(changes->copy());
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
  Recent &found = recent[pageNumber % recent.size()];
  if (!found.page || found.number != pageNumber) {
    std::unique_ptr<Page> &page = pages[pageNumber];
    if (!page)
      page = std::make_unique<Page>();
    found = {pageNumber, page.get()};
  }
  Word &word = (*found.page)[number % (kPage / kWord)];
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

std::optional<RaceCheck::Visit> RaceCheck::findConflict(const OfWarp &accesses,
                                                        int32_t warp,
                                                        int32_t thread) const {
  Visit visit = accesses.first;
  if (!isBefore(visit, warp, thread))
    return visit;
  visit.thread = accesses.other;
  if (!isBefore(visit, warp, thread))
    return visit;
  return std::nullopt;
}

std::optional<RaceCheck::Visit>
RaceCheck::findConflict(const Together &accesses, int32_t warp,
                        int32_t thread) const {
  if (std::optional<Visit> found = findConflict(accesses.warp, warp, thread))
    return found;
  if (accesses.elsewhere)
    for (const OfWarp &others : *accesses.elsewhere)
      if (std::optional<Visit> found = findConflict(others, warp, thread))
        return found;
  return std::nullopt;
}

void RaceCheck::add(Together &accesses, const Visit &visit) {
  OfWarp *own = &accesses.warp;
  if (own->first.thread >= 0 && own->first.warp != visit.warp) {
    if (!accesses.elsewhere)
      accesses.elsewhere = std::make_unique<std::vector<OfWarp>>();
    std::vector<OfWarp> &others = *accesses.elsewhere;
    auto found =
        std::find_if(others.begin(), others.end(), [&](const OfWarp &other) {
          return other.first.warp == visit.warp;
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
                                    AccessKind kind) {
  auto describe = [](const Visit &other, AccessKind kind) {
    return Race{other.warp, other.thread, kind, other.place};
  };
  if (!isBefore(accesses.store, visit.warp, visit.thread))
    return describe(accesses.store, AccessKind::Store);
  if (kind != AccessKind::Load)
    if (std::optional<Visit> other =
            findConflict(accesses.loads, visit.warp, visit.thread))
      return describe(*other, AccessKind::Load);
  if (kind != AccessKind::AtomicChange && accesses.changes)
    if (std::optional<Visit> other =
            findConflict(*accesses.changes, visit.warp, visit.thread))
      return describe(*other, AccessKind::AtomicChange);
  switch (kind) {
  case AccessKind::Load:
    add(accesses.loads, visit);
    break;
  case AccessKind::AtomicChange:
    if (!accesses.changes)
      accesses.changes = std::make_unique<Together>();
    add(*accesses.changes, visit);
    break;
  case AccessKind::Store:
    accesses = {visit, {}, nullptr};
    break;
  }
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
      if (std::optional<Race> race = note(word.whole, visit, access.kind))
        return race;
      continue;
    }
    word.split();
    for (uintptr_t byte = first; byte != last; ++byte)
      if (std::optional<Race> race =
              note((*word.bytes)[byte], visit, access.kind))
        return race;
  }
  return std::nullopt;
}

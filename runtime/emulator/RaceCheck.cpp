//===- RaceCheck.cpp - Accesses that nothing orders -----------------------===//
//
// Of each word, or byte, it is kept who stored last, and who loaded or
// atomically changed it since. A store that comes after all of these takes
// their place: whoever comes after it comes after them.
//
//===----------------------------------------------------------------------===//

#include "runtime/emulator/RaceCheck.h"
#include <algorithm>
#include <numeric>

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
  if (++generation == 0 || pages.size() > kKept) {
    pages.clear();
    recent.fill({});
    generation = 1;
  }
  freeLists.resize(lists.size());
  std::iota(freeLists.begin(), freeLists.end(), 0);
  auto count = static_cast<size_t>(warps);
  clocks.assign(count, Clock(count, 0));
  for (size_t warp = 0; warp != count; ++warp)
    clocks[warp][warp] = 1;
  epochs.assign(count, 1);
  afterBarrier.assign(count, 1);
}

uint32_t RaceCheck::beginEpoch(int warp) {
  epochs[warp] = ++clocks[warp][warp];
  return epochs[warp];
}

void RaceCheck::passBarrier(int warp) { afterBarrier[warp] = beginEpoch(warp); }

static void join(RaceCheck::Clock &clock, const RaceCheck::Clock &other) {
  clock.resize(std::max(clock.size(), other.size()));
  for (size_t warp = 0; warp != other.size(); ++warp)
    clock[warp] = std::max(clock[warp], other[warp]);
}

void RaceCheck::release(int warp, Clock &clock) {
  join(clock, clocks[warp]);
  (void)beginEpoch(warp);
}

void RaceCheck::acquire(int warp, const Clock &clock) {
  join(clocks[warp], clock);
}

//===----------------------------------------------------------------------===//
// Where it is kept
//===----------------------------------------------------------------------===//

RaceCheck::Page &RaceCheck::find(uintptr_t number) {
  Recent &found = recent[number % kRecent];
  if (!found.page || found.number != number) {
    std::unique_ptr<Page> &page = pages[number];
    if (!page)
      page = std::make_unique<Page>();
    found = {number, page.get()};
  }
  return *found.page;
}

/// Each of the smaller cells keeps what the larger one did.
void RaceCheck::cut(Page &page, unsigned digits) {
  std::vector<Cell> cells;
  cells.reserve(kPage >> digits);
  for (const Cell &cell : page.cells) {
    cells.push_back(cell);
    for (unsigned more = 1u << (page.digits - digits); --more != 0;) {
      Cell &copy = cells.emplace_back(cell);
      if (copy.generation != generation || !findList(copy))
        continue;
      int32_t number = takeList();
      lists[number] = *findList(cell);
      copy.loads.first.thread = kSeveral - number;
    }
  }
  page.cells = std::move(cells);
  page.digits = digits;
}

int32_t RaceCheck::takeList() {
  if (freeLists.empty()) {
    lists.emplace_back();
    return static_cast<int32_t>(lists.size()) - 1;
  }
  int32_t number = freeLists.back();
  freeLists.pop_back();
  return number;
}

const RaceCheck::Several *RaceCheck::findList(const Cell &cell) const {
  int32_t thread = cell.loads.first.thread;
  return thread <= kSeveral ? &lists[kSeveral - thread] : nullptr;
}

RaceCheck::Several &RaceCheck::getList(Cell &cell) {
  Visit &first = cell.loads.first;
  if (first.thread > kSeveral) {
    int32_t number = takeList();
    Several &list = lists[number];
    list.loads.clear();
    list.changes.clear();
    if (first.thread >= 0)
      list.loads.push_back(cell.loads);
    first.thread = kSeveral - number;
  }
  return lists[kSeveral - first.thread];
}

/// What was loaded and changed.
void RaceCheck::forget(Cell &cell) {
  if (findList(cell))
    freeLists.push_back(kSeveral - cell.loads.first.thread);
  cell.loads = {};
}

//===----------------------------------------------------------------------===//
// What conflicts
//===----------------------------------------------------------------------===//

std::optional<RaceCheck::Visit> RaceCheck::findConflict(const OfWarp &accesses,
                                                        const Now &now) const {
  Visit visit = accesses.first;
  if (!isBefore(visit, now))
    return visit;
  visit.thread = accesses.other;
  if (!isBefore(visit, now))
    return visit;
  return std::nullopt;
}

std::optional<RaceCheck::Visit>
RaceCheck::findConflict(const std::vector<OfWarp> &accesses,
                        const Now &now) const {
  for (const OfWarp &others : accesses)
    if (std::optional<Visit> found = findConflict(others, now))
      return found;
  return std::nullopt;
}

std::optional<Race> RaceCheck::findRace(const Cell &cell, const Now &now,
                                        AccessKind kind) const {
  auto describe = [&](const Visit &other, AccessKind kind) {
    return Race{getWarp(other.thread), other.thread, kind, other.place};
  };
  if (!isBefore(cell.store, now))
    return describe(cell.store, AccessKind::Store);
  const Several *list = findList(cell);
  std::optional<Visit> other;
  if (kind != AccessKind::Load) {
    other =
        list ? findConflict(list->loads, now) : findConflict(cell.loads, now);
    if (other)
      return describe(*other, AccessKind::Load);
  }
  if (kind != AccessKind::AtomicChange && list)
    other = findConflict(list->changes, now);
  if (other)
    return describe(*other, AccessKind::AtomicChange);
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// What is kept
//===----------------------------------------------------------------------===//

void RaceCheck::add(std::vector<OfWarp> &accesses, const Now &now) const {
  auto found =
      std::find_if(accesses.begin(), accesses.end(), [&](const OfWarp &other) {
        return getWarp(other.first.thread) == now.warp;
      });
  add(found != accesses.end() ? *found : accesses.emplace_back(), now);
}

void RaceCheck::addLoad(Cell &cell, const Now &now) {
  if (isOfOneWarp(cell, now))
    add(cell.loads, now);
  else
    add(getList(cell).loads, now);
}

std::optional<Race> RaceCheck::note(Cell &cell, const Now &now,
                                    AccessKind kind) {
  if (cell.generation != generation) {
    cell = {};
    cell.generation = generation;
  }
  if (std::optional<Race> race = findRace(cell, now, kind))
    return race;
  switch (kind) {
  case AccessKind::Load:
    addLoad(cell, now);
    break;
  case AccessKind::AtomicChange:
    add(getList(cell).changes, now);
    break;
  case AccessKind::Store:
    forget(cell);
    cell.store = now.visit;
    break;
  }
  return std::nullopt;
}

std::optional<Race> RaceCheck::note(const Access &access, int32_t thread) {
  Now now = getNow(access, thread);
  uintptr_t begin = access.begin();
  uintptr_t end = begin + static_cast<uintptr_t>(access.bytes);
  while (begin < end) {
    Page &page = find(begin / kPage);
    uintptr_t from = begin % kPage;
    uintptr_t to = std::min(from + (end - begin), kPage);
    uintptr_t edges = from | to;
    if ((edges >> page.digits << page.digits) != edges)
      cut(page, edges % 2 == 0);
    for (uintptr_t at = from >> page.digits; at != to >> page.digits; ++at)
      if (std::optional<Race> race = note(page.cells[at], now, access.kind))
        return race;
    begin += to - from;
  }
  return std::nullopt;
}

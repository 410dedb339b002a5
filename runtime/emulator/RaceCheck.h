//===- RaceCheck.h - Accesses that nothing orders ---------------*- C++ -*-===//
//
// Vector clocks: what a warp did is cut into epochs, and each warp keeps up to
// which epoch of every other one it has waited for. So a race is found in
// whichever order the emulator happened to run the threads.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_EMULATOR_RACECHECK_H
#define SEXTANT_RUNTIME_EMULATOR_RACECHECK_H

#include "runtime/emulator/WarpCalls.h"
#include <array>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace sextant::runtime::emulator {

/// "loads", and "loaded", and likewise of the others.
const char *describeNow(AccessKind kind);
const char *describeBefore(AccessKind kind);

/// What a thread is about to do to memory.
struct Access {
  const void *address;
  int32_t bytes;
  AccessKind kind;
  int32_t place; ///< of the instruction
  /// A power of two, of which the address has to be a multiple.
  int32_t alignment = 1;

  bool isLoad() const { return kind == AccessKind::Load; }

  uintptr_t begin() const { return reinterpret_cast<uintptr_t>(address); }
};

/// The earlier one of two accesses that nothing orders.
struct Race {
  int32_t warp, thread;
  AccessKind kind;
  int32_t place;
};

/// Follows accesses of the threads of some warps. Two of different threads to
/// the same byte are a race if not both load, or both change it atomically, and
/// nothing orders them: within a warp a barrier of the warp does, between warps
/// that one acquires what the other has released.
class RaceCheck {
public:
  /// For each warp the last of its epochs that is known.
  using Clock = std::vector<uint32_t>;

  /// Forgets all accesses; from here on so many warps run, of 32 threads each,
  /// or one of any number.
  void begin(int warps);

  /// All threads of a warp have passed a barrier of the warp.
  void passBarrier(int warp);
  /// Adds what the warp did so far, and knows, to a clock.
  void release(int warp, Clock &clock);
  /// From here on the warp comes after what a clock knows.
  void acquire(int warp, const Clock &clock);

  /// Notes an access of a thread, which counts through the warps; gives an
  /// earlier one that it conflicts with, if any.
  std::optional<Race> note(const Access &access, int32_t thread);

  /// As `note` of a load that conflicts with nothing, if no more than a few
  /// instructions are needed to see that: of bytes that one warp alone has
  /// accessed since the last store to them, as most loads are. Else it is
  /// false, and the load still to be noted.
  bool noteLoad(const Access &access, int32_t thread);

private:
  /// A thread that accessed some bytes; none if it is negative.
  struct Visit {
    int32_t thread = -1;
    uint32_t epoch = 0;
    int32_t place = 0;
  };
  /// Accesses of one kind of threads of one warp since its last barrier. Two
  /// threads are enough: a third one conflicts with whatever these do.
  struct OfWarp {
    Visit first;
    int32_t other = -1;
  };
  /// Who accessed some bytes since the last store to them: most are loaded by
  /// one warp and atomically changed by none. Others are in a list (`Several`),
  /// whose number stands in place of the thread that loaded first. As small as
  /// can be: kernels wait for the memory of these more than for anything else.
  struct Cell {
    uint32_t generation = 0;
    Visit store;
    OfWarp loads;
  };
  static_assert(sizeof(Cell) == 32);
  struct Several {
    std::vector<OfWarp> loads, changes; ///< one of each warp
  };
  static constexpr int32_t kSeveral = -2; ///< the first of the list, then -3

  static constexpr uintptr_t kPage = 4096;
  /// Bytes that were always accessed together share a cell: whole words, up to
  /// the first access of less, or of words that are not aligned.
  struct Page {
    unsigned digits = 2; ///< log2 of the bytes of a cell
    std::vector<Cell> cells = std::vector<Cell>(kPage / 4);
  };
  /// Pages that are kept from one block to the next, a few MB.
  static constexpr size_t kKept = 64;

  /// A thread that is about to access something, and what it comes after.
  struct Now {
    Visit visit;
    int32_t warp;
    uint32_t afterBarrier;
    const Clock &clock;
  };

  static constexpr int32_t kWarpThreads = 32;
  int32_t getWarp(int32_t thread) const {
    return clocks.size() == 1 ? 0 : thread / kWarpThreads;
  }
  uint32_t beginEpoch(int warp);
  /// Whether a barrier, or what warps release, orders a visit before now.
  bool isBefore(const Visit &visit, const Now &now) const {
    if (visit.thread < 0 || visit.thread == now.visit.thread)
      return true;
    int32_t warp = getWarp(visit.thread);
    return warp == now.warp ? visit.epoch < now.afterBarrier
                            : visit.epoch <= now.clock[warp];
  }
  /// Whether no list is needed for one more load.
  bool isOfOneWarp(const Cell &cell, const Now &now) const {
    int32_t first = cell.loads.first.thread;
    return first == -1 || (first >= 0 && getWarp(first) == now.warp);
  }
  Now getNow(const Access &access, int32_t thread) const {
    int32_t warp = getWarp(thread);
    return {{thread, epochs[warp], access.place},
            warp,
            afterBarrier[warp],
            clocks[warp]};
  }
  Page &find(uintptr_t number);
  void cut(Page &page, unsigned digits);
  std::optional<Visit> findConflict(const OfWarp &accesses,
                                    const Now &now) const;
  std::optional<Visit> findConflict(const std::vector<OfWarp> &accesses,
                                    const Now &now) const;
  std::optional<Race> findRace(const Cell &cell, const Now &now,
                               AccessKind kind) const;
  /// Adds a thread to others of its warp; those before its last barrier are
  /// forgotten: whoever conflicts with them conflicts with this one.
  static void add(OfWarp &accesses, const Now &now) {
    Visit &first = accesses.first;
    if (first.thread < 0 || first.epoch < now.afterBarrier) {
      accesses = {now.visit, -1};
      return;
    }
    if (first.thread != now.visit.thread && accesses.other < 0)
      accesses.other = now.visit.thread;
    first.epoch = now.visit.epoch;
  }
  void add(std::vector<OfWarp> &accesses, const Now &now) const;
  void addLoad(Cell &cell, const Now &now);
  /// The list of a cell, which has one from here on.
  Several &getList(Cell &cell);
  const Several *findList(const Cell &cell) const;
  int32_t takeList();
  void forget(Cell &cell);
  std::optional<Race> note(Cell &cell, const Now &now, AccessKind kind);

  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages;
  /// Pages that were asked for last, by the last digits of their numbers: a
  /// thread goes back and forth between rows, scratch and shared memory.
  struct Recent {
    uintptr_t number = 0;
    Page *page = nullptr;
  };
  static constexpr uintptr_t kRecent = 64;
  std::array<Recent, kRecent> recent;
  uint32_t generation = 0;
  std::vector<Several> lists;
  std::vector<int32_t> freeLists;
  std::vector<Clock> clocks; ///< of each warp; its own epoch, too
  /// Of each warp its own epoch, and the first one behind its last barrier.
  std::vector<uint32_t> epochs, afterBarrier;
};

inline bool RaceCheck::noteLoad(const Access &access, int32_t thread) {
  uintptr_t from = access.begin() % kPage;
  uintptr_t to = from + static_cast<uintptr_t>(access.bytes);
  const Recent &found = recent[access.begin() / kPage % kRecent];
  if (!found.page || found.number != access.begin() / kPage || to > kPage)
    return false;
  unsigned digits = found.page->digits;
  if (((from | to) >> digits << digits) != (from | to))
    return false;
  Now now = getNow(access, thread);
  Cell *cells = found.page->cells.data();
  for (uintptr_t at = from >> digits; at != to >> digits; ++at) {
    Cell &cell = cells[at];
    if (cell.generation != generation || !isBefore(cell.store, now) ||
        !isOfOneWarp(cell, now))
      return false;
    add(cell.loads, now);
  }
  return true;
}

} // namespace sextant::runtime::emulator

#endif // SEXTANT_RUNTIME_EMULATOR_RACECHECK_H

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

  /// Forgets all accesses; from here on so many warps run.
  void begin(int warps);

  /// All threads of a warp have passed a barrier of the warp.
  void passBarrier(int warp);
  /// Adds what the warp did so far, and knows, to a clock.
  void release(int warp, Clock &clock);
  /// From here on the warp comes after what a clock knows.
  void acquire(int warp, const Clock &clock);

  /// Notes an access; gives an earlier one that it conflicts with, if any.
  std::optional<Race> note(const Access &access, int32_t warp, int32_t thread);

private:
  /// A thread that accessed a byte; none if it is negative.
  struct Visit {
    int32_t thread = -1, warp = 0;
    int32_t place = 0;
    uint32_t epoch = 0;
  };
  /// Accesses of one kind of threads of one warp since its last barrier. Two
  /// threads are enough: a third one conflicts with whatever these do.
  struct OfWarp {
    Visit first;
    int32_t other = -1;
  };
  /// Accesses that do not conflict with each other.
  struct Together {
    OfWarp warp;
    std::unique_ptr<std::vector<OfWarp>> elsewhere; ///< of further warps

    Together copy() const;
  };
  /// Who accessed some bytes, which were always accessed together.
  struct Accesses {
    Visit store;
    Together loads;
    std::unique_ptr<Together> changes; ///< atomic ones, if there are any

    Accesses copy() const;
  };
  /// Most accesses are of whole words. A word of which one byte was accessed
  /// alone is followed byte by byte from then on.
  static constexpr uintptr_t kWord = 4;
  struct Word {
    uint64_t generation = 0;
    Accesses whole;
    std::unique_ptr<std::array<Accesses, kWord>> bytes;

    void split();
  };
  static constexpr uintptr_t kPage = 4096;
  using Page = std::array<Word, kPage / kWord>;
  /// Pages that are kept from one block to the next, a few MB.
  static constexpr size_t kKept = 64;

  Word &find(uintptr_t number);
  bool isBefore(const Visit &visit, int32_t warp, int32_t thread) const;
  /// One of some accesses of a warp that is not before a thread's, if any.
  std::optional<Visit> findConflict(const OfWarp &accesses, int32_t warp,
                                    int32_t thread) const;
  std::optional<Visit> findConflict(const Together &accesses, int32_t warp,
                                    int32_t thread) const;
  std::optional<Race> note(Accesses &accesses, const Visit &visit,
                           AccessKind kind);
  void add(Together &accesses, const Visit &visit);

  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages;
  /// Pages that were asked for last, by the last digits of their numbers: a
  /// thread goes back and forth between rows, scratch and shared memory.
  struct Recent {
    uintptr_t number = 0;
    Page *page = nullptr;
  };
  std::array<Recent, 64> recent;
  uint64_t generation = 0;
  std::vector<Clock> clocks;          ///< of each warp; its own epoch, too
  std::vector<uint32_t> afterBarrier; ///< the first epoch behind its last one
};

} // namespace sextant::runtime::emulator

#endif // SEXTANT_RUNTIME_EMULATOR_RACECHECK_H

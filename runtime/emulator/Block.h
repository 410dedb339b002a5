//===- Block.h - Threads of a block, run as fibers --------------*- C++ -*-===//
//
// Code for a GPU, tested without one: the threads of a block are fibers, which
// run until they meet at an instruction of their warp or of the block. Which
// one runs next is drawn, and one warp is held back as long as another can run,
// so that what depends on an order that a GPU does not promise shows.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_EMULATOR_BLOCK_H
#define SEXTANT_RUNTIME_EMULATOR_BLOCK_H

#include "runtime/emulator/AsyncCopies.h"
#include "runtime/emulator/Fiber.h"
#include "runtime/emulator/TensorMemory.h"

namespace sextant::runtime::emulator {

inline constexpr int warpThreads = 32;

/// What a block is to do.
struct BlockWork {
  const ThreadCode *code;
  const int64_t *arguments;
  int64_t begin, end; ///< items
  void *scratch;
  int64_t scratchBytes;
  uint64_t seed;        ///< of the order of threads
  LaunchMemory *memory; ///< null: what it accesses of tensors is not checked
  bool checksMemory;    ///< bounds, and that what is loaded was stored
  bool checksRaces;
  bool checksBanks; ///< that rows of a matrix share no bank of shared memory
};

/// Where threads meet.
struct Meeting {
  enum class Kind {
    Shuffle,
    Ballot,
    Barrier,
    BlockBarrier,
    Arrival,
    MultiplyF16,
    MultiplyBF16,
    LoadMatrices,
    LoadTransposed,
    TurnMatrix
  };
  Kind kind = Kind::Barrier;
  int32_t place = 0;
  int32_t barrier = 0, threads = 0; ///< of a barrier of the block

  bool operator==(const Meeting &) const = default;
};

/// The threads of one block; a thread of the host has one, which runs one after
/// another.
class Block {
public:
  /// Runs all threads to their end, or to the first error, which it gives.
  std::string run(const BlockWork &work);

  int getThread() const { return running; }
  void *getShared() { return shared.data(); }
  /// What the running thread gets for what it gives; `choice`: the lane that a
  /// shuffle takes from.
  int32_t meet(const Meeting &meeting, int32_t given = 0, int32_t choice = 0);
  /// Likewise for what is more than a word: `given` and what is stored to
  /// `results` are those of TensorCores.h.
  void meet(const Meeting &meeting, const void *given, void *results);
  /// Notes that the running thread is about to load or store.
  void access(const Access &access);
  /// Copies of the running thread to shared memory, see WarpCalls.
  void copy(const AsyncCopy &copy, const void *from, int32_t given);
  void commitCopies() { copies.commit(running); }
  void waitForCopies(int32_t groups);

private:
  /// The threads of one warp. Sets of them are bits.
  struct Warp {
    uint32_t ended = 0, runnable = ~0u;
    /// The instruction where threads wait now, and how many have come.
    Meeting where;
    int firstToCome = 0, waiting = 0;
    std::array<int32_t, warpThreads> givens, choices, results;
    std::array<const void *, warpThreads> sources;
    std::array<void *, warpThreads> targets;
    /// The order in which threads run, and whose turn it is.
    std::array<int, warpThreads> order;
    int turn = 0;
  };
  /// A barrier of the block: what has come to it since it last opened.
  struct Barrier {
    int32_t expected = 0, come = 0;
    std::vector<int> waiting; ///< warps
    RaceCheck::Clock clock;
  };
  static constexpr int kBarriers = 16;
  /// A line of the memory that threads share, with the alignment of all of it.
  struct alignas(128) Line {
    uint8_t bytes[128];
  };

  static void runThread();
  void prepare(const BlockWork &work);
  Warp &getWarp() { return warps[static_cast<size_t>(running / warpThreads)]; }
  /// Lets another thread run.
  void yield();
  int chooseWarp();
  void complete(int number);
  void come(int number);
  void drawOrder(Warp &warp);
  uint64_t draw();
  std::string describeWaiting();
  std::string describe(const Meeting &meeting) const;
  void noteRows(const Warp &warp);
  bool checkMemory(const Access &access);
  void checkRace(const Access &access, int32_t thread);
  [[noreturn]] void stop(const std::string &what);

  BlockWork work = {};
  std::string failure;
  std::vector<std::unique_ptr<FiberStack>> stacks;
  std::vector<Context> contexts;
  Context caller = nullptr;
  int running = 0;
  std::vector<Warp> warps;
  int heldBack = 0;
  std::array<Barrier, kBarriers> barriers;
  uint64_t state = 0;

  std::vector<Line> shared;
  WrittenBytes ofShared, ofScratch;
  RecentInputs inputs;
  AsyncCopies copies;
  RaceCheck races;
};

} // namespace sextant::runtime::emulator

#endif // SEXTANT_RUNTIME_EMULATOR_BLOCK_H

//===- Emulator.cpp - Runs kernels for a GPU on the host ------------------===//

#include "runtime/emulator/Emulator.h"
#include "runtime/Checks.h"
#include "runtime/NarrowFloats.h"
#include "runtime/emulator/Approximation.h"
#include "runtime/emulator/Block.h"
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

using namespace sextant::runtime;
using namespace sextant::runtime::emulator;

static std::mutex failureMutex;
static std::string failure;

Status sextant::runtime::emulator::takeFailure() {
  std::lock_guard<std::mutex> lock(failureMutex);
  if (failure.empty())
    return {};
  return makeError(std::exchange(failure, {}));
}

bool sextant::runtime::emulator::checksTensors() {
  return isCheckRequested("races") || isCheckRequested("memory");
}

static uint64_t getSeed(const char *name) {
  const char *variable = std::getenv(name);
  return variable ? std::strtoull(variable, nullptr, 10) : 0;
}

/// How approximations are rounded in the blocks that a thread of the host runs.
static thread_local uint64_t theRounding = 0;

/// The block that a thread of the host runs. A pointer, which the calls below
/// find without asking whether it has been made.
static thread_local Block *theBlock = nullptr;

static Block &getBlock() { return *theBlock; }

/// How many items each block runs where races are checked, by its number and
/// the seed. Two items conflict in other ways in one block, where one comes
/// after the other with no more between them than the kernel has, than in two,
/// which nothing orders: so there are blocks of one and of several.
static constexpr int64_t itemsOfBlocks[] = {1, 2, 1, 3};

static void run(const ThreadCode *code, const int64_t *arguments, int64_t begin,
                int64_t end, void *scratch, int64_t scratchBytes) {
  BlockWork work = {.code = code,
                    .arguments = arguments,
                    .begin = begin,
                    .end = end,
                    .scratch = scratch,
                    .scratchBytes = scratchBytes,
                    .seed = 0,
                    .memory = LaunchMemory::find(arguments),
                    .checksMemory = isCheckRequested("memory"),
                    .checksRaces = isCheckRequested("races"),
                    .checksBanks = isCheckRequested("banks")};
  uint64_t seed = getSeed("SEXTANT_SCHEDULE");
  theRounding = getSeed("SEXTANT_ROUNDING");
  static thread_local Block ofThread;
  theBlock = &ofThread;
  bool checksItems = work.checksRaces && work.memory;
  uint64_t block = seed;
  for (int64_t item = begin; item < end; item = work.end) {
    int64_t most = end - item;
    if (checksItems)
      most = std::min(most, itemsOfBlocks[block++ % std::size(itemsOfBlocks)]);
    work.begin = item;
    work.end = item + most;
    work.seed = seed ^ (static_cast<uint64_t>(item) << 32);
    std::string wrong = getBlock().run(work);
    if (wrong.empty())
      continue;
    std::lock_guard<std::mutex> lock(failureMutex);
    if (failure.empty())
      failure = std::move(wrong);
    return;
  }
}

static constexpr WarpCalls kCalls = {
    run,
    []() -> int32_t { return getBlock().getThread(); },
    [](int32_t value, int32_t source, int32_t place) {
      return getBlock().meet({Meeting::Kind::Shuffle, place}, value, source);
    },
    [](int32_t condition, int32_t place) {
      return getBlock().meet({Meeting::Kind::Ballot, place}, condition);
    },
    [](int32_t place) {
      (void)getBlock().meet({Meeting::Kind::Barrier, place});
    },
    [](const void *address, int32_t bytes, int32_t alignment, AccessKind kind,
       int32_t place) {
      getBlock().access({address, bytes, kind, place, alignment});
    },
    []() { return getBlock().getShared(); },
    [](int32_t barrier, int32_t threads, int32_t place) {
      (void)getBlock().meet(
          {Meeting::Kind::BlockBarrier, place, barrier, threads});
    },
    [](int32_t barrier, int32_t threads, int32_t place) {
      (void)getBlock().meet({Meeting::Kind::Arrival, place, barrier, threads});
    },
    [](const int32_t *operands, float *sums, int32_t place) {
      getBlock().meet({Meeting::Kind::MultiplyF16, place}, operands, sums);
    },
    [](const int32_t *operands, float *sums, int32_t place) {
      getBlock().meet({Meeting::Kind::MultiplyBF16, place}, operands, sums);
    },
    [](const void *row, int32_t *words, int32_t isTransposed, int32_t place) {
      Meeting::Kind kind = isTransposed ? Meeting::Kind::LoadTransposed
                                        : Meeting::Kind::LoadMatrices;
      getBlock().meet({kind, place}, row, words);
    },
    [](int32_t word, int32_t place) {
      return getBlock().meet({Meeting::Kind::TurnMatrix, place}, word);
    },
    [](void *to, const void *from, int32_t bytes, int32_t given,
       int32_t place) { getBlock().copy({to, bytes, place}, from, given); },
    []() { getBlock().commitCopies(); },
    [](int32_t groups) { getBlock().waitForCopies(groups); },
    [](float x) { return approximateExp2(x, theRounding); },
    [](float x) { return approximateTanh(x, theRounding); },
    [](float x) { return approximateReciprocal(x, theRounding); },
    [](float high, float low) { return toWord(high, low, encodeF16); },
    [](float high, float low) { return toWord(high, low, encodeBF16); },
    [](float x) { return approximateLog2(x, theRounding); },
    [](float x) { return approximateSine(x, /*isCosine=*/false, theRounding); },
    [](float x) { return approximateSine(x, /*isCosine=*/true, theRounding); },
    [](float x) { return approximateSquareRoot(x, theRounding); },
};

const WarpCalls &sextant::runtime::emulator::getWarpCalls() { return kCalls; }

bool sextant::runtime::emulator::bind(const SharedObject &object) {
  void *calls = object.findIfAny(warpCallsSymbol);
  if (calls)
    *static_cast<const WarpCalls **>(calls) = &kCalls;
  return calls;
}

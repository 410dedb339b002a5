//===- Warp.cpp - Threads of a warp, run as fibers ------------------------===//
//
// A thread that comes to an instruction of the whole warp notes what it gives
// and lets another run. The last one to come computes what all get; then they
// go on, in an order that is drawn.
//
//===----------------------------------------------------------------------===//

#include "runtime/emulator/Warp.h"
#include "runtime/Checks.h"
#include "runtime/emulator/Fiber.h"
#include "runtime/emulator/RaceCheck.h"
#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <xmmintrin.h>

using namespace sextant::runtime;
using namespace sextant::runtime::emulator;

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

static std::mutex failureMutex;
static std::string failure;

static void fail(std::string message) {
  std::lock_guard<std::mutex> lock(failureMutex);
  if (failure.empty())
    failure = std::move(message);
}

Status sextant::runtime::emulator::takeFailure() {
  std::lock_guard<std::mutex> lock(failureMutex);
  if (failure.empty())
    return {};
  return makeError(std::exchange(failure, {}));
}

//===----------------------------------------------------------------------===//
// Warps
//===----------------------------------------------------------------------===//

static std::atomic<uint64_t> theSeed = 1;

void sextant::runtime::emulator::setSeed(uint64_t seed) { theSeed = seed; }

namespace {

enum class Meeting { Shuffle, Ballot, Barrier };

/// One warp; a thread of the host has one, and runs one kernel after another.
class Warp {
public:
  void run(const char *kernel, ThreadFunction function,
           const int64_t *arguments, int64_t begin, int64_t end, void *scratch);
  int getThread() const { return running; }
  /// What the running thread gets for what it gives; `choice`: the thread that
  /// a shuffle takes from.
  int32_t meet(Meeting meeting, int32_t place, int32_t given, int32_t choice);
  /// Notes that the running thread is about to load or store.
  void access(const void *address, int32_t bytes, bool isStore, int32_t place);

private:
  static void runThread();
  /// Lets another thread run, in the drawn order.
  void yield();
  void switchTo(int thread);
  void complete(Meeting meeting);
  void drawOrder();
  uint64_t draw();
  [[noreturn]] void stop(const std::string &what);

  const char *kernel = nullptr;
  ThreadFunction function = nullptr;
  const int64_t *arguments = nullptr;
  int64_t begin = 0, end = 0;
  void *scratch = nullptr;

  std::array<FiberStack, warpThreads> stacks;
  std::array<Context, warpThreads> contexts;
  Context caller = nullptr;
  int running = 0;
  /// Threads in the order in which they run, and where each stands in it.
  std::array<int, warpThreads> order, turns;
  uint64_t state = 0;

  RaceCheck races;
  bool checksRaces = false;

  /// Of the instruction where threads wait now.
  Meeting where = Meeting::Barrier;
  int32_t place = 0;
  int firstToCome = 0, waiting = 0;
  uint64_t meetings = 0;
  uint32_t ended = 0; ///< threads that have, as bits
  std::array<int32_t, warpThreads> givens, choices, results;
};

} // namespace

static Warp &getWarp() {
  static thread_local Warp warp;
  return warp;
}

static std::string describe(Meeting meeting, int32_t place) {
  static constexpr const char *names[] = {"a shuffle", "a ballot", "a barrier"};
  return std::string(names[static_cast<int>(meeting)]) + " (number " +
         std::to_string(place) + ")";
}

/// splitmix64
uint64_t Warp::draw() {
  uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

void Warp::drawOrder() {
  for (int i = warpThreads - 1; i > 0; --i)
    std::swap(order[i], order[draw() % (i + 1)]);
  for (int i = 0; i != warpThreads; ++i)
    turns[order[i]] = i;
}

void Warp::switchTo(int thread) {
  int from = std::exchange(running, thread);
  if (from != thread)
    switchContext(&contexts[from], contexts[thread]);
}

void Warp::yield() {
  int turn = turns[running];
  do
    turn = (turn + 1) % warpThreads;
  while (ended >> order[turn] & 1);
  switchTo(order[turn]);
}

void Warp::stop(const std::string &what) {
  fail("kernel '" + std::string(kernel) + "': " + what);
  Context abandoned;
  switchContext(&abandoned, caller);
  __builtin_unreachable();
}

/// Where the fiber of each thread begins.
void Warp::runThread() {
  Warp &warp = getWarp();
  warp.function(warp.arguments, warp.begin, warp.end, warp.scratch);
  // Nobody waits for one that has ended: a thread that still comes somewhere
  // finds that out there, and one that waits already is found out here.
  if (warp.waiting != 0)
    warp.stop("thread " + std::to_string(warp.running) +
              " of a warp has ended, thread " +
              std::to_string(warp.firstToCome) + " waits at " +
              describe(warp.where, warp.place));
  warp.ended |= 1u << warp.running;
  if (warp.ended == ~0u) {
    Context done;
    switchContext(&done, warp.caller);
  }
  warp.yield();
  __builtin_unreachable(); // nobody switches to a thread that has ended
}

void Warp::access(const void *address, int32_t bytes, bool isStore,
                  int32_t place) {
  if (!checksRaces)
    return;
  if (std::string race = races.note(address, bytes, isStore, running, place);
      !race.empty())
    stop(race);
}

void Warp::complete(Meeting meeting) {
  if (meeting == Meeting::Barrier)
    races.passBarrier();
  if (meeting == Meeting::Shuffle)
    for (int i = 0; i != warpThreads; ++i)
      results[i] = givens[choices[i] & (warpThreads - 1)];
  if (meeting != Meeting::Ballot)
    return;
  uint32_t bits = 0;
  for (int i = 0; i != warpThreads; ++i)
    bits |= static_cast<uint32_t>(givens[i] & 1) << i;
  results.fill(static_cast<int32_t>(bits));
}

int32_t Warp::meet(Meeting meeting, int32_t at, int32_t given, int32_t choice) {
  if (ended != 0)
    stop("thread " + std::to_string(running) + " of a warp waits at " +
         describe(meeting, at) + " when others have ended");
  if (waiting == 0) {
    where = meeting;
    place = at;
    firstToCome = running;
  } else if (where != meeting || place != at) {
    stop("threads of a warp meet at different instructions: thread " +
         std::to_string(firstToCome) + " at " + describe(where, place) +
         ", thread " + std::to_string(running) + " at " +
         describe(meeting, at));
  }
  givens[running] = given;
  choices[running] = choice;
  uint64_t own = meetings;
  if (++waiting == warpThreads) {
    complete(meeting);
    waiting = 0;
    ++meetings;
    drawOrder();
  }
  while (meetings == own)
    yield();
  return results[running];
}

/// Denormals are zero, as in code for the CPU.
static constexpr unsigned flushing = 0x9fc0;

void Warp::run(const char *kernel, ThreadFunction function,
               const int64_t *arguments, int64_t begin, int64_t end,
               void *scratch) {
  this->kernel = kernel;
  this->function = function;
  this->arguments = arguments;
  this->begin = begin;
  this->end = end;
  this->scratch = scratch;
  waiting = 0;
  ended = 0;
  races.passBarrier();
  checksRaces = isCheckRequested("races");
  state = theSeed ^ static_cast<uint64_t>(begin);
  for (int i = 0; i != warpThreads; ++i) {
    if (!stacks[i])
      return fail("no memory for the stacks of emulated threads");
    contexts[i] = stacks[i].start(runThread, i);
    order[i] = i;
  }
  drawOrder();
  unsigned mode = _mm_getcsr();
  _mm_setcsr(flushing);
  running = order[0];
  switchContext(&caller, contexts[running]);
  _mm_setcsr(mode);
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

static constexpr WarpCalls kCalls = {
    [](const char *kernel, ThreadFunction function, const int64_t *arguments,
       int64_t begin, int64_t end, void *scratch) {
      getWarp().run(kernel, function, arguments, begin, end, scratch);
    },
    []() -> int32_t { return getWarp().getThread(); },
    [](int32_t value, int32_t source, int32_t place) {
      return getWarp().meet(Meeting::Shuffle, place, value, source);
    },
    [](int32_t condition, int32_t place) {
      return getWarp().meet(Meeting::Ballot, place, condition, 0);
    },
    [](int32_t place) { (void)getWarp().meet(Meeting::Barrier, place, 0, 0); },
    [](const void *address, int32_t bytes, int32_t isStore, int32_t place) {
      getWarp().access(address, bytes, isStore != 0, place);
    },
};

const WarpCalls &sextant::runtime::emulator::getWarpCalls() { return kCalls; }

bool sextant::runtime::emulator::bind(const SharedObject &object) {
  void *calls = object.findIfAny(warpCallsSymbol);
  if (calls)
    *static_cast<const WarpCalls **>(calls) = &kCalls;
  return calls;
}

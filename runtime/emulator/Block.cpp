//===- Block.cpp - Threads of a block, run as fibers ----------------------===//
//
// A thread that comes to an instruction of its warp notes what it gives and
// lets another run. The last one to come computes what all get; then they can
// go on, in an order that is drawn. Only there may another warp take its turn:
// what threads do between two meetings is the same in every order, or a race,
// which is found in any.
//
//===----------------------------------------------------------------------===//

#include "runtime/emulator/Block.h"
#include "runtime/NarrowFloats.h"
#include "runtime/emulator/TensorCores.h"
#include <algorithm>
#include <cstring>
#include <utility>
#include <xmmintrin.h>

using namespace sextant::runtime;
using namespace sextant::runtime::emulator;

/// The block of the calling thread of the host while it runs.
static thread_local Block *theBlock;

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

/// splitmix64
uint64_t Block::draw() {
  uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

void Block::drawOrder(Warp &warp) {
  // Two numbers below i + 1 of each draw: the high half of its product with a
  // half. The remainder of a division would take longer than what threads do
  // between two meetings.
  uint64_t drawn = 0;
  for (uint32_t i = warpThreads - 1; i > 0; --i, drawn >>= 32) {
    if (i % 2 != 0)
      drawn = draw();
    std::swap(warp.order[i], warp.order[(drawn & 0xffffffff) * (i + 1) >> 32]);
  }
  warp.turn = 0;
}

/// A warp of which a thread can run, or -1.
int Block::chooseWarp() {
  int count = static_cast<int>(warps.size());
  int found = -1, candidates = 0;
  for (int number = 0; number != count; ++number)
    if (number != heldBack && warps[number].runnable)
      if (draw() % ++candidates == 0)
        found = number;
  return found >= 0 || !warps[heldBack].runnable ? found : heldBack;
}

void Block::yield() {
  int number = running / warpThreads;
  // Threads of a warp come to its next meeting together.
  const Warp &own = warps[number];
  if (!own.runnable || own.waiting == 0)
    number = warps.size() == 1 && own.runnable ? number : chooseWarp();
  if (number < 0)
    stop("no thread of the block can run: " + describeWaiting());
  Warp &warp = warps[number];
  while (!(warp.runnable >> warp.order[warp.turn] & 1))
    warp.turn = (warp.turn + 1) % warpThreads;
  int thread = number * warpThreads + warp.order[warp.turn];
  int from = std::exchange(running, thread);
  if (from != thread)
    switchContext(&contexts[from], contexts[thread]);
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

std::string Block::describe(const Meeting &meeting) const {
  static constexpr const char *names[] = {"a shuffle",
                                          "a ballot",
                                          "a barrier",
                                          "a barrier of the block",
                                          "an arrival at a barrier",
                                          "a product of matrices",
                                          "a product of matrices",
                                          "a load of matrices",
                                          "a load of transposed matrices",
                                          "a turn of a matrix"};
  return std::string(names[static_cast<int>(meeting.kind)]) + " (" +
         describePlace(*work.code, "number", meeting.place) + ")";
}

std::string Block::describeWaiting() {
  std::string text;
  for (size_t i = 0; i != warps.size(); ++i) {
    const Warp &warp = warps[i];
    text += (i ? ", warp " : "warp ") + std::to_string(i);
    if (warp.ended == ~0u) {
      text += " has ended";
      continue;
    }
    const Barrier &barrier = barriers[warp.where.barrier];
    text += " waits at " + describe(warp.where) + " for barrier " +
            std::to_string(warp.where.barrier) + ", where " +
            std::to_string(barrier.come) + " of " +
            std::to_string(barrier.expected) + " threads have come";
  }
  return text;
}

void Block::stop(const std::string &what) {
  failure = "kernel '" + std::string(work.code->kernel) + "': " + what;
  Context abandoned;
  switchContext(&abandoned, caller);
  __builtin_unreachable();
}

//===----------------------------------------------------------------------===//
// Meetings
//===----------------------------------------------------------------------===//

int32_t Block::meet(const Meeting &meeting, int32_t given, int32_t choice) {
  Warp &warp = getWarp();
  int lane = running % warpThreads;
  if (warp.ended != 0)
    stop("thread " + std::to_string(running) + " of a warp waits at " +
         describe(meeting) + " when others have ended");
  if (warp.waiting == 0) {
    warp.where = meeting;
    warp.firstToCome = running;
  } else if (warp.where != meeting) {
    stop("threads of a warp meet at different instructions: thread " +
         std::to_string(warp.firstToCome) + " at " + describe(warp.where) +
         ", thread " + std::to_string(running) + " at " + describe(meeting));
  }
  warp.givens[lane] = given;
  warp.choices[lane] = choice;
  warp.runnable &= ~(1u << lane);
  if (++warp.waiting == warpThreads) {
    warp.waiting = 0;
    complete(running / warpThreads);
    drawOrder(warp);
  }
  yield();
  return warp.results[lane];
}

void Block::meet(const Meeting &meeting, const void *given, void *results) {
  auto lane = static_cast<size_t>(running % warpThreads);
  getWarp().sources[lane] = given;
  getWarp().targets[lane] = results;
  (void)meet(meeting);
}

void Block::complete(int number) {
  Warp &warp = warps[number];
  warp.runnable = ~0u;
  switch (warp.where.kind) {
  case Meeting::Kind::Shuffle:
    for (int i = 0; i != warpThreads; ++i)
      warp.results[i] = warp.givens[warp.choices[i] & (warpThreads - 1)];
    return;
  case Meeting::Kind::Ballot: {
    uint32_t bits = 0;
    for (int i = 0; i != warpThreads; ++i)
      bits |= static_cast<uint32_t>(warp.givens[i] & 1) << i;
    warp.results.fill(static_cast<int32_t>(bits));
    return;
  }
  case Meeting::Kind::Barrier:
    return races.passBarrier(number);
  case Meeting::Kind::BlockBarrier:
    races.passBarrier(number);
    warp.runnable = 0;
    return come(number);
  case Meeting::Kind::Arrival:
    return come(number);
  case Meeting::Kind::MultiplyF16:
    return multiplyFragments(warp.sources, warp.targets, decodeF16);
  case Meeting::Kind::MultiplyBF16:
    return multiplyFragments(warp.sources, warp.targets, decodeBF16);
  case Meeting::Kind::LoadMatrices:
  case Meeting::Kind::LoadTransposed:
    noteRows(warp);
    return loadFragments(warp.sources, warp.targets,
                         warp.where.kind == Meeting::Kind::LoadTransposed);
  case Meeting::Kind::TurnMatrix:
    warp.results = turnMatrix(warp.givens);
    return;
  }
}

void Block::come(int number) {
  const Meeting &where = warps[number].where;
  std::string name = describe(where);
  if (where.barrier < 0 || where.barrier >= kBarriers)
    stop("barrier " + std::to_string(where.barrier) + " at " + name +
         ": a block has " + std::to_string(kBarriers));
  Barrier &barrier = barriers[where.barrier];
  int32_t all = static_cast<int32_t>(warps.size()) * warpThreads;
  if (where.threads <= 0 || where.threads % warpThreads || where.threads > all)
    stop("barrier " + std::to_string(where.barrier) + " at " + name +
         " expects " + std::to_string(where.threads) +
         " threads, which are not whole warps of the block");
  if (barrier.come != 0 && barrier.expected != where.threads)
    stop("barrier " + std::to_string(where.barrier) + " at " + name +
         " expects " + std::to_string(where.threads) +
         " threads, others that have come expect " +
         std::to_string(barrier.expected));
  barrier.expected = where.threads;
  barrier.come += warpThreads;
  races.release(number, barrier.clock);
  if (where.kind == Meeting::Kind::BlockBarrier)
    barrier.waiting.push_back(number);
  if (barrier.come != barrier.expected)
    return;
  for (int waiting : barrier.waiting) {
    races.acquire(waiting, barrier.clock);
    warps[waiting].runnable = ~0u;
  }
  barrier = {};
  heldBack = static_cast<int>(draw() % warps.size());
}

//===----------------------------------------------------------------------===//
// Accesses
//===----------------------------------------------------------------------===//

/// What is wrong with an access to what a copy is still to bring.
static std::string describe(const InFlight &copy, const Access &access,
                            const ThreadCode &code) {
  return std::string(access.kind == AccessKind::Store
                         ? "stores to"
                         : describeNow(access.kind)) +
         " shared memory that a copy of thread " + std::to_string(copy.thread) +
         " is still to bring (" + describePlace(code, "copy", copy.place) +
         "): nobody has waited for it";
}

/// A GPU ends with an error where this processor takes any address.
static bool isAligned(const Access &access) {
  return (access.begin() & (static_cast<uintptr_t>(access.alignment) - 1)) == 0;
}

static std::string describeAddress(const Access &access, int32_t thread,
                                   const ThreadCode &code) {
  return "thread " + std::to_string(thread) + " " + describeNow(access.kind) +
         " " + std::to_string(access.bytes) +
         " bytes at an address that is no multiple of " +
         std::to_string(access.alignment) + " (" +
         describePlace(code, "access", access.place) + ")";
}

void Block::access(const Access &access) {
  if (!isAligned(access))
    stop(describeAddress(access, running, *work.code));
  if (!work.checksMemory && !work.checksRaces)
    return;
  // Most accesses are loads of the block's own memory, or of an input, with
  // which nothing is wrong: they take a few instructions.
  bool holds = access.isLoad() && !copies.isAnyUnderWay() &&
               (ofScratch.holds(access) || ofShared.holds(access));
  if (holds && (!work.checksRaces || races.noteLoad(access, running)))
    return;
  if (access.isLoad() && inputs.hold(access, work.checksMemory))
    return;
  if (checkMemory(access))
    checkRace(access, running);
}

/// Whether the launch may change what is accessed: else nothing conflicts.
bool Block::checkMemory(const Access &access) {
  auto fail = [&](const std::string &what) {
    stop("thread " + std::to_string(running) + " " + what + " (" +
         describePlace(*work.code, "access", access.place) + ")");
  };
  bool isOwn = false;
  for (WrittenBytes *memory : {&ofShared, &ofScratch}) {
    if (!memory->contains(access))
      continue;
    isOwn = true;
    if (std::optional<InFlight> copy = copies.find(access))
      fail(::describe(*copy, access, *work.code));
    if (!memory->note(access) && work.checksMemory)
      fail("loads " + std::to_string(access.bytes) + " bytes of " +
           (memory == &ofShared ? "shared" : "scratch") +
           " memory that nobody has written");
  }
  if (!work.memory || isOwn)
    return true;
  const Operand *operand = work.memory->findOperand(access);
  std::string wrong;
  if (work.checksMemory)
    wrong = work.memory->checkBounds(access, operand, ofScratch, ofShared);
  if (operand && work.checksMemory && wrong.empty())
    work.memory->noteWritten(access, *operand, *work.code);
  bool changes = !operand || operand->changes || !access.isLoad();
  if (operand && work.checksRaces && changes && wrong.empty())
    wrong = work.memory->checkRace(
        access, *operand, static_cast<int32_t>(work.begin), *work.code);
  if (!wrong.empty())
    fail(wrong);
  if (!changes)
    inputs.add(*operand);
  return changes;
}

void Block::checkRace(const Access &access, int32_t thread) {
  if (!work.checksRaces)
    return;
  std::optional<Race> race = races.note(access, thread);
  if (!race)
    return;
  int32_t warp = thread / warpThreads;
  stop(std::string("threads of a ") + (race->warp == warp ? "warp" : "block") +
       " access the same memory without a barrier between them: thread " +
       std::to_string(race->thread) + " " + describeBefore(race->kind) + " (" +
       describePlace(*work.code, "access", race->place) + "), thread " +
       std::to_string(thread) + " " + describeNow(access.kind) + " (" +
       describePlace(*work.code, "access", access.place) + ")");
}

/// In how many steps a GPU reads the rows of a matrix, each of four banks:
/// those that share a bank wait for each other.
static int countSteps(const void *const *rows) {
  constexpr uintptr_t bankBytes = 4, banks = 32;
  std::array<int, banks> rowsOf = {};
  for (int i = 0; i != matrixRows; ++i) {
    // A row that several threads name is read once.
    if (std::find(rows, rows + i, rows[i]) != rows + i)
      continue;
    auto row = reinterpret_cast<uintptr_t>(rows[i]);
    for (uintptr_t byte = 0; byte != matrixRowBytes; byte += bankBytes)
      ++rowsOf[(row + byte) / bankBytes % banks];
  }
  return *std::max_element(rowsOf.begin(), rowsOf.end());
}

/// Several threads get elements of a row; what conflicts with all of them
/// conflicts with one of the first two.
void Block::noteRows(const Warp &warp) {
  if (work.checksBanks)
    for (size_t lane = 0; lane != warpThreads; lane += matrixRows)
      if (int steps = countSteps(&warp.sources[lane]); steps > 1)
        stop("the rows of a matrix are read in " + std::to_string(steps) +
             " steps, since they share banks of shared memory (" +
             describePlace(*work.code, "access", warp.where.place) + ")");
  bool isTransposed = warp.where.kind == Meeting::Kind::LoadTransposed;
  int first = running / warpThreads * warpThreads;
  for (int lane = 0; lane != warpThreads; ++lane) {
    Access row = {warp.sources[static_cast<size_t>(lane)], matrixRowBytes,
                  AccessKind::Load, warp.where.place, matrixRowBytes};
    if (!isAligned(row))
      stop(describeAddress(row, first + lane, *work.code));
    if (!work.checksMemory && !work.checksRaces)
      continue;
    if (!ofShared.contains(row))
      stop("thread " + std::to_string(first + lane) +
           " loads a row of a matrix from outside of shared memory (" +
           describePlace(*work.code, "access", row.place) + ")");
    (void)checkMemory(row);
    int number = lane % matrixRows;
    int thread = first + (isTransposed ? number / 2 : 4 * number);
    checkRace(row, thread);
    checkRace(row, thread + (isTransposed ? 4 : 1));
  }
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

void Block::copy(const AsyncCopy &copy, const void *from, int32_t given) {
  if (given < 0 || given > copy.bytes)
    stop("a copy of " + std::to_string(copy.bytes) + " bytes is given " +
         std::to_string(given) + " (" +
         describePlace(*work.code, "copy", copy.place) + ")");
  if ((reinterpret_cast<uintptr_t>(copy.to) |
       reinterpret_cast<uintptr_t>(from)) %
      static_cast<uintptr_t>(copy.bytes))
    stop("a copy of " + std::to_string(copy.bytes) +
         " bytes begins at no multiple of them (" +
         describePlace(*work.code, "copy", copy.place) + ")");
  if (given > 0)
    access({from, given, AccessKind::Load, copy.place});
  Access to = {copy.to, copy.bytes, AccessKind::Store, copy.place};
  if ((work.checksMemory || work.checksRaces) && !ofShared.contains(to))
    stop("thread " + std::to_string(running) +
         " copies to memory that is not shared (" +
         describePlace(*work.code, "copy", copy.place) + ")");
  access(to);
  copies.begin(running, copy, from, given);
}

void Block::waitForCopies(int32_t groups) {
  for (const AsyncCopy &copy : copies.wait(running, groups))
    access({copy.to, copy.bytes, AccessKind::Store, copy.place});
}

//===----------------------------------------------------------------------===//
// A run
//===----------------------------------------------------------------------===//

/// Where the fiber of each thread begins.
void Block::runThread() {
  Block &block = *theBlock;
  const BlockWork &work = block.work;
  work.code->function(work.arguments, work.begin, work.end, work.scratch);
  // Nobody waits for one that has ended: a thread that still comes somewhere
  // finds that out there, and one that waits already is found out here.
  Warp &warp = block.getWarp();
  if (warp.waiting != 0)
    block.stop("thread " + std::to_string(block.running) +
               " of a warp has ended, thread " +
               std::to_string(warp.firstToCome) + " waits at " +
               block.describe(warp.where));
  uint32_t own = 1u << (block.running % warpThreads);
  warp.ended |= own;
  warp.runnable &= ~own;
  if (std::all_of(block.warps.begin(), block.warps.end(),
                  [](const Warp &other) { return other.ended == ~0u; })) {
    Context done;
    switchContext(&done, block.caller);
  }
  block.yield();
  __builtin_unreachable(); // nobody switches to a thread that has ended
}

void Block::prepare(const BlockWork &given) {
  work = given;
  failure.clear();
  state = work.seed;
  auto count = static_cast<size_t>(work.code->warps);
  warps.assign(count, Warp());
  barriers.fill(Barrier());
  races.begin(work.code->warps);
  // Contents of a fresh block are undefined: NaN, as every float.
  auto lines = static_cast<size_t>(work.code->sharedBytes) / sizeof(Line) + 1;
  shared.resize(lines);
  std::memset(shared.data(), 0xff, lines * sizeof(Line));
  ofShared = WrittenBytes(shared.data(), work.code->sharedBytes);
  if (work.checksMemory || work.checksRaces)
    ofScratch = WrittenBytes(work.scratch, work.scratchBytes);
  inputs.clear();
  copies.clear(work.code->warps * warpThreads);
  contexts.resize(count * warpThreads);
  while (stacks.size() < contexts.size())
    stacks.push_back(std::make_unique<FiberStack>());
  for (Warp &warp : warps) {
    for (int i = 0; i != warpThreads; ++i)
      warp.order[i] = i;
    drawOrder(warp);
  }
  heldBack = static_cast<int>(draw() % count);
}

/// Denormals are zero, as in code for the CPU.
static constexpr unsigned flushing = 0x9fc0;

std::string Block::run(const BlockWork &given) {
  prepare(given);
  for (size_t i = 0; i != contexts.size(); ++i) {
    if (!*stacks[i])
      return "no memory for the stacks of emulated threads";
    contexts[i] = stacks[i]->start(runThread, static_cast<unsigned>(i));
  }
  theBlock = this;
  unsigned mode = _mm_getcsr();
  _mm_setcsr(flushing);
  int number = chooseWarp();
  running = number * warpThreads + warps[number].order[0];
  switchContext(&caller, contexts[running]);
  _mm_setcsr(mode);
  return failure;
}

//===- TensorCoresTest.cpp - Emulated tensor cores and copies -------------===//
//
// What a GPU's instructions on matrices do, against plain loops and the indices
// that NVIDIA's manual of PTX states for elements of a fragment; then faults in
// the use of copies, which must be found.
//
//===----------------------------------------------------------------------===//

#include "runtime/emulator/TensorCores.h"
#include "runtime/NarrowFloats.h"
#include "runtime/emulator/Approximation.h"
#include "runtime/emulator/Emulator.h"
#include "gtest/gtest.h"
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

using namespace sextant::runtime;
using namespace sextant::runtime::emulator;

namespace {
constexpr int kLanes = 32;
/// A fragment of 16-bit elements: `elements` per lane, two in a word.
template <int elements> using Words = std::array<uint32_t, elements / 2>;

/// A type of elements.
struct Format {
  uint16_t (*encode)(double);
  double (*decode)(uint16_t);
};
constexpr Format kF16 = {encodeF16, decodeF16};
constexpr Format kBF16 = {encodeBF16, decodeBF16};

/// A matrix whose elements are exact in both.
template <int rows, int columns> struct Matrix {
  float at[rows][columns];

  explicit Matrix(uint32_t seed) {
    std::mt19937 engine(seed);
    std::uniform_int_distribution<int> distribution(-64, 64);
    for (auto &row : at)
      for (float &element : row)
        element = static_cast<float>(distribution(engine)) / 16;
  }
};

void setElement(uint32_t *words, int number, uint16_t bits) {
  words[number / 2] |= uint32_t(bits) << (16 * (number % 2));
}
} // namespace

// As the manual numbers them: groupID and threadID_in_group of a lane, elements
// a0 .. a7, b0 .. b3, c0 .. c3 of m16n8k16.
static int groupOf(int lane) { return lane >> 2; }
static int placeOf(int lane) { return lane % 4; }
static int rowOfA(int lane, int i) {
  bool isUpper = (i >= 0 && i < 2) || (i >= 4 && i < 6);
  return isUpper ? groupOf(lane) : groupOf(lane) + 8;
}
static int columnOfA(int lane, int i) {
  return placeOf(lane) * 2 + (i & 1) + (i >= 4 ? 8 : 0);
}
static int rowOfB(int lane, int i) {
  return placeOf(lane) * 2 + (i & 1) + (i >= 2 ? 8 : 0);
}
static int columnOfB(int lane, int) { return groupOf(lane); }
static int rowOfC(int lane, int i) {
  return i < 2 ? groupOf(lane) : groupOf(lane) + 8;
}
static int columnOfC(int lane, int i) { return placeOf(lane) * 2 + (i & 1); }

static void expectProducts(const Format &format) {
  Matrix<16, 16> a(1);
  Matrix<16, 8> b(2), c(3);
  struct Operands {
    Words<8> a = {};
    Words<4> b = {};
    std::array<float, 4> c = {};
  };
  std::array<Operands, kLanes> operands = {};
  std::array<std::array<float, 4>, kLanes> results = {};
  LaneSources sources;
  LaneTargets targets;
  for (int lane = 0; lane != kLanes; ++lane) {
    Operands &own = operands[lane];
    for (int i = 0; i != 8; ++i)
      setElement(own.a.data(), i,
                 format.encode(a.at[rowOfA(lane, i)][columnOfA(lane, i)]));
    for (int i = 0; i != 4; ++i) {
      setElement(own.b.data(), i,
                 format.encode(b.at[rowOfB(lane, i)][columnOfB(lane, i)]));
      own.c[i] = c.at[rowOfC(lane, i)][columnOfC(lane, i)];
    }
    sources[lane] = &own;
    targets[lane] = results[lane].data();
  }
  multiplyFragments(sources, targets, format.decode);
  for (int lane = 0; lane != kLanes; ++lane)
    for (int i = 0; i != 4; ++i) {
      int row = rowOfC(lane, i), column = columnOfC(lane, i);
      float want = c.at[row][column];
      for (int k = 0; k != 16; ++k)
        want += a.at[row][k] * b.at[k][column];
      EXPECT_EQ(results[lane][i], want) << lane << " " << i;
    }
}

TEST(TensorCores, FragmentsMultiplyAsTheManualStates) {
  expectProducts(kF16);
  expectProducts(kBF16);
}

/// The sum of the four products of two elements that a row and a column have,
/// which are zero elsewhere, and a number.
static float multiplyFour(const Format &format, double a, double b, float c) {
  struct {
    std::array<uint32_t, 6> words = {};
    std::array<float, 4> c = {};
  } operands;
  operands.words[0] = format.encode(a);
  operands.words[4] = format.encode(b);
  operands.c = {c, c, c, c};
  std::array<float, 4> result;
  LaneSources sources;
  LaneTargets targets;
  sources.fill(&operands);
  targets.fill(result.data());
  multiplyFragments(sources, targets, format.decode);
  return result[0];
}

TEST(TensorCores, SumsAreCutOffTowardsZero) {
  // 2^-28 on top of -1.
  EXPECT_EQ(multiplyFour(kBF16, 1, 0x1p-30, -1), -0x1.fffffep-1F);
  EXPECT_EQ(multiplyFour(kF16, 0x1p-15, 0x1p-15, -1), -0x1.fffffep-1F);
}

TEST(TensorCores, DenormalsOfF16Count) {
  EXPECT_EQ(multiplyFour(kF16, 0x1p-24, 0x1.8p-23, 0), 0x1.8p-45F);
  EXPECT_EQ(multiplyFour(kF16, 0x1p-24, 32768, 1), 1 + 0x1p-7F);
}

TEST(TensorCores, MatricesAreLoadedByRows) {
  std::array<std::array<uint16_t, 8>, kLanes> rows;
  LaneSources sources;
  for (int lane = 0; lane != kLanes; ++lane) {
    for (int column = 0; column != 8; ++column)
      rows[lane][column] = static_cast<uint16_t>(100 * lane + column);
    sources[lane] = rows[lane].data();
  }
  for (bool isTransposed : {false, true}) {
    std::array<std::array<uint32_t, 4>, kLanes> words;
    LaneTargets targets;
    for (int lane = 0; lane != kLanes; ++lane)
      targets[lane] = words[lane].data();
    loadFragments(sources, targets, isTransposed);
    for (int lane = 0; lane != kLanes; ++lane)
      for (int element = 0; element != 8; ++element) {
        int matrix = element / 2, along = 2 * placeOf(lane) + element % 2;
        int row = isTransposed ? along : groupOf(lane);
        int column = isTransposed ? groupOf(lane) : along;
        uint32_t got = words[lane][matrix] >> (16 * (element % 2)) & 0xffff;
        EXPECT_EQ(got, 100U * (8 * matrix + row) + column);
      }
  }
}

TEST(TensorCores, ExponentialsAreOffByWhatIsDocumented) {
  std::mt19937 engine(5);
  std::uniform_real_distribution<float> distribution(-120, 20);
  double largest = 0;
  int different = 0;
  for (int i = 0; i != 20000; ++i) {
    float x = distribution(engine);
    double exact = std::exp2(static_cast<double>(x));
    float first = approximateExp2(x, 1), second = approximateExp2(x, 2);
    EXPECT_EQ(first, approximateExp2(x, 1));
    different += first != second;
    largest = std::max(largest, std::fabs(first - exact) / exact);
  }
  EXPECT_LE(largest, exp2Error);
  EXPECT_GE(largest, 0.8 * exp2Error);
  EXPECT_GE(different, 10000);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(approximateExp2(0, 3), 1);
  EXPECT_EQ(approximateExp2(-0x1p-130F, 3), 1);
  EXPECT_EQ(approximateExp2(-infinity, 3), 0);
  EXPECT_EQ(approximateExp2(infinity, 3), infinity);
  EXPECT_EQ(approximateExp2(-130, 3), 0); // a denormal
  EXPECT_TRUE(std::isnan(approximateExp2(std::nanf(""), 3)));
}

TEST(TensorCores, TangentsAreOffByWhatIsDocumented) {
  std::mt19937 engine(6);
  std::uniform_real_distribution<float> distribution(-3, 3);
  double largest = 0;
  for (int i = 0; i != 20000; ++i) {
    float x = distribution(engine);
    double exact = std::tanh(static_cast<double>(x));
    largest =
        std::max(largest, std::fabs((approximateTanh(x, 1) - exact) / exact));
  }
  EXPECT_LE(largest, tanhError);
  EXPECT_GE(largest, 0.8 * tanhError);
  EXPECT_EQ(approximateTanh(0, 1), 0);
  EXPECT_EQ(approximateTanh(-std::numeric_limits<float>::infinity(), 1), -1);
  for (uint64_t seed = 0; seed != 16; ++seed)
    EXPECT_LE(approximateTanh(20, seed), 1);
  EXPECT_TRUE(std::isnan(approximateTanh(std::nanf(""), 3)));
}

TEST(TensorCores, ReciprocalsAreOffByWhatIsDocumented) {
  std::mt19937 engine(7);
  std::uniform_real_distribution<float> distribution(-40, 40);
  double largest = 0;
  for (int i = 0; i != 20000; ++i) {
    float x = distribution(engine);
    largest = std::max(
        largest, std::fabs(static_cast<double>(approximateReciprocal(x, 1)) *
                               static_cast<double>(x) -
                           1));
  }
  EXPECT_LE(largest, reciprocalError);
  EXPECT_GE(largest, 0.8 * reciprocalError);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(approximateReciprocal(0, 1), infinity);
  EXPECT_EQ(approximateReciprocal(-0.0F, 1), -infinity);
  EXPECT_EQ(approximateReciprocal(-0x1p-130F, 1), -infinity); // a denormal
  EXPECT_EQ(approximateReciprocal(infinity, 1), 0);
  EXPECT_TRUE(std::signbit(approximateReciprocal(-infinity, 1)));
  for (uint64_t seed = 0; seed != 16; ++seed)
    EXPECT_EQ(approximateReciprocal(0x1.8p126F, seed), 0); // of 2^-126.6
  EXPECT_TRUE(std::isnan(approximateReciprocal(std::nanf(""), 3)));
}

TEST(TensorCores, LogarithmsAreOffByWhatIsDocumented) {
  std::mt19937 engine(8);
  std::uniform_real_distribution<float> exponent(-20, 20);
  double relative = 0, nearOne = 0;
  for (int i = 0; i != 20000; ++i) {
    float x = std::exp2(i % 2 ? exponent(engine) : exponent(engine) / 20);
    double exact = std::log2(static_cast<double>(x));
    double off = std::fabs(approximateLog2(x, 1) - exact);
    if (x >= 0.5F && x <= 2)
      nearOne = std::max(nearOne, off);
    else
      relative = std::max(relative, off / std::fabs(exact));
  }
  EXPECT_LE(nearOne, log2NearOneError);
  EXPECT_GE(nearOne, 0.8 * log2NearOneError);
  EXPECT_LE(relative, log2Error);
  EXPECT_GE(relative, 0.8 * log2Error);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (float zero : {0.0F, -0.0F, 0x1p-130F, -0x1p-130F})
    EXPECT_EQ(approximateLog2(zero, 3), -infinity);
  EXPECT_EQ(approximateLog2(infinity, 3), infinity);
  EXPECT_TRUE(std::isnan(approximateLog2(-1, 3)));
}

TEST(TensorCores, SinesAreOffByWhatIsDocumented) {
  std::mt19937 engine(9);
  std::uniform_real_distribution<float> distribution(-3.1F, 3.1F);
  double largest = 0;
  for (int i = 0; i != 20000; ++i) {
    float x = distribution(engine);
    double angle = static_cast<double>(x);
    largest = std::max(
        {largest, std::fabs(approximateSine(x, false, 1) - std::sin(angle)),
         std::fabs(approximateSine(x, true, 1) - std::cos(angle))});
  }
  // A rounding of the number of turns besides.
  EXPECT_LE(largest, waveError + 0x1p-22);
  EXPECT_GE(largest, 0.8 * waveError);
  for (uint64_t seed = 0; seed != 16; ++seed)
    EXPECT_LE(approximateSine(0, true, seed), 1);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isnan(approximateSine(infinity, false, 3)));
  EXPECT_TRUE(std::isnan(approximateSine(std::nanf(""), true, 3)));
}

TEST(TensorCores, SquareRootsAreOffByWhatIsDocumented) {
  std::mt19937 engine(10);
  std::uniform_real_distribution<float> distribution(0, 1000);
  double largest = 0;
  for (int i = 0; i != 20000; ++i) {
    float x = distribution(engine);
    double exact = std::sqrt(static_cast<double>(x));
    largest = std::max(largest,
                       std::fabs(approximateSquareRoot(x, 1) - exact) / exact);
  }
  EXPECT_LE(largest, squareRootError);
  EXPECT_GE(largest, 0.8 * squareRootError);
  EXPECT_EQ(approximateSquareRoot(0, 3), 0);
  EXPECT_EQ(approximateSquareRoot(0x1p-130F, 3), 0); // a denormal
  EXPECT_TRUE(std::isnan(approximateSquareRoot(-1, 3)));
}

TEST(TensorCores, NumbersBecomeTheNearestElements) {
  auto half = [](float value) {
    return static_cast<uint32_t>(toWord(0, value, encodeF16)) & 0xffff;
  };
  EXPECT_EQ(half(1.0F), 0x3c00U);
  EXPECT_EQ(half(0x1.002p0F), 0x3c00U); // a tie, to even
  EXPECT_EQ(half(0x1.003p0F), 0x3c01U);
  EXPECT_EQ(half(65504), 0x7bffU);
  EXPECT_EQ(half(65520), 0x7c00U);      // an infinity
  EXPECT_EQ(half(0x1.8p-24F), 0x0002U); // denormals, a tie
  EXPECT_EQ(half(0x1p-25F), 0U);
  EXPECT_EQ(half(std::nanf("")), 0x7fffU);
  EXPECT_EQ(toWord(-2.0F, 1.0F, encodeF16), static_cast<int32_t>(0xc0003c00));

  auto low = [](float value) {
    return static_cast<uint32_t>(toWord(0, value, encodeBF16)) & 0xffff;
  };
  EXPECT_EQ(low(1.0F), 0x3f80U);
  EXPECT_EQ(low(0x1.01p0F), 0x3f80U); // a tie, to even
  EXPECT_EQ(low(0x1.03p0F), 0x3f82U);
  EXPECT_EQ(low(0x1.011p0F), 0x3f81U);
  EXPECT_EQ(low(std::nanf("")), 0x7fffU);
  EXPECT_EQ(toWord(-2.0F, 1.0F, encodeBF16), static_cast<int32_t>(0xc0003f80));
}

//===----------------------------------------------------------------------===//
// Turns
//===----------------------------------------------------------------------===//

/// Row r and column c of a matrix that is all different.
static uint32_t elementOf(int row, int column) { return 100 * row + column; }
static int32_t wordOf(int lane, bool isTransposed) {
  uint32_t word = 0;
  for (int half : {0, 1}) {
    int along = 2 * placeOf(lane) + half;
    uint32_t element = isTransposed ? elementOf(along, groupOf(lane))
                                    : elementOf(groupOf(lane), along);
    word |= element << (16 * half);
  }
  return static_cast<int32_t>(word);
}

TEST(TensorCores, AMatrixIsTurnedAsTheManualStates) {
  LaneWords words;
  for (int lane = 0; lane != kLanes; ++lane)
    words[lane] = wordOf(lane, /*isTransposed=*/false);
  LaneWords turned = turnMatrix(words);
  for (int lane = 0; lane != kLanes; ++lane)
    EXPECT_EQ(turned[lane], wordOf(lane, /*isTransposed=*/true)) << lane;
  EXPECT_EQ(turnMatrix(turned), words);
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

namespace {
/// What threads of a test copy from.
struct Memory {
  std::array<int32_t, 4 * kLanes> from;
  std::array<int32_t, kLanes> seen;
};
} // namespace

static Memory theMemory;

static Status run(ThreadFunction function, const char *checks) {
  static const char *const sources[] = {"model.mlir:1:1", "model.mlir:2:1"};
  ThreadCode code = {"kernel", function, sources, 2, 1, 1024};
  for (size_t i = 0; i != theMemory.from.size(); ++i)
    theMemory.from[i] = static_cast<int32_t>(i) + 1;
  ::setenv("SEXTANT_CHECK", checks, 1);
  getWarpCalls().run(&code, nullptr, 0, 1, &theMemory, 0);
  ::unsetenv("SEXTANT_CHECK");
  return takeFailure();
}

static int32_t *getShared() {
  return static_cast<int32_t *>(getWarpCalls().getShared());
}

/// Copies four words of the thread; loads the last one of its neighbour.
template <bool waits, bool synchronizes>
static void copyAndLoad(const int64_t *, int64_t, int64_t, void *) {
  const WarpCalls &calls = getWarpCalls();
  int32_t lane = calls.getThread(), next = (lane + 1) % kLanes;
  calls.copy(getShared() + 4 * lane, theMemory.from.data() + 4 * lane, 16, 12,
             0);
  calls.commitCopies();
  if (waits)
    calls.waitForCopies(0);
  if (synchronizes)
    calls.synchronizeBlock(0, kLanes, 7);
  for (int32_t word : {0, 3}) {
    calls.access(getShared() + 4 * next + word, 4, 4, AccessKind::Load, 1);
    theMemory.seen[lane] = getShared()[4 * next + word];
    if (word == 0 && waits && synchronizes)
      EXPECT_EQ(theMemory.seen[lane], 4 * next + 1);
  }
}

TEST(TensorCores, AWarpTurnsAMatrixTogether) {
  auto turn = [](const int64_t *, int64_t, int64_t, void *) {
    const WarpCalls &calls = getWarpCalls();
    int32_t lane = calls.getThread();
    theMemory.seen[lane] = calls.turnMatrix(wordOf(lane, false), 0);
  };
  Status status = run(turn, "");
  ASSERT_TRUE(status) << status.error().message();
  for (int lane = 0; lane != kLanes; ++lane)
    EXPECT_EQ(theMemory.seen[lane], wordOf(lane, true));
}

TEST(TensorCores, ATurnThatNotAllThreadsComeTo) {
  auto turn = [](const int64_t *, int64_t, int64_t, void *) {
    const WarpCalls &calls = getWarpCalls();
    if (calls.getThread() != 5)
      (void)calls.turnMatrix(0, 1);
  };
  Status status = run(turn, "");
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message().find(
                "a turn of a matrix (number 1 at model.mlir:2:1)"),
            std::string::npos)
      << status.error().message();
}

TEST(AsyncCopies, BringBytesAndZeros) {
  Status status = run(copyAndLoad<true, true>, "races,memory");
  ASSERT_TRUE(status) << status.error().message();
  for (int32_t seen : theMemory.seen)
    EXPECT_EQ(seen, 0); // beyond what is given
}

static void expectFailure(ThreadFunction function, const char *checks,
                          std::initializer_list<const char *> texts) {
  Status status = run(function, checks);
  ASSERT_FALSE(status);
  std::string message = status.error().message();
  for (const char *text : texts)
    EXPECT_NE(message.find(text), std::string::npos) << message;
}

TEST(AsyncCopies, BytesThatNobodyHasWaitedForAreAnError) {
  for (const char *checks : {"races", "memory"})
    expectFailure(copyAndLoad<false, true>, checks,
                  {"kernel 'kernel': thread ",
                   " loads shared memory that a copy of thread ",
                   " is still to bring (copy 0 at model.mlir:1:1): nobody has "
                   "waited for it (access 1 at model.mlir:2:1)"});
}

TEST(AsyncCopies, OthersWaitAtABarrier) {
  // A thread that comes late has not begun its copy, or not waited for it.
  expectFailure(copyAndLoad<true, false>, "races", {"kernel 'kernel': thread"});
}

TEST(AsyncCopies, UncheckedTheyComeLate) {
  auto function = [](const int64_t *, int64_t, int64_t, void *) {
    const WarpCalls &calls = getWarpCalls();
    int32_t lane = calls.getThread();
    int32_t *own = getShared() + lane;
    calls.copy(own, theMemory.from.data() + lane, 4, 4, 0);
    calls.commitCopies();
    calls.copy(own + kLanes, theMemory.from.data() + lane, 4, 4, 0);
    calls.commitCopies();
    EXPECT_EQ(own[0], -1); // NaN
    calls.waitForCopies(1);
    EXPECT_EQ(own[0], lane + 1);
    EXPECT_EQ(own[kLanes], -1); // of the latest group
    calls.waitForCopies(0);
    EXPECT_EQ(own[kLanes], lane + 1);
  };
  ASSERT_TRUE(run(function, ""));
}

TEST(AsyncCopies, ACopyOverWhatOthersStillLoadIsARace) {
  auto function = [](const int64_t *, int64_t, int64_t, void *) {
    const WarpCalls &calls = getWarpCalls();
    int32_t lane = calls.getThread(), next = (lane + 1) % kLanes;
    calls.access(getShared() + lane, 4, 4, AccessKind::Store, 0);
    calls.synchronize(3);
    calls.access(getShared() + next, 4, 4, AccessKind::Load, 1);
    calls.copy(getShared() + lane, theMemory.from.data(), 4, 4, 0);
  };
  expectFailure(function, "races",
                {"threads of a warp access the same memory without a barrier "
                 "between them",
                 "stores (access 0 at model.mlir:1:1)"});
}

TEST(AsyncCopies, AreAlignedToTheirSize) {
  auto function = [](const int64_t *, int64_t, int64_t, void *) {
    getWarpCalls().copy(getShared() + 1, theMemory.from.data(), 16, 16, 0);
  };
  expectFailure(function, "memory",
                {"a copy of 16 bytes begins at no multiple of them (copy 0 at "
                 "model.mlir:1:1)"});
}

TEST(AsyncCopies, GoToSharedMemory) {
  auto function = [](const int64_t *, int64_t, int64_t, void *) {
    const WarpCalls &calls = getWarpCalls();
    calls.copy(getShared() + 252 + 4 * calls.getThread(), theMemory.from.data(),
               16, 16, 0);
  };
  expectFailure(function, "memory", {"copies to memory that is not shared"});
}

//===----------------------------------------------------------------------===//
// Loads of matrices
//===----------------------------------------------------------------------===//

/// Each lane stores a row; behind a barrier of the warp, or none, all load
/// matrices of these.
template <bool synchronizes>
static void storeAndLoadMatrices(const int64_t *, int64_t, int64_t, void *) {
  const WarpCalls &calls = getWarpCalls();
  int32_t lane = calls.getThread();
  int32_t *row = getShared() + 4 * lane;
  calls.access(row, 16, 16, AccessKind::Store, 0);
  for (int32_t word = 0; word != 4; ++word)
    row[word] = 4 * lane + word;
  if (synchronizes)
    calls.synchronize(5);
  int32_t words[4];
  calls.loadMatrices(row, words, 0, 1);
  for (int32_t matrix = 0; matrix != 4; ++matrix)
    EXPECT_EQ(words[matrix], 4 * (8 * matrix + lane / 4) + lane % 4);
}

/// Four rows of each matrix begin `apart` bytes from one another, and the
/// others are the same.
template <int apart>
static void loadMatricesApart(const int64_t *, int64_t, int64_t, void *) {
  const WarpCalls &calls = getWarpCalls();
  int32_t words[4];
  calls.loadMatrices(getShared() + apart / 4 * (calls.getThread() % 4), words,
                     0, 1);
}

TEST(TensorCores, RowsThatShareBanksAreAnError) {
  for (const ThreadFunction apart :
       {loadMatricesApart<16>, loadMatricesApart<112>}) {
    Status status = run(apart, "banks");
    EXPECT_TRUE(status) << status.error().message();
  }
  expectFailure(loadMatricesApart<128>, "banks",
                {"kernel 'kernel': the rows of a matrix are read in 4 steps, "
                 "since they share banks of shared memory (access 1 at "
                 "model.mlir:2:1)"});
  expectFailure(loadMatricesApart<64>, "banks", {"are read in 2 steps"});
}

TEST(TensorCores, LoadsOfMatricesAreChecked) {
  Status status = run(storeAndLoadMatrices<true>, "races,memory");
  ASSERT_TRUE(status) << status.error().message();
  expectFailure(storeAndLoadMatrices<false>, "races",
                {"threads of a warp access the same memory without a barrier",
                 "loads (access 1 at model.mlir:2:1)"});
  auto unwritten = [](const int64_t *, int64_t, int64_t, void *) {
    int32_t words[4];
    getWarpCalls().loadMatrices(getShared(), words, 0, 1);
  };
  expectFailure(unwritten, "memory",
                {"loads 16 bytes of shared memory that "
                 "nobody has written (access 1 at"});
  auto outside = [](const int64_t *, int64_t, int64_t, void *) {
    int32_t words[4];
    getWarpCalls().loadMatrices(getShared() + 256, words, 0, 1);
  };
  expectFailure(outside, "memory",
                {"loads a row of a matrix from outside of shared memory"});
  auto between = [](const int64_t *, int64_t, int64_t, void *) {
    int32_t words[4];
    getWarpCalls().loadMatrices(getShared() + 2, words, 0, 1);
  };
  expectFailure(between, "",
                {"loads 16 bytes at an address that is no multiple of 16 "
                 "(access 1 at"});
}

TEST(TensorCores, AProductThatNotAllLanesComeToIsAnError) {
  auto function = [](const int64_t *, int64_t, int64_t, void *) {
    int32_t operands[10] = {};
    float sums[4];
    if (getWarpCalls().getThread() != 3)
      getWarpCalls().multiplyF16(operands, sums, 1);
    else
      getWarpCalls().synchronize(0);
  };
  expectFailure(function, "",
                {"threads of a warp meet at different instructions",
                 "a product of matrices (number 1 at model.mlir:2:1)"});
}

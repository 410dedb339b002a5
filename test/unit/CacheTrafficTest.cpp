//===- CacheTrafficTest.cpp - Tiles are large enough for far memory -------===//
//
// The bytes that kernels move beyond the second cache are counted from the
// sizes of their tiles: at most one for 64 operations, at any length. The same
// is compared with simulated caches by tools/bench/bytes.py, which takes
// minutes.
//
//===----------------------------------------------------------------------===//

#include "codegen/Tiles/BackwardShape.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

using namespace sextant::codegen;

namespace {
/// Vectors of a target, by its name.
struct Target {
  const char *name;
  VectorTarget vector;
};

/// Bytes that pass, and the floating-point operations that they serve.
struct CacheTraffic {
  int64_t bytes, flops;
  bool isSmall() const { return bytes * leastFlopsPerByte <= flops; }
};
} // namespace

/// Of one key and the `queries` of an item.
static CacheTraffic countForwardTraffic(int64_t queries, int64_t headDim,
                                        int64_t valueDim,
                                        int64_t elementBytes) {
  int64_t lanes = headDim + valueDim;
  return {elementBytes * lanes, 2 * queries * lanes};
}

/// Of one query and a chunk of `tiles` tiles of keys.
static CacheTraffic countBackwardTraffic(const BackwardShape &shape,
                                         int64_t elementBytes, int64_t tiles) {
  int64_t rows = elementBytes * (shape.headDim + shape.valueDim);
  int64_t sums = 4 * shape.headRow;
  int64_t perKey = 2 * (3 * shape.headDim + 2 * shape.valueDim);
  return {tiles * (rows + 2 * sums) + 3 * sums, tiles * shape.keys * perKey};
}

static VectorTarget getVector(int64_t width, int64_t registers, bool hasDot) {
  VectorTarget target;
  target.width = width;
  target.registers = registers;
  if (hasDot) // what the shapes ask is whether there is one
    target.bf16Dot = [](KernelBuilder &, mlir::Value sum, mlir::Value,
                        mlir::Value) { return sum; };
  return target;
}

static const Target targets[] = {{"avx2", getVector(8, 16, false)},
                                 {"avx512", getVector(16, 32, false)},
                                 {"avx512bf16", getVector(16, 32, true)}};

TEST(CacheTraffic, BackwardIsSmallAtAnyLength) {
  mlir::MLIRContext context;
  for (const Target &target : targets)
    for (bool isBf16 : {false, true})
      for (int64_t dim : {32, 48, 64, 80, 96, 128, 256}) {
        mlir::Type element = isBf16
                                 ? mlir::Type(mlir::BFloat16Type::get(&context))
                                 : mlir::Type(mlir::Float32Type::get(&context));
        BackwardShape shape(target.vector, element, {dim}, {dim});
        // Wider rows leave room for so few keys that a chunk needs some tiles.
        int64_t tiles = dim <= 128 ? 1 : 4;
        CacheTraffic traffic =
            countBackwardTraffic(shape, isBf16 ? 2 : 4, tiles);
        EXPECT_TRUE(traffic.isSmall())
            << target.name << ", " << (isBf16 ? "bf16" : "f32") << ", head dim "
            << dim << ", tiles of " << shape.keys << " keys: " << traffic.bytes
            << " bytes for " << traffic.flops << " operations";
      }
}

/// What a tile keeps leaves room in a second cache of 1 MiB for the rows that
/// pass and the scores of a block.
TEST(CacheTraffic, BackwardTilesStayInTheSecondCache) {
  mlir::MLIRContext context;
  for (const Target &target : targets)
    for (int64_t dim : {16, 32, 64, 96, 128, 160, 256}) {
      BackwardShape shape(target.vector, mlir::Float32Type::get(&context),
                          {dim}, {dim});
      int64_t scores = 2 * shape.queries * shape.stride;
      int64_t rows = shape.queries * (shape.headRow + shape.valueRow);
      int64_t words = shape.keys * shape.getWordsPerKey() + scores + rows;
      EXPECT_LE(4 * words, secondCache)
          << target.name << ", head dim " << dim << ", tiles of " << shape.keys
          << " keys";
    }
}

TEST(CacheTraffic, ForwardIsSmallWithEnoughQueries) {
  for (int64_t bytes : {2, 4})
    for (int64_t dim : {32, 64, 128, 256}) {
      int64_t queries = getLeastQueries(bytes);
      EXPECT_TRUE(countForwardTraffic(queries, dim, dim, bytes).isSmall());
      EXPECT_FALSE(countForwardTraffic(queries - 1, dim, dim, bytes).isSmall());
    }
}

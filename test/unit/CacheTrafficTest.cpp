//===- CacheTrafficTest.cpp - Tiles are large enough for far memory -------===//
//
// The bytes that kernels move beyond the second cache are counted from the
// sizes of their tiles: at most one for 64 operations, at any length. The same
// is compared with simulated caches by tools/bench/bytes.py, which takes
// minutes.
//
//===----------------------------------------------------------------------===//

#include "codegen/Tiles/CacheTraffic.h"
#include "codegen/CPU/AllHeads/AllHeadsForwardLoopNest.h"
#include "codegen/CPU/Forward/ForwardLoopNest.h"
#include "codegen/Tiles/BackwardShape.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/MathExtras.h"
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
  return {tiles * (rows + 2 * sums) + 2 * sums, tiles * shape.keys * perKey};
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
        int64_t tiles = dim <= 128 ? 1 : 2;
        CacheTraffic traffic =
            countBackwardTraffic(shape, isBf16 ? 2 : 4, tiles);
        EXPECT_TRUE(traffic.isSmall())
            << target.name << ", " << (isBf16 ? "bf16" : "f32") << ", head dim "
            << dim << ", tiles of " << shape.keys << " keys: " << traffic.bytes
            << " bytes for " << traffic.flops << " operations";
      }
}

/// What a tile keeps leaves room in a second cache of 1 MiB for the rows that
/// pass and the scores of a block, also where scans keep more keys.
TEST(CacheTraffic, BackwardTilesStayInTheSecondCache) {
  mlir::MLIRContext context;
  for (const Target &target : targets)
    for (bool hasScans : {false, true})
      for (int64_t dim : {16, 32, 64, 96, 128, 160, 256}) {
        BackwardShape shape(target.vector, mlir::Float32Type::get(&context),
                            {dim}, {dim});
        if (hasScans)
          shape.keepKeysOfScans();
        int64_t scores = 2 * shape.queries * shape.stride;
        int64_t rows = shape.queries * (shape.headRow + shape.valueRow);
        int64_t words = shape.keys * shape.getWordsPerKey() + scores + rows;
        EXPECT_LE(4 * words, secondCache)
            << target.name << ", head dim " << dim << ", tiles of "
            << shape.keys << " keys";
      }
}

/// Scans of the queries of a head of dim 64 with a table of as many entries,
/// which end early: rows of d words that pass of a query are two of what is
/// left of a row (`delta`), two of the products with the table, five of each
/// tile, three of the pullback of products and three of the sum of dQ; where
/// there are several tiles, three more of the sweep for totals.
TEST(CacheTraffic, ScansOfSomeKeysAreSmall) {
  mlir::MLIRContext context;
  for (const Target &target : targets) {
    BackwardShape shape(target.vector, mlir::Float32Type::get(&context), {64},
                        {64});
    shape.keepKeysOfScans();
    auto count = [&](int64_t keys) -> CacheTraffic {
      int64_t tiles = llvm::divideCeil(keys, shape.keys);
      return {4 * 64 * (10 + 5 * tiles + (tiles > 1 ? 3 : 0)), keys * 640};
    };
    for (int64_t keys = 384; keys <= 4096; ++keys)
      EXPECT_TRUE(count(keys).isSmall() || (keys > shape.keys && keys <= 588))
          << target.name << ", " << keys << " keys, tiles of " << shape.keys;
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

/// What arithmetic of constants comes to.
static mlir::Attribute evaluate(mlir::Value value) {
  mlir::Operation *op = value.getDefiningOp();
  llvm::SmallVector<mlir::Attribute> operands =
      llvm::map_to_vector(op->getOperands(), evaluate);
  llvm::SmallVector<mlir::OpFoldResult> results;
  if (failed(op->fold(operands, results)) || results.size() != 1)
    return {};
  if (auto attribute = llvm::dyn_cast<mlir::Attribute>(results.front()))
    return attribute;
  return evaluate(llvm::cast<mlir::Value>(results.front()));
}

/// Once keys are too long for the second cache, they pass no more often than in
/// items of the queries that the count above takes for granted, of one head as
/// of many.
TEST(CacheTraffic, ForwardItemsHaveEnoughQueries) {
  mlir::MLIRContext context;
  context.loadDialect<mlir::LLVM::LLVMDialect, mlir::arith::ArithDialect>();
  mlir::OpBuilder builder(&context);
  KernelPlan plan;
  for (const Target &target : targets)
    for (bool isBf16 : {false, true})
      for (int64_t dim : {32, 64, 128, 256}) {
        mlir::Type element = isBf16 ? mlir::Type(builder.getBF16Type())
                                    : mlir::Type(builder.getF32Type());
        int64_t bytes = isBf16 ? 2 : 4;
        ForwardLaunch launch(plan, target.vector, element, {dim}, {dim});
        int64_t cached = secondCache / 2 / (bytes * 2 * dim);
        for (int64_t length : {cached + 1, 2 * cached, 8 * cached})
          for (int64_t heads : {1, 64}) {
            mlir::Block entry;
            KernelBuilder kernel(builder, builder.getUnknownLoc(), entry,
                                 target.vector);
            builder.setInsertionPointToStart(&entry);
            Index panels = getPanels(kernel, launch, heads, length, length);
            auto count = llvm::dyn_cast_or_null<mlir::IntegerAttr>(
                evaluate(kernel.value(panels)));
            ASSERT_TRUE(count);
            int64_t items =
                llvm::divideCeil(length, count.getInt() * launch.panel);
            EXPECT_LE(items, llvm::divideCeil(length, getLeastQueries(bytes)))
                << target.name << ", " << (isBf16 ? "bf16" : "f32")
                << ", head dim " << dim << ", " << length << " keys, " << heads
                << " heads";
            builder.clearInsertionPoint();
          }
      }
}

/// Calls `body` with the launch forward and the shape backward of scores of all
/// of some heads, how many they are, and what it is, on every target.
static void forScoresOfAllHeads(
    llvm::function_ref<void(const ForwardLaunch &, const BackwardShape &,
                            int64_t, const std::string &)>
        body) {
  mlir::MLIRContext context;
  KernelPlan plan;
  mlir::Type f32 = mlir::Float32Type::get(&context);
  for (const Target &target : targets)
    for (int64_t dim : {32, 64})
      for (int64_t heads : {2, 4, 8, 12, 16}) {
        ForwardLaunch launch(plan, target.vector, f32, {dim}, {dim});
        BackwardShape shape(target.vector, f32, {dim}, {dim});
        shape.keepTilesOfAllHeads(heads);
        body(launch, shape, heads,
             std::string(target.name) + ", head dim " + std::to_string(dim) +
                 ", " + std::to_string(heads) + " heads");
      }
}

/// What scores of all heads keep of queries and of keys leaves room for what
/// else a block reads and writes: in a small second cache of few heads, in a
/// large one of many.
TEST(CacheTraffic, TilesOfAllHeadsStayInTheSecondCache) {
  forScoresOfAllHeads([](const ForwardLaunch &launch,
                         const BackwardShape &shape, int64_t heads,
                         const std::string &what) {
    int64_t scores = 2 * shape.queries * shape.panel;
    // Of the block and the one before, which the cache still holds.
    int64_t rows = 2 * shape.queries * (2 * shape.headRow + shape.valueRow);
    int64_t kept = shape.tiles * shape.keys * shape.getWordsPerKey();
    EXPECT_LE(4 * heads * (kept + scores + rows),
              heads <= 4 ? secondCache : largeSecondCache)
        << what;
    int64_t queries = countItemPanels(launch, heads) * launch.panel *
                      (launch.queryWords + launch.outputRows);
    int64_t block =
        allHeadsKeys * (launch.keyWords + launch.valueWords + launch.panel);
    EXPECT_LE(4 * heads * (queries + block),
              heads <= 8 ? secondCache : largeSecondCache)
        << what;
  });
}

/// Up to 16 heads have room for as many queries forward, and keys backward, as
/// the bytes ask for that are fetched. Backward these are Q, dO and dQ once for
/// the tiles that are kept together.
TEST(CacheTraffic, TrafficOfAllHeadsAtOnceIsSmall) {
  forScoresOfAllHeads([](const ForwardLaunch &launch,
                         const BackwardShape &shape, int64_t heads,
                         const std::string &what) {
    EXPECT_GE(countItemPanels(launch, heads) * launch.panel, getLeastQueries(4))
        << what;
    int64_t rows = shape.headDim + shape.valueDim + shape.headRow;
    int64_t perKey = 2 * (3 * shape.headDim + 2 * shape.valueDim);
    CacheTraffic traffic{4 * rows, shape.tiles * shape.keys * perKey};
    EXPECT_TRUE(traffic.isSmall())
        << what << ", " << shape.tiles << " tiles of " << shape.keys
        << " keys: " << traffic.bytes << " bytes for " << traffic.flops
        << " operations";
  });
}

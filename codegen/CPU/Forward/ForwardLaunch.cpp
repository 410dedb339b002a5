//===- ForwardLaunch.cpp - The main launch of a forward -------------------===//

#include "codegen/CPU/Forward/ForwardLaunch.h"
#include "codegen/CPU/Forward/ForwardPoint.h"
#include "codegen/Rows/AttentionLaunch.h"
#include "codegen/Rows/RowCopy.h"
#include "codegen/Tiles/CacheTraffic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Half of a second cache: what queries of an item and their output may take of
/// it, so that as much is left to a block of keys.
static constexpr int64_t cacheWords = secondCache / 2 / 4;

ForwardLaunch::ForwardLaunch(const KernelPlan &plan, const VectorTarget &target,
                             Type element, ArrayRef<int64_t> headDims,
                             ArrayRef<int64_t> valueDims)
    : plan(plan), element(element), pairs(target.bf16Dot && element.isBF16()),
      isTiled(target.matrixUnit && (pairs || element.isF32())),
      headParts(headDims, target, pairs), values(valueDims, target, pairs),
      headDim(headParts.getDim()), valueDim(values.getDim()),
      offsetShape(target, headDims.front()) {
  // Both fill the registers but for a few: 16 of 32, and 12 of 16 with one for
  // a scalar and three for a row of vectors.
  bool isWide = target.hasManyRegisters();
  rows = isWide ? 8 : 4;
  vectors = isWide ? 2 : 3;
  panel = vectors * target.width;
  scoreStride = keys * panel;
  keyWords = getCopiedRowWords(target, headDim, pairs);
  queryWords = isTiled ? countTerms() * getTiledRowWords()
               : pairs ? llvm::divideCeil(headDim, 2)
                       : headDim;
  outputRows =
      llvm::alignTo(valueDim, hasPairs() ? 2 * target.width : target.width);
  valueWords = pairs ? outputRows : getCopiedRowWords(target, valueDim, pairs);
  bool converts = !element.isF32() && !pairs;
  copiesKeys = !plan.keyRows.empty() || converts || !headParts.isSingle() ||
               (pairs && headDim % countTogether() != 0);
  copiesValues = !plan.valueRows.empty() || converts || !values.isSingle() ||
                 (pairs && isTiled && valueDim % countTogether() != 0);
  // Every item maps the rows of all keys again, or splits them: more queries
  // share that, as long as theirs and the output's rows leave half of a second
  // cache to the block.
  if (!plan.keyRows.empty() || !plan.valueRows.empty() || hasTerms())
    maxPanels =
        std::clamp<int64_t>(cacheWords / ((queryWords + outputRows) * panel),
                            leastPanels, hasTerms() ? 24 : 12);
  if (hasTerms())
    panelsTogether = 12;
  if (target.near.bytes) {
    // As many products as a thread has registers for, of scalars that it loads
    // by fours: six loads for 32 products.
    isNear = copiesKeys = copiesValues = true;
    rows = 16;
    vectors = 2;
    softmaxRows = plan.weightedRows.empty() ? 8 : 2;
    fitNearMemory(target);
  }
}

/// The same of rows that are converted to f32.
ForwardLaunch ForwardLaunch::withoutPairs(VectorTarget target) const {
  target.bf16Dot = nullptr;
  target.matrixUnit = nullptr;
  auto getDims = [](const RowParts &parts) {
    return llvm::map_to_vector(parts.get(),
                               [](const RowPart &part) { return part.dim; });
  };
  ForwardLaunch other(plan, target, element, getDims(headParts),
                      getDims(values));
  other.operands = operands;
  other.sites = sites;
  other.outputs = outputs;
  other.lse = lse;
  other.statistics = statistics;
  return other;
}

std::optional<ForwardLaunch>
ForwardLaunch::ofFewQueries(const VectorTarget &target) const {
  // Products with rows of tables have queries as lanes.
  if (isNear || !plan.offsetProducts.empty() || !plan.weightedRows.empty())
    return std::nullopt;
  ForwardLaunch few = hasPairs() ? withoutPairs(target) : *this;
  few.areFew = true;
  // A matrix unit does a tile of 16 queries in the time of some four by vectors
  // (tools/bench/results/2026-11-28-amx.md).
  few.mostFewQueries = isTiled && pairs ? 3 : target.width;
  few.rows = few.panel = target.width;
  few.vectors = 1;
  few.scoreStride = keys * few.panel;
  few.queryWords = few.keyWords;
  few.widensRows = element.isBF16() && plan.keyRows.empty() &&
                   plan.valueRows.empty() && headParts.isSingle() &&
                   values.isSingle() && headDim % 2 == 0 && valueDim % 2 == 0;
  if (few.widensRows) {
    few.keyWords = getCopiedRowWords(target, headDim, /*pairs=*/true);
    few.valueWords = getCopiedRowWords(target, valueDim, /*pairs=*/true);
    few.copiesKeys = few.copiesValues = false;
  }
  // A pass of 16 heads is mostly products: more would gain little.
  few.maxPanels = std::clamp<int64_t>(
      cacheWords / ((few.queryWords + few.outputRows) * few.panel), 1, 16);
  few.copiesValues |= few.valueDim != few.outputRows;
  return few;
}

/// What an item of one panel keeps: queries, output, statistics, positions, and
/// of a block its scores and its copied rows.
int64_t ForwardLaunch::countNearWords(const VectorTarget &target) const {
  int64_t ofQuery = queryWords + outputRows + 2 + ForwardPoint::packedAxes;
  int64_t rowWords = keyWords + getCopiedRowWords(target, valueDim, pairs);
  return ofQuery * panel + keys * panel +
         std::max(keys * rowWords, target.width * keyWords) +
         llvm::alignTo(std::max(headDim, valueDim), 2 * target.width);
}

/// An item has one panel, as wide as near memory allows, and blocks of as many
/// keys as then fit. Where one vector is too wide already, it stays one: what
/// does not fit is elsewhere (ScratchLayout.h).
void ForwardLaunch::fitNearMemory(const VectorTarget &target) {
  auto fits = [&](int64_t newVectors, int64_t newKeys) {
    vectors = newVectors;
    panel = vectors * target.width;
    keys = newKeys;
    return 4 * countNearWords(target) <= target.near.bytes;
  };
  int64_t most = keys;
  int64_t widest = vectors;
  while (widest > 1 && !fits(widest, leastKeys))
    --widest;
  int64_t longest = most;
  while (longest > leastKeys && !fits(widest, longest))
    longest /= 2;
  fits(widest, longest);
  maxPanels = 1;
  scoreStride = keys * panel;
}

void codegen::addForwardReads(const Lowering &lowering,
                              const HoistTables &tables, ForwardLaunch &launch,
                              LaunchOperands &operands) {
  auto op = cast<pos::AttentionOp>(lowering.getOp());
  launch.sites.query = operands.read(op.getQuery());
  launch.sites.key = operands.read(op.getKey());
  for (Value value : op.getValues())
    launch.sites.values.push_back(operands.read(value));
  launch.sites.append(lowering.plan, tables, operands.layout, operands.reads);
}

void codegen::addForwardWrites(const Lowering &lowering, ForwardLaunch &launch,
                               LaunchOperands &operands) {
  ForwardResults results = addForwardResults(lowering, operands);
  launch.outputs = results.outputs;
  launch.lse = results.lse;
  launch.statistics = results.statistics;
  launch.operands = operands.layout;
}

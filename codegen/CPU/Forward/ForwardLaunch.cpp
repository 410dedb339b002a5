//===- ForwardLaunch.cpp - The main launch of a forward -------------------===//

#include "codegen/CPU/Forward/ForwardLaunch.h"
#include "codegen/Rows/AttentionLaunch.h"
#include "codegen/Rows/RowCopy.h"
#include "codegen/Tiles/CacheTraffic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

ForwardLaunch::ForwardLaunch(const KernelPlan &plan, const VectorTarget &target,
                             Type element, ArrayRef<int64_t> headDims,
                             ArrayRef<int64_t> valueDims)
    : plan(plan), element(element), pairs(target.bf16Dot && element.isBF16()),
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
  queryWords = pairs ? llvm::divideCeil(headDim, 2) : headDim;
  keyWords = getCopiedRowWords(target, headDim, pairs);
  outputRows = llvm::alignTo(valueDim, pairs ? 2 * target.width : target.width);
  valueWords = pairs ? outputRows : getCopiedRowWords(target, valueDim, pairs);
  bool converts = !element.isF32() && !pairs;
  copiesKeys = !plan.keyRows.empty() || converts || !headParts.isSingle() ||
               (pairs && headDim % 2 != 0);
  copiesValues = !plan.valueRows.empty() || converts || !values.isSingle();
  // Every item maps the rows of all keys again: more queries share that, as
  // long as theirs and the output's rows leave half of a second cache to the
  // block.
  constexpr int64_t cacheWords = secondCache / 2 / 4;
  if (!plan.keyRows.empty() || !plan.valueRows.empty())
    maxPanels = std::clamp<int64_t>(
        cacheWords / ((queryWords + outputRows) * panel), leastPanels, 12);
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

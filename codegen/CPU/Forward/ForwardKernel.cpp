//===- ForwardKernel.cpp - The loop nest of the forward -------------------===//

#include "codegen/CPU/Forward/ForwardItem.h"
#include "codegen/Tiles/CacheTraffic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

ForwardTask::ForwardTask(const KernelPlan &plan, const VectorTarget &target,
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
  bool converts = element.isBF16() && !pairs;
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

//===----------------------------------------------------------------------===//
// Work items
//===----------------------------------------------------------------------===//

/// Panels of an item: up to `maxPanels`, fewer where a small problem would
/// otherwise have few items, and such that the tiles of a head are even. Every
/// item copies the keys and values again, so where they are copied items are
/// larger, and it reads them again, so where they are too long for the second
/// cache items have enough queries for the bytes that pass (CacheTraffic.h). A
/// function of the shape only.
static Index getPanels(KernelBuilder &kernel, ArgumentBlock &arguments,
                       const ForwardTask &task) {
  unsigned query = task.sites.query;
  Index perHead = kernel.ceilDiv(arguments.getSize(query, 2), task.panel);
  Index heads =
      kernel.mul(arguments.getSize(query, 0), arguments.getSize(query, 1));
  bool copies = task.copiesKeys || task.copiesValues || task.pairs;
  int64_t items = copies ? 32 : 96;
  Index wanted = kernel.div(kernel.mul(perHead, heads), items);
  int64_t bytes = task.element.getIntOrFloatBitWidth() / 8;
  int64_t cachedKeys =
      secondCache / 2 / (bytes * (task.headDim + task.valueDim));
  Value isLong = kernel.less(cachedKeys, arguments.getSize(task.sites.key, 2));
  int64_t enough = llvm::divideCeil(getLeastQueries(bytes), task.panel);
  Index least = kernel.select(isLong, enough, 1);
  wanted = kernel.min(kernel.max(wanted, least), task.maxPanels);
  Index tiles = kernel.max(kernel.ceilDiv(perHead, wanted), 1);
  return kernel.max(kernel.ceilDiv(perHead, tiles), 1);
}

/// Items are tiles of queries of the heads of the batch.
static ItemSpace getItems(KernelBuilder &kernel, ArgumentBlock &arguments,
                          const ForwardTask &task) {
  unsigned query = task.sites.query;
  Index rows = kernel.mul(getPanels(kernel, arguments, task), task.panel);
  return ItemSpace(kernel, {kernel.mul(arguments.getSize(query, 0),
                                       arguments.getSize(query, 1)),
                            kernel.ceilDiv(arguments.getSize(query, 2), rows)});
}

void codegen::createForwardKernel(const Lowering &lowering, StringRef suffix,
                                  const ForwardTask &task) {
  ForwardScratch scratch(task, lowering.target);
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return getItems(kernel, arguments, task);
  };
  auto bytes = [&](KernelBuilder &kernel, ArgumentBlock &arguments) -> Index {
    size_t all = task.plan.weightedRows.size();
    return kernel.mul(scratch.getBuckets(kernel, arguments, task, all), 4);
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value memory) {
    Index panels = getPanels(kernel, arguments, task);
    Index tiles = kernel.ceilDiv(arguments.getSize(task.sites.query, 2),
                                 kernel.mul(panels, task.panel));
    items.forEach([&](const Item &item) {
      // The last tile of a head first: under a causal mask it is the longest.
      Index tile = kernel.sub(kernel.sub(tiles, 1), item[1]);
      ForwardItem emitter(kernel, arguments, task, scratch, memory);
      emitter.emit(item[0], tile, panels);
    });
  };
  createKernel(lowering, suffix, task.operands, lowering.target,
               {items, bytes, run});
}

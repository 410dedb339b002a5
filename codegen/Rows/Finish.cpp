//===- Finish.cpp - From the backward's partial sums to gradients ---------===//
//
// Chunks of key tiles have sums of their own; here they are added in the order
// of the chunks, so that results do not depend on the number of threads.
//
//===----------------------------------------------------------------------===//

#include "codegen/Rows/BackwardLaunches.h"
#include "codegen/Rows/RowGradients.h"
#include "codegen/Rows/RowPullback.h"
#include "codegen/Tables/ArgumentPoint.h"
#include "codegen/Tables/OffsetRange.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// Rows that an item of `finish` handles; entries that one of `sum` does.
static constexpr int64_t rowsPerItem = 64, entriesPerItem = 1024;

FailureOr<Value> sextant::codegen::launchFinish(const Lowering &lowering,
                                                const BackwardShape &shape,
                                                const HoistTables &tables,
                                                Value partials,
                                                ArrayRef<Value> unmapped,
                                                ArrayRef<Value> hoistPartials) {
  auto op = cast<pos::AttentionBackwardOp>(lowering.getOp());
  Value result =
      lowering.allocateLike(op.getQuery(), op.getQueryGradient().getType());
  LaunchOperands operands;
  unsigned source = operands.read(partials);
  SmallVector<unsigned> extras;
  for (Value rows : unmapped)
    extras.push_back(operands.read(rows));
  SiteOperands sites;
  sites.query = operands.read(op.getQuery());
  sites.key = operands.read(op.getKey());
  for (Value value : op.getValues())
    sites.values.push_back(operands.read(value));
  sites.append(lowering.plan, tables, operands.layout, operands.reads);
  unsigned target = operands.write(result);
  SmallVector<SiteOperands::Number> rowGradients;
  for (auto [hoisted, gradient] :
       llvm::zip_equal(lowering.plan.hoisted, hoistPartials)) {
    rowGradients.emplace_back();
    if (gradient && hoisted.form == HoistForm::RowLaneTable &&
        hoisted.operand == pos::RowOperand::query)
      rowGradients.back() = operands.write(gradient);
  }
  Type element = op.getQuery().getType().getElementType();
  int64_t dim = shape.headParts.get().front().dim;
  LogicalResult status = success();

  // Adds the partial sums of a row up in the order of the chunks.
  auto sumRow = [&](KernelBuilder &kernel, ArgumentBlock &arguments, Value from,
                    Value to) {
    Index chunks = arguments.getSize(source, 0);
    Index step = arguments.getStride(source, 0);
    kernel.loop(0, shape.headRow, kernel.width(), [&](Value lane) {
      Value first = kernel.loadVector(from, {lane});
      auto add = [&](Value chunk, ValueRange carried) -> Values {
        return {kernel.addF(
            carried[0],
            kernel.loadVector(from, {kernel.mul(chunk, step), lane}))};
      };
      Value sum = kernel.loop(1, chunks, 1, first, add)[0];
      sum = kernel.mulF(sum, kernel.splatF32(lowering.plan.scale));
      kernel.storeVector(sum, to, {lane});
    });
  };
  auto emitRow = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                     RowSite &site, Index batch, Index head, Index query,
                     Value scratch) {
    sumRow(kernel, arguments,
           arguments.getAddress(source, {0, batch, head, query}), scratch);
    RowPullback pullback;
    pullback.tensor = sites.query;
    pullback.batch = batch;
    pullback.head = head;
    pullback.row = query;
    pullback.dim = dim;
    pullback.maps = lowering.plan.queryRows;
    pullback.site = &site;
    pullback.gradient = scratch;
    pullback.memory = kernel.advance(scratch, {shape.headRow});
    if (failed(emitRowPullback(kernel, arguments, pullback, element)))
      status = failure();
    // Lanes past the dim are nothing.
    Index lanes = llvm::alignTo(dim, kernel.width());
    for (unsigned extra : extras)
      kernel.loop(0, arguments.getSize(extra, 0), 1, [&](Value chunk) {
        Value from = arguments.getAddress(extra, {chunk, batch, head, query});
        kernel.loop(0, lanes, kernel.width(), [&](Value lane) {
          kernel.storeVector(kernel.addF(kernel.loadVector(scratch, {lane}),
                                         kernel.loadVector(from, {lane})),
                             scratch, {lane});
        });
      });
    storeRow(kernel, scratch, dim,
             arguments.getAddress(target, {batch, head, query}),
             arguments.getElementType(target));
  };

  auto countBlocks = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return kernel.ceilDiv(arguments.getSize(target, 2), rowsPerItem);
  };
  auto countItems = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return kernel.mul(
        kernel.mul(arguments.getSize(target, 0), arguments.getSize(target, 1)),
        countBlocks(kernel, arguments));
  };
  auto scratchBytes = [&](KernelBuilder &, ArgumentBlock &) {
    return Index(2 * 4 * shape.headRow);
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments, Index begin,
                 Index end, Value scratch) {
    Index blocks = countBlocks(kernel, arguments);
    Index heads = arguments.getSize(target, 1);
    GradientRowSite site(kernel, arguments, lowering.plan, sites,
                         pos::RowOperand::query, rowGradients,
                         /*isPartial=*/true);
    kernel.loop(begin, end, 1, [&](Value item) {
      Index batchHead = kernel.div(item, blocks);
      Index batch = kernel.div(batchHead, heads);
      Index head = kernel.rem(batchHead, heads);
      if (failed(site.enterHead(batch, head)))
        status = failure();
      Index first = kernel.mul(kernel.rem(item, blocks), rowsPerItem);
      Index last = kernel.min(kernel.add(first, rowsPerItem),
                              arguments.getSize(target, 2));
      kernel.loop(first, last, 1, [&](Value query) {
        emitRow(kernel, arguments, site, batch, head, query, scratch);
      });
    });
  };
  operands.launch(lowering, "finish", {countItems, scratchBytes, run});
  if (failed(status))
    return failure();
  return result;
}

Value sextant::codegen::launchAddRows(const Lowering &lowering,
                                      StringRef suffix, Value rows,
                                      ArrayRef<Value> extras,
                                      RankedTensorType type) {
  int64_t dim = type.getDimSize(3);
  Value result = lowering.allocateLike(rows, type);
  LaunchOperands operands;
  unsigned source = operands.read(rows);
  SmallVector<unsigned> added;
  for (Value extra : extras)
    added.push_back(operands.read(extra));
  unsigned target = operands.write(result);
  auto countItems = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return kernel.mul(arguments.getSize(target, 0),
                      arguments.getSize(target, 1));
  };
  auto scratchBytes = [&](KernelBuilder &kernel, ArgumentBlock &) {
    return Index(4 * llvm::alignTo(dim, kernel.width()));
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments, Index begin,
                 Index end, Value scratch) {
    Index heads = arguments.getSize(target, 1);
    auto emitRow = [&](Index batch, Index head, Index row) {
      Value from = arguments.getAddress(source, {batch, head, row});
      for (int64_t lane = 0; lane < dim; lane += kernel.width()) {
        Value sum =
            kernel.loadPart(kernel.vf32, kernel.advance(from, {lane}),
                            std::min<int64_t>(kernel.width(), dim - lane));
        for (unsigned extra : added) {
          Value more = arguments.getAddress(extra, {0, batch, head, row});
          sum = kernel.addF(sum, kernel.loadVector(more, {lane}));
        }
        kernel.storeVector(sum, scratch, {lane});
      }
      storeRow(kernel, scratch, dim,
               arguments.getAddress(target, {batch, head, row}),
               arguments.getElementType(target));
    };
    kernel.loop(begin, end, 1, [&](Value item) {
      Index batch = kernel.div(item, heads), head = kernel.rem(item, heads);
      kernel.loop(0, arguments.getSize(target, 2), 1,
                  [&](Value row) { emitRow(batch, head, row); });
    });
  };
  operands.launch(lowering, suffix, {countItems, scratchBytes, run});
  return result;
}

//===----------------------------------------------------------------------===//
// Gradients of hoisted values and of direct reads
//===----------------------------------------------------------------------===//

void sextant::codegen::launchSum(const Lowering &lowering, StringRef suffix,
                                 Value partials, Value result, bool hasHeads,
                                 Value unlessTables) {
  LaunchOperands operands;
  unsigned source = operands.read(partials);
  std::optional<unsigned> tableRange;
  if (unlessTables)
    tableRange = operands.read(unlessTables);
  unsigned target = operands.write(result);
  RankedTensorType resultType = operands.layout.tensors[target];
  Type element = operands.layout.tensors[source].getElementType();

  // Extents of the result: [batch, heads, entries].
  auto getExtents = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    SmallVector<Index> extents{1, 1, 1};
    for (int64_t dim = 0; dim < resultType.getRank(); ++dim) {
      Index &extent = extents[hasHeads ? std::min<int64_t>(dim, 2) : 2];
      extent = kernel.mul(extent, arguments.getSize(target, dim));
    }
    return extents;
  };
  auto countItems = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    SmallVector<Index> extents = getExtents(kernel, arguments);
    return kernel.mul(kernel.mul(extents[0], extents[1]),
                      kernel.ceilDiv(extents[2], entriesPerItem));
  };
  auto emitItem = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                      Index item) {
    SmallVector<Index> extents = getExtents(kernel, arguments);
    Index blocks = kernel.ceilDiv(extents[2], entriesPerItem);
    Index row = kernel.div(item, blocks);
    Index batch = kernel.div(row, extents[1]);
    Index head = kernel.rem(row, extents[1]);
    Index first = kernel.mul(kernel.rem(item, blocks), entriesPerItem);
    Index last = kernel.min(kernel.add(first, entriesPerItem), extents[2]);
    // An extent of 1 stands for the sum over all of the partial sums'.
    auto range = [&](unsigned dim, Index extent, Index at) {
      Index all = arguments.getSize(source, dim);
      Value isOne = kernel.equal(extent, 1);
      return std::pair(kernel.select(isOne, 0, at),
                       kernel.select(isOne, all, kernel.add(at, 1)));
    };
    auto batches = range(1, extents[0], batch);
    auto heads = range(2, extents[1], head);
    Index chunks = arguments.getSize(source, 0);
    if (tableRange)
      chunks = kernel.select(
          OffsetRange(kernel, arguments, *tableRange).emitHasTables(), 0,
          chunks);
    auto lanes = VectorType::get(kernel.width(), element);
    auto wide = VectorType::get(kernel.width(), kernel.builder.getF64Type());
    kernel.loop(first, last, kernel.width(), [&](Value entry) {
      Index count = kernel.min(kernel.width(), kernel.sub(last, entry));
      auto add = [&](Index chunk, Index b, Index h, Value sum) -> Value {
        Value from = arguments.getAddress(source, {chunk, b, h, entry});
        Value addend = kernel.loadPart(lanes, from, count);
        if (lanes != wide)
          addend =
              arith::ExtFOp::create(kernel.builder, kernel.loc, wide, addend);
        return arith::AddFOp::create(kernel.builder, kernel.loc, sum, addend);
      };
      Value zero =
          kernel.constant(cast<TypedAttr>(kernel.builder.getZeroAttr(wide)));
      Value sum =
          kernel.loop(batches.first, batches.second, 1, zero,
                      [&](Value b, ValueRange sums) -> Values {
                        return kernel.loop(
                            heads.first, heads.second, 1, sums,
                            [&](Value h, ValueRange sums) -> Values {
                              return kernel.loop(
                                  0, chunks, 1, sums,
                                  [&](Value chunk, ValueRange sums) -> Values {
                                    return {add(chunk, b, h, sums[0])};
                                  });
                            });
                      })[0];
      // The result is contiguous: its strides are its extents.
      Index at = kernel.add(kernel.mul(row, extents[2]), entry);
      Type stored = resultType.getElementType();
      Value to = kernel.advance(arguments.getPointer(target), {at}, stored);
      if (!stored.isF64())
        sum = arith::TruncFOp::create(kernel.builder, kernel.loc, kernel.vf32,
                                      sum);
      kernel.storePart(sum, to, count);
    });
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments, Index begin,
                 Index end, Value) {
    kernel.loop(begin, end, 1,
                [&](Value item) { emitItem(kernel, arguments, item); });
  };
  operands.launch(lowering, suffix, {countItems, noScratch, run});
}

Value sextant::codegen::launchNarrow(const Lowering &lowering, StringRef suffix,
                                     Value wide) {
  auto type = cast<RankedTensorType>(wide.getType());
  auto narrow =
      RankedTensorType::get(type.getShape(), lowering.builder.getF32Type());
  Value result = lowering.allocateLike(wide, narrow);
  LaunchOperands operands;
  unsigned source = operands.read(wide);
  unsigned target = operands.write(result);

  auto countElements = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    Index count = 1;
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      count = kernel.mul(count, arguments.getSize(target, dim));
    return count;
  };
  auto countItems = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return kernel.ceilDiv(countElements(kernel, arguments), entriesPerItem);
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments, Index begin,
                 Index end, Value) {
    Index elements = countElements(kernel, arguments);
    Type f64 = kernel.builder.getF64Type();
    auto lanes = VectorType::get(kernel.width(), f64);
    Index last = kernel.min(kernel.mul(end, entriesPerItem), elements);
    kernel.loop(
        kernel.mul(begin, entriesPerItem), last, kernel.width(),
        [&](Value first) {
          Index count = kernel.min(kernel.width(), kernel.sub(last, first));
          Value from =
              kernel.advance(arguments.getPointer(source), {first}, f64);
          Value value =
              arith::TruncFOp::create(kernel.builder, kernel.loc, kernel.vf32,
                                      kernel.loadPart(lanes, from, count));
          kernel.storePart(
              value, kernel.advance(arguments.getPointer(target), {first}),
              count);
        });
  };
  operands.launch(lowering, suffix, {countItems, noScratch, run});
  return result;
}

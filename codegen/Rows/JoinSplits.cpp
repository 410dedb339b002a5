//===- JoinSplits.cpp - A forward whose keys are split --------------------===//

#include "codegen/Rows/JoinSplits.h"
#include "codegen/Emit/ScratchLayout.h"
#include "codegen/Emit/Sizes.h"
#include "codegen/Rows/RowCopy.h"
#include "codegen/Rows/RowPullback.h"
#include "codegen/Tiles/RowParts.h"
#include "codegen/Tiles/ScoreForm.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// Tiles of keys that are worth an item of their own.
static constexpr int64_t leastTiles = 4;

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

Value codegen::countSplits(const Lowering &lowering, const SplitShape &shape) {
  auto op = cast<pos::AttentionOp>(lowering.getOp());
  Sizes sizes{lowering};
  Value one = sizes.constant(1);
  Value items = sizes.ceilDiv(lowering.getDim(op.getQuery(), 2),
                              sizes.constant(shape.queries));
  for (Value extent : {lowering.getDim(op.getQuery(), 0), shape.heads})
    items = sizes.mul(items, extent);
  Value wanted =
      sizes.ceilDiv(sizes.constant(shape.enoughItems), sizes.max(items, one));
  Value most = sizes.ceilDiv(lowering.getDim(op.getKey(), 2),
                             sizes.constant(leastTiles * shape.keys));
  return sizes.max(sizes.min(wanted, most), one);
}

SplitTensors codegen::allocateSplits(const Lowering &lowering,
                                     Value splitCount) {
  auto op = cast<pos::AttentionOp>(lowering.getOp());
  OpBuilder &builder = lowering.builder;
  Sizes sizes{lowering};
  Value batch = lowering.getDim(op.getQuery(), 0);
  Value heads = lowering.getDim(op.getQuery(), 1);
  Value queries = lowering.getDim(op.getQuery(), 2);
  SplitTensors splits;
  splits.count = splitCount;
  // No memory for one.
  Value one = sizes.constant(1);
  Value any = sizes.min(sizes.create<arith::SubIOp>(splits.count, one), one);
  Value count = sizes.mul(splits.count, any);
  auto allocate = [&](ArrayRef<int64_t> rest, ValueRange sizes) {
    constexpr int64_t dynamic = ShapedType::kDynamic;
    SmallVector<int64_t> dims{dynamic, dynamic, dynamic};
    llvm::append_range(dims, rest);
    SmallVector<Value> all{count, batch, heads};
    llvm::append_range(all, sizes);
    return lowering.allocate(RankedTensorType::get(dims, builder.getF32Type()),
                             all);
  };
  splits.softmax = allocate({2, ShapedType::kDynamic}, {Value(), queries});
  for (int64_t dim : getHeadDims(op.getValues()))
    splits.outputs.push_back(
        allocate({ShapedType::kDynamic, dim}, {queries, Value()}));
  return splits;
}

//===----------------------------------------------------------------------===//
// The launch
//===----------------------------------------------------------------------===//

namespace {
/// Numbers of the operands.
struct JoinOperands {
  unsigned softmax;
  SmallVector<unsigned> parts;
  unsigned splits; ///< a scalar
  ForwardResults results;
};

/// Writes one item: as many rows of a head as a vector has lanes.
class JoinRows {
public:
  JoinRows(KernelBuilder &kernel, ArgumentBlock &arguments,
           const KernelPlan &plan, const SiteOperands &sites,
           const JoinOperands &operands, Value memory)
      : kernel(kernel), arguments(arguments), plan(plan), operands(operands),
        point(kernel, arguments, plan, sites, pos::RowOperand::query),
        memory(memory), splits(arguments.getScalar(operands.splits)) {}

  /// Words of scratch memory: the largest shift, the inverse sum, statistics.
  static int64_t countWords(int64_t width, int64_t mostDim) {
    return 4 * width + llvm::alignTo(mostDim, width);
  }

  void emit(Index batch, Index head, Index first, Index count);

private:
  Value loadSoftmax(Index split, Index part, Index row, Index count);
  void storeLse(Index batch, Index head, Index first, Index count, Value most,
                Value sum, Value isLive);
  void joinRow(unsigned value, Index batch, Index head, Index row, Index lane);

  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const KernelPlan &plan;
  const JoinOperands &operands;
  RowPoint point;
  Value memory;
  Index splits;
  Index batch = 0, head = 0;
};
} // namespace

Value JoinRows::loadSoftmax(Index split, Index part, Index row, Index count) {
  return kernel.loadPart(
      kernel.vf32,
      arguments.getAddress(operands.softmax, {split, batch, head, part, row}),
      count);
}

void JoinRows::emit(Index newBatch, Index newHead, Index first, Index count) {
  batch = newBatch;
  head = newHead;
  point.enterHead(batch, head);
  int64_t width = kernel.width();
  Value hidden = kernel.splatF32(hiddenScore), zero = kernel.splatF32(0);
  Value most = kernel.loop(
      0, splits, 1, hidden, [&](Value split, ValueRange known) -> Values {
        return {kernel.maxF(loadSoftmax(split, 0, first, count), known[0])};
      })[0];
  Value isSeen = kernel.compareF(arith::CmpFPredicate::UNE, most, hidden);
  Value shift = kernel.selectF(isSeen, most, zero);
  Value sum = kernel.loop(
      0, splits, 1, zero, [&](Value split, ValueRange known) -> Values {
        Value weight = kernel.exp2(
            kernel.subF(loadSoftmax(split, 0, first, count), shift));
        return {
            kernel.fma(loadSoftmax(split, 1, first, count), weight, known[0])};
      })[0];
  // NaN counts as seen.
  Value isLive =
      kernel.compareF(arith::CmpFPredicate::UGT,
                      kernel.addF(most, kernel.subF(sum, sum)), hidden);
  Value inverse = kernel.divF(kernel.splatF32(1), sum);
  kernel.storeVector(shift, memory);
  kernel.storeVector(kernel.selectF(isLive, inverse, zero), memory, {width});
  storeLse(batch, head, first, count, most, sum, isLive);
  kernel.loop(0, count, 1, [&](Value lane) {
    for (unsigned value = 0; value < operands.parts.size(); ++value)
      joinRow(value, batch, head, kernel.add(first, lane), lane);
  });
}

void JoinRows::storeLse(Index batch, Index head, Index first, Index count,
                        Value most, Value sum, Value isLive) {
  int64_t width = kernel.width();
  Value lse =
      kernel.fma(most, kernel.splatF32(llvm::numbers::ln2), kernel.log(sum));
  Value at = kernel.advance(memory, {2 * width});
  kernel.storeVector(kernel.selectF(isLive, lse, kernel.splatF32(hiddenScore)),
                     at);
  kernel.storeVector(most, at, {width});
  kernel.storeVector(sum, at, {2 * width});
  kernel.loop(0, count, 1, [&](Value lane) {
    Index row = kernel.add(first, lane);
    Value own = kernel.loadF32(at, {lane});
    if (pos::RowTermOp term = plan.rowTerm) {
      point.setPoint(row, 0);
      own = kernel.addF(own, point.hoisted(kernel.builder, term.getHoist()));
    }
    kernel.store(
        own, arguments.getAddress(operands.results.lse, {batch, head, row}));
    if (operands.results.statistics)
      for (int64_t part : {0, 1})
        kernel.store(kernel.loadF32(at, {(1 + part) * width, lane}),
                     arguments.getAddress(*operands.results.statistics,
                                          {batch, head, row, part}));
  });
}

/// The output of a row, whose numbers are at `lane` in the memory.
void JoinRows::joinRow(unsigned value, Index batch, Index head, Index row,
                       Index lane) {
  int64_t width = kernel.width();
  unsigned part = operands.parts[value],
           output = operands.results.outputs[value];
  int64_t dim = arguments.getSize(part, 4).getConstant();
  Value shift = kernel.loadBroadcast(memory, {lane});
  Value inverse = kernel.loadBroadcast(memory, {lane, width});
  Value isLive =
      kernel.compareF(arith::CmpFPredicate::UNE, inverse, kernel.splatF32(0));
  Value joined = kernel.advance(memory, {5 * width});
  for (int64_t first = 0; first < dim; first += width) {
    Index count = std::min(width, dim - first);
    Value sum = kernel.loop(
        0, splits, 1, kernel.splatF32(0),
        [&](Value split, ValueRange known) -> Values {
          Value own = kernel.loadBroadcast(arguments.getAddress(
              operands.softmax, {split, batch, head, 0, row}));
          Value from = kernel.advance(
              arguments.getAddress(part, {split, batch, head, row}), {first});
          return {kernel.fma(kernel.loadPart(kernel.vf32, from, count),
                             kernel.exp2(kernel.subF(own, shift)), known[0])};
        })[0];
    kernel.storeVector(
        kernel.selectF(isLive, kernel.mulF(sum, inverse), kernel.splatF32(0)),
        joined, {first});
  }
  storeRow(kernel, joined, dim,
           arguments.getAddress(output, {batch, head, row}),
           arguments.getElementType(output));
}

void codegen::launchJoin(const Lowering &lowering, const HoistTables &tables,
                         const SplitTensors &splits, ValueRange results,
                         StringRef suffix) {
  auto op = cast<pos::AttentionOp>(lowering.getOp());
  LaunchOperands launch;
  JoinOperands operands;
  operands.softmax = launch.read(splits.softmax);
  for (Value part : splits.outputs)
    operands.parts.push_back(launch.read(part));
  SiteOperands sites;
  sites.query = launch.read(op.getQuery());
  sites.key = launch.read(op.getKey());
  for (Value value : op.getValues())
    sites.values.push_back(launch.read(value));
  sites.append(lowering.plan, tables, launch.layout, launch.reads);
  for (Value output : results.take_front(op.getOutputs().size()))
    operands.results.outputs.push_back(launch.write(output));
  results = results.drop_front(op.getOutputs().size());
  operands.results.lse = launch.write(results.front());
  if (results.size() > 1)
    operands.results.statistics = launch.write(results[1]);
  operands.splits = launch.scalar(splits.count);

  int64_t mostDim = 0;
  for (int64_t dim : getHeadDims(op.getValues()))
    mostDim = std::max(mostDim, dim);
  int64_t width = lowering.target.width;
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    // None without splits.
    Index any =
        kernel.min(kernel.sub(arguments.getScalar(operands.splits), 1), 1);
    return ItemSpace(kernel,
                     {kernel.mul(any, arguments.getSize(sites.query, 0)),
                      arguments.getSize(sites.query, 1),
                      {arguments.getSize(sites.query, 2), width}});
  };
  auto scratchBytes = [&](KernelBuilder &, ArgumentBlock &) {
    return Index(4 * (width + JoinRows::countWords(width, mostDim)));
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value scratch) {
    JoinRows rows(kernel, arguments, lowering.plan, sites, operands, scratch);
    items.forEach([&](const Item &item) {
      rows.emit(item[0], item[1], item[2], kernel.sub(item.end(2), item[2]));
    });
  };
  launch.launch(lowering, suffix, {items, scratchBytes, run});
}

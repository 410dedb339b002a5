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
  auto sub = [&](Value a, Value b) {
    return sizes.create<arith::SubIOp>(a, b);
  };
  Value enough = sizes.constant(shape.enoughItems);
  // 1 where there are more items than enough, else 0.
  Value areMore =
      sizes.min(sizes.max(sub(items, enough), sizes.constant(0)), one);
  Value turns = sizes.create<arith::AddIOp>(
      one, sizes.mul(areMore, sizes.constant(shape.turns - 1)));
  Value wanted = sizes.ceilDiv(sizes.mul(enough, turns), sizes.max(items, one));
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
  Values passSplits(Values state, function_ref<Values(Index split)> load,
                    function_ref<Values(ValueRange loaded, ValueRange)> add);
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

/// Adds what `load` gives of each split to the state, in order. Loads of as
/// many splits as the target wants at once stand before the first addition;
/// those behind the last split are of that one again, and are not added.
Values JoinRows::passSplits(Values state,
                            function_ref<Values(Index split)> load,
                            function_ref<Values(ValueRange, ValueRange)> add) {
  int64_t atOnce = kernel.target.loadsAtOnce;
  Index last = kernel.sub(splits, 1);
  auto addSplits = [&](Value first, ValueRange known) -> Values {
    SmallVector<Values> loaded;
    for (int64_t number = 0; number < atOnce; ++number) {
      Index split = kernel.add(first, number);
      loaded.push_back(load(number == 0 ? split : kernel.min(split, last)));
    }
    Values sums = add(loaded[0], known);
    for (int64_t number = 1; number < atOnce; ++number) {
      Value isThere = kernel.less(kernel.add(first, number), splits);
      for (auto [sum, more] : llvm::zip_equal(sums, add(loaded[number], sums)))
        sum = kernel.selectF(isThere, more, sum);
    }
    return sums;
  };
  return kernel.loop(0, splits, atOnce, state, addSplits);
}

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
  Value most = passSplits(
      {hidden},
      [&](Index split) -> Values {
        return {loadSoftmax(split, 0, first, count)};
      },
      [&](ValueRange own, ValueRange known) -> Values {
        return {kernel.maxF(own[0], known[0])};
      })[0];
  Value isSeen = kernel.compareF(arith::CmpFPredicate::UNE, most, hidden);
  Value shift = kernel.selectF(isSeen, most, zero);
  Value sum = passSplits(
      {zero},
      [&](Index split) -> Values {
        return {loadSoftmax(split, 0, first, count),
                loadSoftmax(split, 1, first, count)};
      },
      [&](ValueRange own, ValueRange known) -> Values {
        Value weight = kernel.exp2(kernel.subF(own[0], shift));
        return {kernel.fma(own[1], weight, known[0])};
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
  int64_t perPass = kernel.target.loadsAtOnce > 1 ? 2 * width : width;
  for (int64_t begin = 0; begin < dim; begin += perPass) {
    int64_t end = std::min(dim, begin + perPass);
    auto load = [&](Index split) {
      Values loaded{kernel.loadBroadcast(arguments.getAddress(
          operands.softmax, {split, batch, head, 0, row}))};
      Value from = arguments.getAddress(part, {split, batch, head, row});
      for (int64_t first = begin; first < end; first += width)
        loaded.push_back(kernel.loadPart(kernel.vf32,
                                         kernel.advance(from, {first}),
                                         std::min(width, end - first)));
      return loaded;
    };
    auto add = [&](ValueRange own, ValueRange known) {
      Value weight = kernel.exp2(kernel.subF(own[0], shift));
      Values sums;
      for (auto [vector, sum] : llvm::zip_equal(own.drop_front(), known))
        sums.push_back(kernel.fma(vector, weight, sum));
      return sums;
    };
    Value zero = kernel.splatF32(0);
    Values sums = passSplits(Values(llvm::divideCeil(end - begin, width), zero),
                             load, add);
    for (auto [number, sum] : llvm::enumerate(sums))
      kernel.storeVector(
          kernel.selectF(isLive, kernel.mulF(sum, inverse), zero), joined,
          {begin + static_cast<int64_t>(number) * width});
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

//===- ReferenceMapRows.cpp - Row maps outside attention ------------------===//

#include "codegen/Reference/Reference.h"
#include "codegen/Tables/RowIndices.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

namespace {
/// The rows before the maps, numbers of the kernel.
struct SourceRows {
  unsigned tensor = 0;
  std::optional<unsigned> indices;

  /// Row `row` of `batch` as indices of the tensor.
  SmallVector<Index> at(ReferenceKernel &r, Index batch, Index row) const {
    if (!indices)
      return {batch, row};
    return {loadRowIndex(r.k, r.arguments, *indices, batch, row)};
  }
};
} // namespace

static SourceRows addSource(const MappedRows &mapped,
                            LaunchOperands &operands) {
  SourceRows source{operands.read(mapped.input), std::nullopt};
  if (mapped.indices)
    source.indices = operands.read(mapped.indices);
  return source;
}

/// One item per row of the tensor `rowsLike` [batch, length, width], or one for
/// all where gradients of parameters are summed.
static LogicalResult createRowsKernel(
    const Lowering &lowering, StringRef suffix, const LaunchOperands &operands,
    const PointLayout &layout, unsigned rowsLike, unsigned scratchRows,
    function_ref<void(ReferenceKernel &, Index batch, Index row)> body,
    const ReadLog *log = nullptr) {
  FloatType type = getReferenceType(getMappedRows(lowering.plan.owner)->input);
  bool oneItem = log || !layout.paramGradients.empty();
  auto rows = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return k.mul(arguments.getSize(rowsLike, 0),
                 arguments.getSize(rowsLike, 1));
  };
  auto items = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return ItemSpace(k, {oneItem ? Index(1) : rows(k, arguments)});
  };
  auto scratch = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return getScratchBytes(k, type,
                           k.mul(arguments.getSize(rowsLike, 2), scratchRows));
  };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, const Items &items,
                 Value memory) {
    ReferencePoint point(k, arguments, layout, lowering.plan, type);
    point.log = log;
    ReferenceKernel r(k, arguments, point, memory);
    Index length = arguments.getSize(rowsLike, 1);
    auto runRow = [&](Value number) {
      Index batch = k.div(number, length), row = k.rem(number, length);
      point.moveToRow(pos::RowOperand::embedding, batch, 0, row);
      body(r, batch, row);
    };
    if (oneItem)
      k.loop(items.begin, items.end, 1,
             [&](Value) { k.loop(0, rows(k, arguments), 1, runRow); });
    else
      k.loop(items.begin, items.end, 1, runRow);
    k.check(failure(point.failed));
  };
  operands.launch(lowering, suffix, {items, scratch, run});
  return lowering.status;
}

FailureOr<SmallVector<Value>>
codegen::lowerReferenceMapRows(const Lowering &lowering, ReadLog *log) {
  pos::SitesOwnerInterface owner = lowering.plan.owner;
  auto op = cast<pos::MapRowsOp>(*owner);
  LaunchOperands operands;
  PointLayout layout = addReferenceReads(lowering, operands);
  SourceRows input = addSource(*getMappedRows(owner), operands);
  Value result = allocateMapped(lowering, op.getResult().getType());
  unsigned output = operands.write(result);
  if (log)
    log->addTo(operands);
  LogicalResult created = createRowsKernel(
      lowering, "rows", operands, layout, output, 1,
      [&](ReferenceKernel &r, Index batch, Index row) {
        Matrix work = r.allocate(1, r.arguments.getSize(output, 2));
        r.loadRow(input.tensor, input.at(r, batch, row), work, 0);
        r.mapRow(lowering.plan.inputRows, work, 0);
        r.storeRow(output, {batch, row}, work, 0);
      },
      log);
  if (failed(created))
    return failure();
  return SmallVector<Value>{result};
}

FailureOr<SmallVector<Value>>
codegen::lowerReferenceMapRowsBackward(const Lowering &lowering) {
  pos::SitesOwnerInterface owner = lowering.plan.owner;
  auto op = cast<pos::MapRowsBackwardOp>(*owner);
  LaunchOperands operands;
  PointLayout layout = addReferenceReads(lowering, operands);
  SourceRows input = addSource(*getMappedRows(owner), operands);
  unsigned seed = operands.read(op.getResultGradient());
  Value result = allocateMapped(lowering, op.getInputGradient().getType());
  unsigned output = operands.write(result);
  SmallVector<Value> results{result};
  results.append(
      addParamGradients(lowering, operands, layout, op.getParamGradients()));
  LogicalResult created = createRowsKernel(
      lowering, "rows_backward", operands, layout, seed, 3,
      [&](ReferenceKernel &r, Index batch, Index row) {
        Index width = r.arguments.getSize(seed, 2);
        Matrix original = r.allocate(1, width);
        Matrix gradient = r.allocate(1, width), work = r.allocate(1, width);
        r.loadRow(input.tensor, input.at(r, batch, row), original, 0);
        r.loadRow(seed, {batch, row}, gradient, 0);
        r.pullRow(lowering.plan.inputRows, gradient, 0, original, work);
        r.storeRow(output, {batch, row}, gradient, 0);
      });
  if (failed(created))
    return failure();
  return results;
}

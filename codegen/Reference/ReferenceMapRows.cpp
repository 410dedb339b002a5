//===- ReferenceMapRows.cpp - Row maps outside attention ------------------===//

#include "codegen/Reference/Reference.h"
#include "codegen/Reference/ReferenceLaunch.h"
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
  SmallVector<Index> at(ReferenceBuilder &r, Index batch, Index row) const {
    if (!indices)
      return {batch, row};
    return {loadRowIndex(r.k, r.arguments, *indices, batch, row,
                         r.arguments.getSize(tensor, 0))};
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

/// Launches `body` at the rows of the tensor `rowsLike` [batch, length, width],
/// with scratch memory for a number of rows.
static LogicalResult launchRows(
    const ReferenceLaunch &launch, StringRef suffix, unsigned rowsLike,
    unsigned scratchRows,
    function_ref<void(ReferenceBuilder &, Index batch, Index row)> body) {
  auto rows = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return k.mul(arguments.getSize(rowsLike, 0),
                 arguments.getSize(rowsLike, 1));
  };
  auto elements = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return k.mul(arguments.getSize(rowsLike, 2), scratchRows);
  };
  auto run = [&](ReferenceBuilder &r, Index number) {
    Index length = r.arguments.getSize(rowsLike, 1);
    Index batch = r.k.div(number, length), row = r.k.rem(number, length);
    r.point.moveToRow(pos::RowOperand::embedding, batch, 0, row);
    body(r, batch, row);
  };
  return launch.create(suffix, rows, elements, run);
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
  auto mapOne = [&](ReferenceBuilder &r, Index batch, Index row) {
    Matrix work = r.allocate(1, r.arguments.getSize(output, 2));
    r.loadRow(input.tensor, input.at(r, batch, row), work, 0);
    mapRow(r, lowering.plan.inputRows, work, 0);
    r.storeRow(output, {batch, row}, work, 0);
  };
  if (failed(launchRows({lowering, operands, layout, log}, "rows", output, 1,
                        mapOne)))
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
  auto pullOne = [&](ReferenceBuilder &r, Index batch, Index row) {
    Index width = r.arguments.getSize(seed, 2);
    Matrix original = r.allocate(1, width);
    Matrix gradient = r.allocate(1, width), work = r.allocate(1, width);
    r.loadRow(input.tensor, input.at(r, batch, row), original, 0);
    r.loadRow(seed, {batch, row}, gradient, 0);
    pullRow(r, lowering.plan.inputRows, gradient, 0, original, work);
    r.storeRow(output, {batch, row}, gradient, 0);
  };
  if (failed(launchRows({lowering, operands, layout}, "rows_backward", seed, 3,
                        pullOne)))
    return failure();
  return results;
}

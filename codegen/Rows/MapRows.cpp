//===- MapRows.cpp - Row maps outside attention, and their gradient -------===//
//
// The input [B, L, C] is seen as [B, 1, L, C], and a table [V, C] that indices
// take rows of as [1, 1, V, C], so rows are copied and mapped as those of
// attention are. Gradients of the tables behind the maps are summed
// over the batch, in order, by the item that owns the rows.
//
//===----------------------------------------------------------------------===//

#include "codegen/Rows/MapRows.h"
#include "codegen/Rows/RowGradients.h"
#include "codegen/Rows/RowPullback.h"
#include "codegen/Tables/ArgumentPoint.h"
#include "codegen/Tables/HoistTable.h"
#include "codegen/Tables/RowIndices.h"
#include "dialects/Exec/IR/Exec.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Rows of one item, a number of the kernel.
static constexpr int64_t rowsPerItem = 64;

//===----------------------------------------------------------------------===//
// What both directions share
//===----------------------------------------------------------------------===//

/// [B, L, C] as [B, 1, L, C], [V, C] as [1, 1, V, C].
static Value withHeads(const Lowering &lowering, Value rows) {
  auto type = cast<RankedTensorType>(rows.getType());
  SmallVector<int64_t> shape(type.getShape());
  if (shape.size() == 2)
    shape.insert(shape.begin(), 1);
  shape.insert(shape.begin() + 1, 1);
  auto result = RankedTensorType::get(shape, type.getElementType());
  SmallVector<Value> sizes;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (type.isDynamicDim(dim))
      sizes.push_back(lowering.getDim(rows, dim));
  return exec::ViewOp::create(lowering.builder, lowering.getLoc(), result, rows,
                              DenseI64ArrayAttr(), sizes);
}

static int64_t getWidth(Value rows) {
  return cast<RankedTensorType>(rows.getType()).getShape().back();
}

static int64_t getRowWords(const Lowering &lowering, Value rows) {
  return getCopiedRowWords(lowering.target, getWidth(rows),
                           /*pairs=*/false);
}

namespace {
/// The rows before the maps, numbers of the kernel.
struct SourceRows {
  unsigned tensor = 0;
  std::optional<unsigned> indices;
};
} // namespace

static SourceRows addSource(const Lowering &lowering,
                            LaunchOperands &operands) {
  MappedRows mapped = *getMappedRows(lowering.plan.owner);
  SourceRows source;
  source.tensor = operands.read(withHeads(lowering, mapped.input));
  if (mapped.indices)
    source.indices = operands.read(mapped.indices);
  return source;
}

static SiteOperands addSites(const Lowering &lowering,
                             const HoistTables &tables,
                             LaunchOperands &operands) {
  SiteOperands sites;
  sites.append(lowering.plan, tables, operands.layout, operands.reads);
  return sites;
}

/// The rows at hand are all operands of the sites; `rows` [B, 1, L, C] has
/// their sizes.
static void setRows(SiteOperands &sites, unsigned rows) {
  sites.query = sites.key = rows;
  sites.values = {rows};
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<Value>>
sextant::codegen::lowerMapRows(const Lowering &lowering) {
  auto op = cast<pos::MapRowsOp>(lowering.getOp());
  HoistTables tables = launchHoists(lowering, HoistTableOptions());
  Value result = allocateMapped(lowering, op.getResult().getType());
  LaunchOperands operands;
  SourceRows source = addSource(lowering, operands);
  SiteOperands sites = addSites(lowering, tables, operands);
  unsigned target = operands.write(withHeads(lowering, result));
  setRows(sites, target);
  Type element = op.getInput().getType().getElementType();
  int64_t width = getWidth(op.getInput());
  int64_t words = getRowWords(lowering, op.getInput());

  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(kernel, {arguments.getSize(target, 0),
                              {arguments.getSize(target, 2), rowsPerItem}});
  };
  auto scratchBytes = [&](KernelBuilder &, ArgumentBlock &) {
    return Index(4 * words);
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value scratch) {
    RowPoint point(kernel, arguments, lowering.plan, sites, op.getOperand());
    items.forEach([&](const Item &item) {
      Index batch = item[0];
      point.enterHead(batch, 0);
      kernel.loop(item[1], item.end(1), 1, [&](Value row) {
        RowCopy copy;
        copy.tensor = source.tensor;
        copy.indices = source.indices;
        copy.batch = batch;
        copy.first = row;
        copy.count = 1;
        copy.dim = width;
        copy.maps = lowering.plan.inputRows;
        copy.point = &point;
        copy.to = scratch;
        copy.rowWords = words;
        emitRowCopy(kernel, arguments, copy, element);
        storeRow(kernel, scratch, width,
                 arguments.getAddress(target, {batch, 0, row}), element);
      });
    });
  };
  operands.launch(lowering, "map", {items, scratchBytes, run});
  return SmallVector<Value>{result};
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

/// Adds the kernel and the launch; `gradients` has a tensor per hoist, or null.
static Value launchPullback(const Lowering &lowering, const HoistTables &tables,
                            ArrayRef<Value> gradients) {
  auto op = cast<pos::MapRowsBackwardOp>(lowering.getOp());
  Value result = allocateMapped(lowering, op.getInputGradient().getType());
  LaunchOperands operands;
  SourceRows source = addSource(lowering, operands);
  unsigned incoming =
      operands.read(withHeads(lowering, op.getResultGradient()));
  SiteOperands sites = addSites(lowering, tables, operands);
  setRows(sites, incoming);
  unsigned target = operands.write(result);
  SmallVector<PartialSum> sums;
  for (Value gradient : gradients)
    sums.emplace_back(gradient).addTo(operands);
  Type element = op.getInput().getType().getElementType();
  int64_t width = getWidth(op.getInput());
  int64_t words = getRowWords(lowering, op.getInput());

  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(kernel, {{arguments.getSize(target, 1), rowsPerItem}});
  };
  auto scratchBytes = [&](KernelBuilder &, ArgumentBlock &) {
    return Index(2 * 4 * words);
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value scratch) {
    GradientRowPoint point(kernel, arguments, lowering.plan, sites,
                           op.getOperand(), sums, /*isPartial=*/false);
    auto emitRow = [&](Index batch, Index row) {
      RowCopy copy;
      copy.tensor = incoming;
      copy.batch = batch;
      copy.first = row;
      copy.count = 1;
      copy.dim = width;
      copy.to = scratch;
      copy.rowWords = words;
      RowPullback pullback;
      pullback.tensor = source.tensor;
      pullback.indices = source.indices;
      pullback.batch = batch;
      pullback.row = row;
      pullback.dim = width;
      pullback.maps = lowering.plan.inputRows;
      pullback.point = &point;
      pullback.gradient = scratch;
      pullback.memory = kernel.advance(scratch, {words});
      emitRowCopy(kernel, arguments, copy, element);
      emitRowPullback(kernel, arguments, pullback, element);
      storeRow(kernel, scratch, width,
               arguments.getAddress(target, {batch, row}), element);
    };
    // The batch outside the rows: gradients of a table are summed in its order.
    items.forEach([&](const Item &item) {
      Index last = item.end(0);
      kernel.loop(0, arguments.getSize(target, 0), 1, [&](Value batch) {
        point.enterHead(batch, 0);
        kernel.loop(item[0], last, 1, [&](Value row) { emitRow(batch, row); });
      });
    });
  };
  operands.launch(lowering, "pull", {items, scratchBytes, run});
  return result;
}

FailureOr<SmallVector<Value>>
sextant::codegen::lowerMapRowsBackward(const Lowering &lowering) {
  auto op = cast<pos::MapRowsBackwardOp>(lowering.getOp());
  HoistTables tables = launchHoists(lowering, HoistTableOptions());
  SmallVector<Value> gradients;
  for (const Hoisted &hoisted : lowering.plan.hoisted) {
    gradients.emplace_back();
    if (!hoisted.wantsGradient)
      continue;
    if (hoisted.form != HoistForm::RowLaneTable) {
      pos::HoistOp hoist = hoisted.op;
      return hoist.emitOpError("a trained value that all rows of a row map "
                               "share has no gradient on this target");
    }
    HoistGradientShape shape =
        getHoistGradientShape(lowering, hoisted, tables.options);
    gradients.back() =
        lowering.allocate(shape.type, shape.sizes, /*zero=*/true);
  }
  Value inputGradient = launchPullback(lowering, tables, gradients);
  ParamSums params(lowering);
  launchHoistPullbacks(lowering, tables, gradients, params);
  SmallVector<Value> results{inputGradient};
  for (int32_t number : op.getParamGradients())
    results.push_back(params.finish(
        number, getElementTypeOrSelf(op.getParams()[number].getType())));
  return results;
}

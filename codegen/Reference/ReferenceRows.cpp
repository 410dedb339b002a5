//===- ReferenceRows.cpp - Row maps and columns, in and out ---------------===//

#include "codegen/Reference/ReferenceRows.h"
#include "codegen/Tables/PayloadCall.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using pos::RowOperand;

//===----------------------------------------------------------------------===//
// Row maps
//===----------------------------------------------------------------------===//

/// Lane of the row that is value `part` of a group (C6).
static Index getLane(KernelBuilder &k, const RowMap &map, Index group,
                     unsigned part) {
  return k.add(k.mul(group, map.getGroupStep()), map.getLane(0, part));
}

static SmallVector<Value> loadGroup(ReferenceBuilder &r, const RowMap &map,
                                    const Matrix &matrix, Index row,
                                    Index group) {
  pos::RowsOp op = map.op;
  SmallVector<Value> values;
  for (unsigned part = 0; part < op.getBody().getNumArguments(); ++part)
    values.push_back(r.load(matrix, row, getLane(r.k, map, group, part)));
  return values;
}

static void storeGroup(ReferenceBuilder &r, const RowMap &map,
                       const Matrix &matrix, Index row, Index group,
                       ValueRange values) {
  for (auto [part, value] : llvm::enumerate(values))
    r.store(matrix, row, getLane(r.k, map, group, part),
            value ? value : r.constant(0.0));
}

void codegen::mapRow(ReferenceBuilder &r, ArrayRef<RowMap> maps,
                     const Matrix &matrix, Index row) {
  for (const RowMap &map : maps)
    r.k.loop(0, map.getNumGroups(), 1, [&](Value group) {
      r.point.setLane(group);
      pos::RowsOp op = map.op;
      storeGroup(r, map, matrix, row, group,
                 callPayload(r.k, op.getBody().front(),
                             loadGroup(r, map, matrix, row, group), r.point));
    });
}

void codegen::pullRow(ReferenceBuilder &r, ArrayRef<RowMap> maps,
                      const Matrix &gradient, Index row, const Matrix &original,
                      const Matrix &work) {
  for (size_t last = maps.size(); last > 0; --last) {
    const RowMap &map = maps[last - 1];
    r.k.loop(0, work.width, 1, [&](Value column) {
      r.store(work, 0, column, r.load(original, 0, column));
    });
    mapRow(r, maps.take_front(last - 1), work, 0);
    r.k.loop(0, map.getNumGroups(), 1, [&](Value group) {
      r.point.setLane(group);
      pos::RowsOp op = map.op;
      storeGroup(r, map, gradient, row, group,
                 callPullback(r.k, op.getBody().front(),
                              loadGroup(r, map, work, 0, group),
                              loadGroup(r, map, gradient, row, group),
                              r.point));
    });
  }
}

//===----------------------------------------------------------------------===//
// Columns
//===----------------------------------------------------------------------===//

/// Calls `body` for every column appended to a row of an operand, with its
/// place in the matrix. The point stands at the row.
static void
forColumns(ReferenceBuilder &r, RowOperand operand, const Matrix &matrix,
           function_ref<void(pos::HoistOp hoist, Index place)> body) {
  if (operand == RowOperand::value)
    return;
  const KernelPlan &plan = r.point.getPlan();
  Index first = r.k.sub(matrix.width, plan.countColumns());
  for (const RowColumns &columns : plan.columns) {
    r.k.loop(0, columns.count, 1, [&](Value column) {
      r.point.setLane(column);
      body(columns.get(operand), r.k.add(first, column));
    });
    first = r.k.add(first, columns.count);
  }
}

//===----------------------------------------------------------------------===//
// Rows of an operand
//===----------------------------------------------------------------------===//

static ArrayRef<RowMap> getMaps(const KernelPlan &plan, RowOperand operand) {
  if (operand == RowOperand::query)
    return plan.queryRows;
  return operand == RowOperand::key ? plan.keyRows : plan.valueRows;
}

OperandRows codegen::allocateRows(ReferenceBuilder &r, RowOperand operand,
                                  unsigned tensor, Index count,
                                  bool wantsGradient) {
  Index lanes = r.arguments.getSize(tensor, 3);
  Index width = operand == RowOperand::value
                    ? lanes
                    : r.k.add(lanes, r.point.getPlan().countColumns());
  OperandRows rows{operand, tensor, r.allocate(count, width)};
  if (wantsGradient) {
    rows.gradient = r.allocate(count, width);
    rows.original = r.allocate(1, lanes);
    rows.work = r.allocate(1, lanes);
  }
  return rows;
}

void codegen::loadMapped(ReferenceBuilder &r, const OperandRows &rows,
                         Index batch, Index head, Index row, Index to) {
  r.point.moveToRow(rows.operand, batch, head, row);
  r.loadRow(rows.tensor, {batch, head, row}, rows.rows, to);
  mapRow(r, getMaps(r.point.getPlan(), rows.operand), rows.rows, to);
  forColumns(r, rows.operand, rows.rows, [&](pos::HoistOp hoist, Index place) {
    if (Value value = r.point.hoisted(r.k.builder, hoist))
      r.store(rows.rows, to, place, value);
  });
  if (rows.gradient.base)
    r.k.loop(0, rows.rows.width, 1, [&](Value column) {
      r.store(rows.gradient, to, column, r.constant(0.0));
    });
}

void codegen::storePulled(ReferenceBuilder &r, const OperandRows &rows,
                          unsigned tensor, ArrayRef<Index> place, Index from,
                          const Matrix *unmapped) {
  r.point.moveToRow(rows.operand, place[0], place[1], place[2]);
  forColumns(r, rows.operand, rows.gradient,
             [&](pos::HoistOp hoist, Index place) {
               if (r.point.wantsGradient(hoist))
                 r.point.addToHoisted(r.k.builder, hoist,
                                      r.load(rows.gradient, from, place));
             });
  r.loadRow(rows.tensor, place, rows.original, 0);
  pullRow(r, getMaps(r.point.getPlan(), rows.operand), rows.gradient, from,
          rows.original, rows.work);
  if (unmapped)
    r.k.loop(0, unmapped->width, 1, [&](Value column) {
      r.addTo(rows.gradient, from, column, r.load(*unmapped, from, column));
    });
  r.storeRow(tensor, place, rows.gradient, from);
}

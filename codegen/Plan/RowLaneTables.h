//===- RowLaneTables.h - Values over rows and lanes -------------*- C++ -*-===//
//
// What row maps and columns take from hoisted values that differ from row to
// row and from lane to lane. Such a value is a table that is filled before the
// kernel runs, but where it is an element of a parameter that has a row per
// row of the operand: then the parameter is the table.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_PLAN_ROWLANETABLES_H
#define SEXTANT_CODEGEN_PLAN_ROWLANETABLES_H

#include "codegen/Plan/KernelPlan.h"

namespace sextant::codegen {

/// A parameter that is the table of a value.
struct TableParam {
  unsigned number = 0;
  bool isAtIndex = false; ///< as in Hoisted
};

/// The parameter that is the table of a value over rows and lanes: the value is
/// its element at batch, head, row and lane, and only sites use it.
std::optional<TableParam> findTableParam(const Hoisted &entry,
                                         mlir::Block &sites);

/// Whether an index of a parameter is that of the row at hand: its place in the
/// tensor, its index, or 0 where that is negative. Rows do not share elements
/// then, but for the queries before the first key.
bool isOfRow(mlir::Value index);

/// Columns of the table of a RowLaneTable: groups of lanes that the row maps
/// run over, or columns that are made of it.
int64_t countTableColumns(const KernelPlan &plan, const Hoisted &entry);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_PLAN_ROWLANETABLES_H

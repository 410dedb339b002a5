//===- RowPlan.h - Which rows a kernel maps and turns -----------*- C++ -*-===//
//
// Internal to codegen/Plan: the part of a plan that is about rows of operands.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_PLAN_ROWPLAN_H
#define SEXTANT_CODEGEN_PLAN_ROWPLAN_H

#include "codegen/Plan/KernelPlan.h"

namespace sextant::codegen {

/// The operand that a row map outside attention works on.
std::optional<pos::RowOperand> getMappedOperand(mlir::Operation *owner);

/// Adds a row map to the lists of the operands that it maps.
mlir::LogicalResult planRows(KernelPlan &plan, pos::RowsOp rows);

mlir::LogicalResult planTurn(KernelPlan &plan, pos::TurnRowsOp turn);

/// What reads a row as it entered sees no row that has turned.
mlir::LogicalResult verifyTurns(KernelPlan &plan);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_PLAN_ROWPLAN_H

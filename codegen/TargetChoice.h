//===- TargetChoice.h - What `cpu` means on this machine --------*- C++ -*-===//
//
// Two processors with the same instructions differ in which of them are fast:
// one runs dot products of bf16 at twice the rate of multiply-adds of f32,
// another at half. So `cpu` follows a measurement, and the type of the rows.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TARGETCHOICE_H
#define SEXTANT_CODEGEN_TARGETCHOICE_H

#include "codegen/Peak.h"
#include "codegen/Target.h"
#include "mlir/IR/BuiltinOps.h"

namespace sextant::codegen {

/// What the rows that attention multiplies are made of.
enum class RowType { F32, BF16 };

/// A module is compiled for one target, that of bf16 where any of its rows are:
/// of f32 it computes the same.
RowType getRowType(mlir::ModuleOp module);

/// As `parseTarget`, with `cpu` for rows of this type.
llvm::Expected<Target> parseTarget(llvm::StringRef name, RowType rows);

/// What `cpu` means: the target that SEXTANT_TARGET names, or else the one
/// whose unit this machine was measured to run fastest. Errors list the names.
llvm::Expected<Target> chooseTarget(RowType rows);

/// The same by given rates alone; an error where this machine runs no target of
/// the CPU.
llvm::Expected<Target> chooseTarget(const UnitRates &rates, RowType rows);

/// The unit that a target of the CPU multiplies rows with.
Unit getUnit(const Target &target, RowType rows);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TARGETCHOICE_H

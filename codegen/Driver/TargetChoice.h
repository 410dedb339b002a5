//===- TargetChoice.h - What `cpu` means on this machine --------*- C++ -*-===//
//
// Two processors with the same instructions differ in which of them are fast:
// one runs dot products of bf16 at twice the rate of multiply-adds of f32,
// another at half. So `cpu` follows a measurement, and the type of the rows.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_DRIVER_TARGETCHOICE_H
#define SEXTANT_CODEGEN_DRIVER_TARGETCHOICE_H

#include "codegen/Driver/Targets.h"

namespace sextant::codegen {

/// Queries of a head from which on rows of f32 are long. Below, what tiles gain
/// in products they lose in splitting keys and values into terms
/// (tools/bench/results/2026-11-28-amx.md).
inline constexpr int64_t leastLongRows = 1024;

/// Of a module with dynamic lengths: its attentions will have as many.
inline constexpr llvm::StringLiteral kLongRowsAttr = "pos.long_rows";

/// A module is compiled for one target, that of bf16 where any of its rows are:
/// of f32 it computes the same. Of f32 its rows are long where all types say
/// so, or the module does (kLongRowsAttr).
RowType getRowType(mlir::ModuleOp module);

/// `cpu`, for rows of this type, or the name of a target. The error of an
/// unknown name lists them.
llvm::Expected<Target> parseTarget(llvm::StringRef name,
                                   RowType rows = RowType::F32);

/// What `cpu` means: the target that SEXTANT_TARGET names, or else the one
/// whose unit this machine was measured to run fastest. Errors list the names.
llvm::Expected<Target> chooseTarget(RowType rows);

/// The same by given rates alone; an error where this machine runs no target of
/// the CPU.
llvm::Expected<Target> chooseTarget(const UnitRates &rates, RowType rows);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_DRIVER_TARGETCHOICE_H

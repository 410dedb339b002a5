//===- Reference.h - The definition run literally ---------------*- C++ -*-===//
//
// Internal to codegen/Reference: the oracle of every test. Scalar loops in the
// order of contract C2, in f64 for f64 operands and in f32 otherwise; hoisted
// values are evaluated where they are used; scratch is O(Lk) per head. Clarity
// comes before speed.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_REFERENCE_REFERENCE_H
#define SEXTANT_CODEGEN_REFERENCE_REFERENCE_H

#include "codegen/Emit/Lowering.h"

namespace sextant::codegen {

class ReadLog;

// With a log, the launch does its work in one item and fills the log.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerReferenceAttention(const Lowering &lowering, ReadLog *log = nullptr);
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerReferenceBackward(const Lowering &lowering);
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerReferenceMapRows(const Lowering &lowering, ReadLog *log = nullptr);
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerReferenceMapRowsBackward(const Lowering &lowering);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_REFERENCE_REFERENCE_H

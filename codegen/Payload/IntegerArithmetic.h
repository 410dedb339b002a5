//===- IntegerArithmetic.h - Integers without undefined values --*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_PAYLOAD_INTEGERARITHMETIC_H
#define SEXTANT_CODEGEN_PAYLOAD_INTEGERARITHMETIC_H

#include "mlir/IR/Builders.h"

namespace sextant::codegen {

/// Inserts `clone`, an elementwise op with its operands and result type set,
/// and gives its value. A quotient, a remainder, a shift or a conversion to
/// integers that a processor leaves undefined, or stops at, has the value that
/// the text of `pos.encoding` states; `original` says which operands are
/// constants.
mlir::Value insertDefined(mlir::OpBuilder &builder, mlir::Operation *clone,
                          mlir::Operation &original);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_PAYLOAD_INTEGERARITHMETIC_H

//===- Pos.h - The pos dialect ----------------------------------*- C++ -*-===//
//
// The pos dialect holds attention, the places at which encodings act on it, and
// the definitions of encodings. Pos.td includes its ops, one file per topic.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_DIALECTS_POS_IR_POS_H
#define SEXTANT_DIALECTS_POS_IR_POS_H

#include "dialects/Interfaces/DifferentiableOpInterface.h"
#include "dialects/Interfaces/ProductOpInterface.h"
#include "dialects/Pos/IR/PosEnums.h"
#include "dialects/Pos/IR/SitePoint.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace sextant::pos {
/// Whether an op of a payload only combines its operands: a constant, a pure
/// elementwise op, or `tensor.splat`.
bool combinesOperands(mlir::Operation *op);
} // namespace sextant::pos

namespace sextant::pos::detail {
/// Verifies that a site's payload yields what the site asks for and computes
/// with payload ops only.
mlir::LogicalResult verifySite(mlir::Operation *op);

/// Verifies that the integer operands of a site are constants.
mlir::LogicalResult verifyOperandsConstant(mlir::Operation *site);
} // namespace sextant::pos::detail

#include "dialects/Pos/IR/PosDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Pos/IR/PosAttrs.h.inc"

#include "dialects/Pos/IR/PosInterfaces.h.inc"

#define GET_OP_CLASSES
#include "dialects/Pos/IR/PosOps.h.inc"

#endif // SEXTANT_DIALECTS_POS_IR_POS_H

//===- Exec.h - The exec dialect --------------------------------*- C++ -*-===//
//
// The exec dialect is the last level before an artifact: one op per kind of
// instruction that the runtime executes. Exec.td says what each op means.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_DIALECTS_EXEC_IR_EXEC_H
#define SEXTANT_DIALECTS_EXEC_IR_EXEC_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/Exec/IR/ExecDialect.h.inc"
#include "dialects/Exec/IR/ExecEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Exec/IR/ExecAttrs.h.inc"

#define GET_OP_CLASSES
#include "dialects/Exec/IR/ExecOps.h.inc"

#endif // SEXTANT_DIALECTS_EXEC_IR_EXEC_H

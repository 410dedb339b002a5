//===- ExecDialect.cpp - Registration and verification of exec --------------===//

#include "dialects/Exec/IR/Exec.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sextant::exec;

#include "dialects/Exec/IR/ExecDialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Exec/IR/ExecAttrs.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/Exec/IR/ExecOps.cpp.inc"

void ExecDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Exec/IR/ExecAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Exec/IR/ExecOps.cpp.inc"
      >();
}

LogicalResult AllocOp::verify() {
  auto type = cast<RankedTensorType>(getType());
  if (getSizes().size() != static_cast<size_t>(type.getNumDynamicDims()))
    return emitOpError("expected one size per dynamic dimension: ")
           << type.getNumDynamicDims() << ", got " << getSizes().size();
  return success();
}

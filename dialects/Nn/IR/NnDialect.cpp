//===- NnDialect.cpp - Registration of the nn dialect ---------------------===//
//
// This file registers the ops, attributes and interfaces of the nn dialect, and
// verifies marks of arguments and results.
//
//===----------------------------------------------------------------------===//

#include "dialects/Nn/IR/Nn.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Transforms/InliningUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sextant::nn;

#include "dialects/Nn/IR/NnDialect.cpp.inc"
#include "dialects/Nn/IR/NnEnums.cpp.inc"
#include "dialects/Nn/IR/NnInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Nn/IR/NnAttrs.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/Nn/IR/NnOps.cpp.inc"

namespace {
/// Lets functions of `nn` ops be inlined.
struct NnInlinerInterface : DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;
  bool isLegalToInline(Operation *, Region *, bool, IRMapping &) const final {
    return true;
  }
};
} // namespace

void NnDialect::initialize() {
  addInterfaces<NnInlinerInterface>();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Nn/IR/NnAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Nn/IR/NnOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Marks
//===----------------------------------------------------------------------===//

/// Marks that name a parameter, or what dropouts draw from, by a string.
static LogicalResult verifyMark(Operation *op, StringRef marked,
                                unsigned number, NamedAttribute mark) {
  bool isName =
      llvm::is_contained({kParameterAttr, kGradientAttr, kFirstMomentAttr,
                          kSecondMomentAttr, kRandomAttr},
                         mark.getName());
  if (!isName || isa<StringAttr>(mark.getValue()))
    return success();
  return op->emitOpError(marked)
         << " " << number << ": '" << mark.getName().getValue()
         << "' must be a name in quotes, got " << mark.getValue();
}

LogicalResult NnDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                  unsigned number,
                                                  NamedAttribute mark) {
  return verifyMark(op, "argument", number, mark);
}

LogicalResult NnDialect::verifyRegionResultAttribute(Operation *op, unsigned,
                                                     unsigned number,
                                                     NamedAttribute mark) {
  return verifyMark(op, "result", number, mark);
}

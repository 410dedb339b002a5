//===- ProductOpInterface.td - Ops that multiply matrices ---------------------===//
//
// What a program of narrow products asks of an op: which operands its products
// read, and which results they make. An op without this interface computes in
// the type that its operands have.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PRODUCTOPINTERFACE_TD
#define SEXTANT_PRODUCTOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def ProductOpInterface : OpInterface<"ProductOpInterface"> {
  let cppNamespace = "::sextant";
  let description = [{
    An op of a model graph that multiplies matrices, and adds the products up in
    at least f32, whatever the type of what it multiplies. Such operands, and the
    results, may be of a narrow type (bf16, f16) where the other operands and
    results are of f32.
  }];
  let methods = [
    InterfaceMethod<"Whether an operand is multiplied, or added to products.",
      "bool", "isMultiplied", (ins "::mlir::OpOperand &":$operand),
      /*methodBody=*/"", /*defaultImplementation=*/"(void)operand; return true;">,
    InterfaceMethod<"Whether a result has the type of what is multiplied.",
      "bool", "isOfProducts", (ins "::mlir::OpResult":$result),
      /*methodBody=*/"", /*defaultImplementation=*/"(void)result; return true;">
  ];
}

#endif // SEXTANT_PRODUCTOPINTERFACE_TD

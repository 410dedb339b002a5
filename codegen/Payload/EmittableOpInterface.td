//===- EmittableOpInterface.td - How an op of a payload is computed -----------===//

#ifndef SEXTANT_EMITTABLE_OP_INTERFACE_TD
#define SEXTANT_EMITTABLE_OP_INTERFACE_TD

include "mlir/IR/OpBase.td"

def Sextant_EmittableOpInterface : OpInterface<"EmittableOpInterface"> {
  let cppNamespace = "::sextant::codegen";
  let description = [{
    How kernels compute an op of a scalar payload, forwards and backwards. Ops of
    `pos` get it by external models. Constants, context ops and elementwise ops
    do without: they are cloned, and pulled back by their derivative rule.
  }];
  let methods = [
    InterfaceMethod<"Emits the op and binds its result.",
      "::llvm::LogicalResult", "emit",
      (ins "::sextant::codegen::PayloadEmitter &":$emitter)>,
    InterfaceMethod<"Whether a wanted gradient stands behind the op's value: behind "
                    "one of its operands, unless it says otherwise.",
      "bool", "isActive", (ins "::sextant::codegen::PayloadPullback &":$pullback), "",
      [{ return pullback.isAnyOperandActive($_op); }]>,
    InterfaceMethod<"Pulls the cotangent of the result back, to operands and to "
                    "gradients.",
      "::llvm::LogicalResult", "pullBack",
      (ins "::sextant::codegen::PayloadPullback &":$pullback,
           "::mlir::Value":$cotangent)>
  ];
}

#endif // SEXTANT_EMITTABLE_OP_INTERFACE_TD

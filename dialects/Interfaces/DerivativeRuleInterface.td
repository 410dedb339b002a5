//===- DerivativeRuleInterface.td - How a scalar op is differentiated ---------===//
//
// A derivative rule says how the gradient of a scalar op's result becomes those
// of its operands. Rules are attached to ops of arith and math as external models;
// an op without one is an error where a gradient passes through it.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_DERIVATIVE_RULE_INTERFACE_TD
#define SEXTANT_DERIVATIVE_RULE_INTERFACE_TD

include "mlir/IR/OpBase.td"

def Sextant_DerivativeRuleInterface : OpInterface<"DerivativeRuleInterface"> {
  let cppNamespace = "::sextant";
  let description = [{
    The derivative of an elementwise op with one floating-point result, for
    scalars and vectors alike (operands, result and cotangent have one shape).
    Ops of `arith` and `math` get it by external models, one file per dialect.

    A derivative at a kink or a pole is stated by the rule and finite (C10):
    for finite operands and cotangent, and a finite result, a rule never gives
    an infinity or a NaN by 0 * inf, x / 0 or the logarithm of 0.
  }];
  let methods = [
    InterfaceMethod<[{
        Cotangents of the operands, from the cotangent of the result. `operands`
        and `result` are the values of the forward computation. A null value
        stands for zero (integers, conditions, step functions).
      }],
      "::llvm::SmallVector<::mlir::Value>", "pullBack",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands,
           "::mlir::Value":$result, "::mlir::Value":$cotangent)>
  ];
}

#endif // SEXTANT_DERIVATIVE_RULE_INTERFACE_TD

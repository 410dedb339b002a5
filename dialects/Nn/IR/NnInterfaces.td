//===- NnInterfaces.td - How an op of the model becomes a call of ATen --------===//
//
// An op that is one call of ATen says which: the operator, its arguments, and
// whether the result shares memory with an operand. Passes need no list of ops.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_NN_INTERFACES_TD
#define SEXTANT_NN_INTERFACES_TD

include "mlir/IR/OpBase.td"

def Nn_AtenOpInterface : OpInterface<"AtenOpInterface"> {
  let cppNamespace = "::sextant::nn";
  let description = [{ An op that is one call of an ATen operator. }];
  let methods = [
    InterfaceMethod<"The operator's name with its overload.",
      "::llvm::StringRef", "getAtenName">,
    InterfaceMethod<"Lists the arguments of the call, in the order of the schema.",
      "void", "buildAtenArguments", (ins "::sextant::nn::AtenArguments &":$arguments)>,
    InterfaceMethod<"The form of the operator that overwrites an operand, if any.",
      "::sextant::nn::InPlaceForm", "getInPlaceForm", (ins), "", [{ return {}; }]>,
    InterfaceMethod<"Whether the results may share memory with the first operand.",
      "bool", "isView", (ins), "", [{ return false; }]>
  ];
}

#endif // SEXTANT_NN_INTERFACES_TD

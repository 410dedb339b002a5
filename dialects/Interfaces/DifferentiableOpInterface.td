//===- DifferentiableOpInterface.td - Reverse-mode derivatives of graph ops ---===//
//
// Reverse mode asks each op of a graph for the gradients of its operands, given
// those of its results. A new op of a model takes part by implementing this
// interface.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_DIFFERENTIABLEOPINTERFACE_TD
#define SEXTANT_DIFFERENTIABLEOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::sextant";
  let description = [{
    An op of a model graph that knows its reverse-mode derivative. The pass
    that derives a gradient function asks each op that a gradient reaches, in
    reverse order; an op without this interface is an error that names it.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds, at the builder's insertion point, the ops that compute the
      cotangents of the operands that are wanted from those of the results.
      Operands and results of the op may be used. Failure must be reported at
      the op.
    }], "::llvm::LogicalResult", "buildGradients",
      (ins "::mlir::OpBuilder &":$builder, "::sextant::Cotangents &":$cotangents)>,
    InterfaceMethod<[{
      Replaces the op, which is erased, by one that also gives what its
      derivative needs of it. Called once, before any derivative is built.
    }], "void", "keepForGradients", (ins "::mlir::OpBuilder &":$builder),
      /*methodBody=*/"",
      /*defaultImplementation=*/"(void)builder;">
  ];
}

#endif // SEXTANT_DIFFERENTIABLEOPINTERFACE_TD

//===- TrainingStep.h - Clipping and the optimizer's update -----*- C++ -*-===//
//
// A training step is a loss, its gradients and the optimizer's update in one
// function. This file appends the last of them.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_GRADIENT_TRAININGSTEP_H
#define SEXTANT_PASSES_GRADIENT_TRAININGSTEP_H

#include "dialects/Nn/IR/Nn.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace sextant::passes {

/// A trained parameter of a loss: an argument, and what the module says of it.
struct TrainedParameter {
  unsigned argument;
  nn::ParameterOp definition;
};

/// Adds the arguments that an optimizer needs to a function (learning rate,
/// step, moments) and, before its return, the update of `params` by
/// `gradients`; appends the results.
void appendUpdate(mlir::func::FuncOp function, nn::AdamWAttr optimizer,
                  llvm::ArrayRef<TrainedParameter> trained,
                  mlir::ValueRange params, mlir::ValueRange gradients);

/// Whether the optimizer of a loss has the groups that its parameters name.
llvm::LogicalResult verifyGroups(mlir::func::FuncOp loss,
                                 nn::AdamWAttr optimizer,
                                 llvm::ArrayRef<TrainedParameter> trained);

/// Adds results to a function and to its return, each with one attribute.
void appendResults(mlir::func::FuncOp function, mlir::ValueRange values,
                   llvm::ArrayRef<mlir::NamedAttribute> attributes);

/// The attribute that marks an argument or a result, with a parameter's name.
mlir::NamedAttribute markOf(llvm::StringRef mark, nn::ParameterOp parameter);

} // namespace sextant::passes

#endif // SEXTANT_PASSES_GRADIENT_TRAININGSTEP_H

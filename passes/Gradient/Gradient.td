//===- Gradient.td - Passes that derive gradients -----------------------------===//
//
// One pass turns a loss into its gradient and into a training step.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_GRADIENT_TD
#define SEXTANT_PASSES_GRADIENT_TD

include "mlir/Pass/PassBase.td"

def DeriveBackward : Pass<"nn-derive-backward", "::mlir::ModuleOp"> {
  let summary = "Add gradient and training functions for every loss";
  let description = [{
    A loss is a function with `nn.gradients = @g` whose first result is a
    scalar. The pass adds `@g`, which takes what the loss takes and also gives
    the gradient of every trained parameter, in the order of the arguments
    (marked `nn.gradient = "name"`). Reverse mode over the ops of the loss's
    block: each op that a gradient reaches builds its own derivative
    (`DifferentiableOpInterface`); contributions to one value are added. A
    parameter that the loss does not depend on has a gradient of zeros.

    With `nn.optimizer = #nn.adamw<...>` it adds two more. Both give, after
    their own results, the number of the next step, the new values of the
    trained parameters and their moments, marked as the arguments are:

    * `update`: (parameters, gradients, learning rate, step, first moments,
      second moments) -> (norm of the gradients, ...);
    * `train_step`: (the loss's arguments, learning rate, step, first moments,
      second moments) -> (the loss's results, norm of the gradients, ...).

    An op without a derivative that a gradient reaches is an error that names it.
  }];
  let statistics = [
    Statistic<"numLosses", "losses-derived", "Losses that got gradient functions">,
    Statistic<"numDerived", "derivatives-built", "Ops whose derivative was built">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::tensor::TensorDialect", "::sextant::nn::NnDialect"
  ];
}

#endif // SEXTANT_PASSES_GRADIENT_TD

//===- Gradient.td - Passes that derive gradients -----------------------------===//
//
// One pass turns a loss into its gradient and into a training step, another says
// before that in which type a model multiplies.
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

def NarrowProducts : Pass<"nn-narrow-products", "::mlir::ModuleOp"> {
  let summary = "Multiply in a narrow type where a function asks for it";
  let description = [{
    In a function with `nn.products = bf16` (or f16) what products of f32 read
    becomes that type, and their results become f32 again (`ProductOpInterface`:
    dense products, and attention, whose statistics stay f32). Ops that move
    elements, and activations, take narrow results as they are
    (`FollowsElements`), so that nothing is widened between two products. Sums,
    norms, losses and parameters stay f32, as under PyTorch's autocast; the
    gradient of a parameter is f32.

    It runs before `--nn-derive-backward`, so gradients pass through products of
    the same type. A function without the attribute stays as it is.

    A layer that was one `nn.linear` of f32:

    ```mlir
    func.func @f(%x: tensor<?x64xf32>, %w: tensor<32x64xf32>) -> tensor<?x32xf32>
        attributes {nn.products = bf16} {
      %a = nn.cast %x : tensor<?x64xf32> -> tensor<?x64xbf16>
      %b = nn.cast %w : tensor<32x64xf32> -> tensor<32x64xbf16>
      %c = nn.linear %a, %b : (tensor<?x64xbf16>, tensor<32x64xbf16>) -> tensor<?x32xbf16>
      %y = nn.cast %c : tensor<?x32xbf16> -> tensor<?x32xf32>
      return %y : tensor<?x32xf32>
    }
    ```
  }];
  let statistics = [
    Statistic<"numProducts", "products-narrowed", "Ops whose products became narrow">,
    Statistic<"numFollowing", "ops-following", "Ops between products that became narrow">
  ];
  let dependentDialects = ["::sextant::nn::NnDialect"];
}

#endif // SEXTANT_PASSES_GRADIENT_TD

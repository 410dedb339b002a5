//===- NnElementwise.td - Ops on the elements of tensors ----------------------===//
//
// These ops compute each element of their result from the elements of their
// operands at the same place; operands of smaller shapes are broadcast as in
// PyTorch.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_NN_ELEMENTWISE_TD
#define SEXTANT_NN_ELEMENTWISE_TD

include "dialects/Nn/IR/NnBase.td"

def Nn_Gelu : I32EnumAttr<"GeluForm", "form of the Gaussian error linear unit", [
    I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"tanh", 1>]> {
  let cppNamespace = "::sextant::nn";
  let genSpecializedAttr = 0;
}
def Nn_GeluAttr : EnumAttr<Nn_Dialect, Nn_Gelu, "gelu"> {
  let assemblyFormat = "$value";
}

class Nn_BinaryOp<string mnemonic, string aten, list<string> more,
                  list<Trait> traits = [], Type operands = Nn_Number,
                  Type gives = operands>
    : Nn_AtenOp<mnemonic, aten, ["tensor(getLeft())", "tensor(getRight())"] # more,
                [Nn_CheapToRepeat] # traits> {
  let arguments = (ins operands:$left, operands:$right);
  let results = (outs gives:$result);
  let assemblyFormat =
      "$left `,` $right attr-dict `:` functional-type(operands, results)";
}

def Nn_AddOp : Nn_BinaryOp<"add", "aten::add.Tensor", ["integer(1)"],
    [DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Sum";
  let description = [{
    Shapes are broadcast as in PyTorch: aligned at the last dimension, a
    dimension of 1 is repeated. The type must say that it is 1: derivatives do
    not know of repeated dimensions that are dynamic (`nn.broadcast` does).
    Numbers may be integers, here and in the ops below that do not say
    otherwise.

    ```mlir
    %z = nn.add %x, %y : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
    ```
  }];
}

def Nn_SubOp : Nn_BinaryOp<"sub", "aten::sub.Tensor", ["integer(1)"],
    [DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Difference";
  let description = [{
    Shapes are broadcast as by `nn.add`.

    ```mlir
    %z = nn.sub %x, %y : (tensor<?x64xf32>, tensor<?x1xf32>) -> tensor<?x64xf32>
    ```
  }];
}

def Nn_MulOp : Nn_BinaryOp<"mul", "aten::mul.Tensor", [],
    [DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let inPlaceName = "aten::mul_.Tensor";
  let summary = "Product";
  let description = [{
    Shapes are broadcast as by `nn.add`.

    ```mlir
    %z = nn.mul %x, %y : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
    ```
  }];
}

def Nn_DivOp : Nn_BinaryOp<"div", "aten::div.Tensor", [],
    [DeclareOpInterfaceMethods<DifferentiableOpInterface>], Nn_Tensor> {
  let inPlaceName = "aten::div_.Tensor";
  let summary = "Quotient";
  let description = [{
    Of floats, broadcast as by `nn.add`. Integers have `nn.floor_divide`.

    ```mlir
    %z = nn.div %x, %y : (tensor<?x64xf32>, tensor<?x1xf32>) -> tensor<?x64xf32>
    ```
  }];
}

def Nn_MaximumOp : Nn_BinaryOp<"maximum", "aten::maximum", []> {
  let summary = "The larger of two numbers";
  let description = [{
    Broadcast as `nn.add`. Without a derivative.

    ```mlir
    %z = nn.maximum %x, %y : (tensor<f32>, tensor<f32>) -> tensor<f32>
    ```
  }];
}

def Nn_MinimumOp : Nn_BinaryOp<"minimum", "aten::minimum", []> {
  let summary = "The smaller of two numbers";
  let description = [{
    Broadcast as `nn.add`. Without a derivative.

    ```mlir
    %z = nn.minimum %x, %y : (tensor<?xi32>, tensor<i32>) -> tensor<?xi32>
    ```
  }];
}

class Nn_UnaryOp<string mnemonic, string aten, list<string> more, string meaning,
                 Type element = Nn_Tensor, list<Trait> traits = []>
    : Nn_AtenOp<mnemonic, aten, ["tensor(getInput())"] # more,
                [Nn_CheapToRepeat, DeclareOpInterfaceMethods<DifferentiableOpInterface>]
                # traits> {
  let summary = meaning;
  let arguments = (ins element:$input);
  let results = (outs element:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
}

def Nn_NegOp : Nn_UnaryOp<"neg", "aten::neg", [], "Negative", Nn_Number> {
  let inPlaceName = "aten::neg_";
  let description = [{
    ```mlir
    %y = nn.neg %x : (tensor<?x64xf32>) -> tensor<?x64xf32>
    ```
  }];
}

/// A function of one number.
class Nn_FunctionOp<string mnemonic, string aten, list<string> more, string meaning,
                    list<Trait> traits = []>
    : Nn_UnaryOp<mnemonic, aten, more, meaning, Nn_Tensor,
                 [Nn_EvaluatesFunction] # traits>;

def Nn_ExpOp : Nn_FunctionOp<"exp", "aten::exp", [], "Exponential"> {
  let inPlaceName = "aten::exp_";
  let description = [{
    ```mlir
    %y = nn.exp %x : (tensor<?x64xf32>) -> tensor<?x64xf32>
    ```
  }];
}

def Nn_LogOp : Nn_FunctionOp<"log", "aten::log", [], "Natural logarithm"> {
  let inPlaceName = "aten::log_";
  let description = [{
    -inf at 0, NaN below it; the derivative 1 / x is infinite at 0.

    ```mlir
    %y = nn.log %x : (tensor<?x64xf32>) -> tensor<?x64xf32>
    ```
  }];
}

def Nn_CosOp : Nn_FunctionOp<"cos", "aten::cos", [], "Cosine"> {
  let inPlaceName = "aten::cos_";
  let description = [{
    ```mlir
    %y = nn.cos %x : (tensor<?x32xf32>) -> tensor<?x32xf32>
    ```
  }];
}

def Nn_SinOp : Nn_FunctionOp<"sin", "aten::sin", [], "Sine"> {
  let inPlaceName = "aten::sin_";
  let description = [{
    ```mlir
    %y = nn.sin %x : (tensor<?x32xf32>) -> tensor<?x32xf32>
    ```
  }];
}

def Nn_SigmoidOp : Nn_FunctionOp<"sigmoid", "aten::sigmoid", [], "Logistic function"> {
  let inPlaceName = "aten::sigmoid_";
  let description = [{
    1 / (1 + exp(-x)).

    ```mlir
    %y = nn.sigmoid %x : (tensor<?x64xf32>) -> tensor<?x64xf32>
    ```
  }];
}

def Nn_SigmoidBackwardOp : Nn_AtenOp<"sigmoid_backward", "aten::sigmoid_backward",
    ["tensor(getGradient())", "tensor(getOutput())"]> {
  let inPlaceName = "aten::sigmoid_backward.grad_input";
  let appendsOut = 1;
  let summary = "Gradient of `nn.sigmoid`";
  let description = [{
    `output` is the result of `nn.sigmoid`.

    ```mlir
    %dx = nn.sigmoid_backward %dy, %y
      : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Nn_Tensor:$gradient, Nn_Tensor:$output);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat =
      "$gradient `,` $output attr-dict `:` functional-type(operands, results)";
}

def Nn_LogSigmoidOp : Nn_FunctionOp<"log_sigmoid", "aten::log_sigmoid", [],
                                 "Logarithm of the logistic function"> {
  let description = [{
    -log(1 + exp(-x)), exact for large |x|.

    ```mlir
    %y = nn.log_sigmoid %x : (tensor<?x64xf32>) -> tensor<?x64xf32>
    ```
  }];
}

def Nn_GeluOp : Nn_FunctionOp<"gelu", "aten::gelu",
    ["string(stringifyGeluForm(getForm()))"], "Gaussian error linear unit",
    [Nn_FollowsElements]> {
  let description = [{
    x Phi(x) with the error function (`none`), or its approximation by tanh
    (Hendrycks and Gimpel 2016).

    ```mlir
    %y = nn.gelu %x form tanh : (tensor<?x64xf32>) -> tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Nn_Tensor:$input,
                       DefaultValuedAttr<Nn_GeluAttr, "GeluForm::none">:$form);
  let assemblyFormat =
      "$input (`form` $form^)? attr-dict `:` functional-type(operands, results)";
}

def Nn_GeluBackwardOp : Nn_AtenOp<"gelu_backward", "aten::gelu_backward",
    ["tensor(getGradient())", "tensor(getInput())",
     "string(stringifyGeluForm(getForm()))"]> {
  let inPlaceName = "aten::gelu_backward.grad_input";
  let appendsOut = 1;
  let summary = "Gradient of `nn.gelu`";
  let description = [{
    ```mlir
    %dx = nn.gelu_backward %dy, %x form tanh
      : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Nn_Tensor:$gradient, Nn_Tensor:$input,
                       DefaultValuedAttr<Nn_GeluAttr, "GeluForm::none">:$form);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = [{ $gradient `,` $input (`form` $form^)? attr-dict `:`
    functional-type(operands, results) }];
}

def Nn_SiluOp : Nn_FunctionOp<"silu", "aten::silu", [], "Sigmoid linear unit",
    [Nn_FollowsElements]> {
  let description = [{
    x / (1 + exp(-x)) (Elfwing et al. 2017).

    ```mlir
    %y = nn.silu %x : (tensor<?x64xf32>) -> tensor<?x64xf32>
    ```
  }];
}

def Nn_SiluBackwardOp : Nn_AtenOp<"silu_backward", "aten::silu_backward",
    ["tensor(getGradient())", "tensor(getInput())"]> {
  let inPlaceName = "aten::silu_backward.grad_input";
  let appendsOut = 1;
  let summary = "Gradient of `nn.silu`";
  let description = [{
    ```mlir
    %dx = nn.silu_backward %dy, %x : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Nn_Tensor:$gradient, Nn_Tensor:$input);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat =
      "$gradient `,` $input attr-dict `:` functional-type(operands, results)";
}

def Nn_ScaleOp : Nn_Op<"scale", [Pure, Nn_CheapToRepeat, AllTypesMatch<["input", "result"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Product with a constant";
  let description = [{
    Stands for `aten::mul.Tensor` with a tensor of rank 0.

    ```mlir
    %y = nn.scale %x by 5.000000e-01 : tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Nn_Tensor:$input, F64Attr:$factor);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$input `by` $factor attr-dict `:` type($input)";
}

def Nn_ClampOp : Nn_Op<"clamp", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "Values moved into an interval";
  let description = [{
    The projection of a parameter after an optimizer step. Stands for
    `aten::clamp.Tensor` with bounds of rank 0. Without a derivative.

    ```mlir
    %y = nn.clamp %x floor 1.000000e-02 : tensor<4xf32>
    ```
  }];
  let arguments = (ins Nn_Tensor:$input, OptionalAttr<F64Attr>:$floor,
                       OptionalAttr<F64Attr>:$ceiling);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = [{ $input (`floor` $floor^)? (`ceiling` $ceiling^)? attr-dict
    `:` type($input) }];
  let hasVerifier = 1;
}

def Nn_StopGradientOp : Nn_AtenOp<"stop_gradient", "aten::detach",
    ["tensor(getInput())"], [Nn_StopsGradients]> {
  let view = 1;
  let summary = "A value that counts as a constant in derivatives";
  let description = [{
    The teacher of a distillation, for instance. A view.

    ```mlir
    %y = nn.stop_gradient %x : (tensor<?x64xf32>) -> tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Nn_Tensor:$input);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
}

#endif // SEXTANT_NN_ELEMENTWISE_TD

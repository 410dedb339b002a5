//===- NnLoss.td - Softmax and cross entropy ----------------------------------===//
//
// A softmax cross entropy is two ops, the logarithm of the softmax and the
// negative log-likelihood of labels, as in ATen.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_NN_LOSS_TD
#define SEXTANT_NN_LOSS_TD

include "dialects/Nn/IR/NnBase.td"

/// ATen's numbers.
def Nn_Reduction : I32EnumAttr<"Reduction", "how losses of rows become a result", [
    I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"mean", 1>,
    I32EnumAttrCase<"sum", 2>]> {
  let cppNamespace = "::sextant::nn";
  let genSpecializedAttr = 0;
}
def Nn_ReductionAttr : EnumAttr<Nn_Dialect, Nn_Reduction, "reduction"> {
  let assemblyFormat = "$value";
}

def Nn_SoftmaxOp : Nn_AtenOp<"softmax", "aten::_softmax",
    ["tensor(getInput())", "integer(-1)", "boolean(false)"],
    [DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let inPlaceName = "aten::_softmax.out";
  let appendsOut = 1;
  let summary = "Softmax along the last dimension";
  let description = [{
    ```mlir
    %p = nn.softmax %x : (tensor<?x256xf32>) -> tensor<?x256xf32>
    ```
  }];
  let arguments = (ins Nn_Tensor:$input);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
}

def Nn_SoftmaxBackwardOp : Nn_AtenOp<"softmax_backward", "aten::_softmax_backward_data",
    ["tensor(getGradient())", "tensor(getOutput())", "integer(-1)",
     "dtype(getOutput().getType().getElementType())"]> {
  let inPlaceName = "aten::_softmax_backward_data.out";
  let appendsOut = 1;
  let summary = "Gradient of `nn.softmax`";
  let description = [{
    `output` is the result of `nn.softmax`.

    ```mlir
    %dx = nn.softmax_backward %dp, %p
      : (tensor<?x256xf32>, tensor<?x256xf32>) -> tensor<?x256xf32>
    ```
  }];
  let arguments = (ins Nn_Tensor:$gradient, Nn_Tensor:$output);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat =
      "$gradient `,` $output attr-dict `:` functional-type(operands, results)";
}

def Nn_LogSoftmaxOp : Nn_AtenOp<"log_softmax", "aten::_log_softmax",
    ["tensor(getInput())", "integer(-1)", "boolean(false)"],
    [DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let inPlaceName = "aten::_log_softmax.out";
  let appendsOut = 1;
  let summary = "Logarithm of the softmax along the last dimension";
  let description = [{
    ```mlir
    %p = nn.log_softmax %x : (tensor<?x256xf32>) -> tensor<?x256xf32>
    ```
  }];
  let arguments = (ins Nn_Tensor:$input);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
}

def Nn_LogSoftmaxBackwardOp : Nn_AtenOp<"log_softmax_backward",
    "aten::_log_softmax_backward_data",
    ["tensor(getGradient())", "tensor(getOutput())", "integer(-1)",
     "dtype(getOutput().getType().getElementType())"]> {
  let inPlaceName = "aten::_log_softmax_backward_data.out";
  let appendsOut = 1;
  let summary = "Gradient of `nn.log_softmax`";
  let description = [{
    `output` is the result of `nn.log_softmax`.

    ```mlir
    %dx = nn.log_softmax_backward %dp, %p
      : (tensor<?x256xf32>, tensor<?x256xf32>) -> tensor<?x256xf32>
    ```
  }];
  let arguments = (ins Nn_Tensor:$gradient, Nn_Tensor:$output);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat =
      "$gradient `,` $output attr-dict `:` functional-type(operands, results)";
}

def Nn_NllLossOp : Nn_AtenOp<"nll_loss", "aten::nll_loss_forward",
    ["tensor(getLogProbabilities())", "tensor(getLabels())", "none()",
     "integer(static_cast<int64_t>(getReduction()))", "integer(getIgnore())"],
    [DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Negative log-likelihood of labels";
  let description = [{
    log probabilities [N, V], labels [N] in 0 .. V - 1 or equal to `ignore`.
    Reduction `mean` is over the labels that count (NaN if none does), `none`
    gives [N] with 0 for ignored labels. The second result is the number of
    labels that count. With `nn.log_softmax` it is the softmax cross entropy.

    ```mlir
    %loss, %count = nn.nll_loss %p, %labels reduction mean ignore -100
      : (tensor<?x256xf32>, tensor<?xi64>) -> (tensor<f32>, tensor<f32>)
    ```
  }];
  let arguments = (ins Nn_Tensor:$logProbabilities, Nn_Labels:$labels,
    DefaultValuedAttr<Nn_ReductionAttr, "Reduction::mean">:$reduction,
    DefaultValuedAttr<I64Attr, "-100">:$ignore);
  let results = (outs Nn_Tensor:$loss, Nn_Scalar:$count);
  let assemblyFormat = [{ $logProbabilities `,` $labels (`reduction` $reduction^)?
    (`ignore` $ignore^)? attr-dict `:` functional-type(operands, results) }];
}

def Nn_NllLossBackwardOp : Nn_AtenOp<"nll_loss_backward", "aten::nll_loss_backward",
    ["tensor(getGradient())", "tensor(getLogProbabilities())", "tensor(getLabels())",
     "none()", "integer(static_cast<int64_t>(getReduction()))", "integer(getIgnore())",
     "tensor(getCount())"]> {
  let summary = "Gradient of `nn.nll_loss`";
  let description = [{
    `count` is the second result of `nn.nll_loss`.

    ```mlir
    %dp = nn.nll_loss_backward %dl, %p, %labels, %count reduction mean ignore -100
      : (tensor<f32>, tensor<?x256xf32>, tensor<?xi64>, tensor<f32>) -> tensor<?x256xf32>
    ```
  }];
  let arguments = (ins Nn_Tensor:$gradient, Nn_Tensor:$logProbabilities,
    Nn_Labels:$labels, Nn_Scalar:$count,
    DefaultValuedAttr<Nn_ReductionAttr, "Reduction::mean">:$reduction,
    DefaultValuedAttr<I64Attr, "-100">:$ignore);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = [{ $gradient `,` $logProbabilities `,` $labels `,` $count
    (`reduction` $reduction^)? (`ignore` $ignore^)? attr-dict `:`
    functional-type(operands, results) }];
}

#endif // SEXTANT_NN_LOSS_TD

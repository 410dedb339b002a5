//===- NnNorm.td - Normalisation of rows --------------------------------------===//
//
// These ops normalise the rows of a tensor: layer norm with its gradient, and
// RMS norm.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_NN_NORM_TD
#define SEXTANT_NN_NORM_TD

include "dialects/Nn/IR/NnBase.td"

def Nn_LayerNormOp : Nn_AtenOp<"layer_norm", "aten::native_layer_norm",
    ["tensor(getInput())", "shapeOf(getWeight())", "tensor(getWeight())",
     "tensor(getBias())", "real(getEpsilon())"],
    [Nn_CheapToRepeat, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Layer normalisation of rows";
  let description = [{
    input [..., C], weight and bias [C]: (x - mean) / sqrt(variance
    + epsilon) * weight + bias (Ba et al. 2016). Also gives the mean and the
    reciprocal deviation of each row, [..., 1].

    ```mlir
    %y, %mean, %rstd = nn.layer_norm %x, %w, %b epsilon 1.000000e-05
      : (tensor<?x?x64xf32>, tensor<64xf32>, tensor<64xf32>)
      -> (tensor<?x?x64xf32>, tensor<?x?x1xf32>, tensor<?x?x1xf32>)
    ```
  }];
  let arguments = (ins Nn_Tensor:$input, Nn_Tensor:$weight, Nn_Tensor:$bias,
                       F64Attr:$epsilon);
  let results = (outs Nn_Tensor:$result, Nn_Tensor:$mean, Nn_Tensor:$rstd);
  let assemblyFormat = [{ $input `,` $weight `,` $bias `epsilon` $epsilon attr-dict
    `:` functional-type(operands, results) }];
}

def Nn_LayerNormBackwardOp : Nn_AtenOp<"layer_norm_backward",
    "aten::native_layer_norm_backward",
    ["tensor(getGradient())", "tensor(getInput())", "shapeOf(getWeight())",
     "tensor(getMean())", "tensor(getRstd())", "tensor(getWeight())",
     "tensor(getBias())", "mask({true, true, true})"]> {
  let summary = "Gradient of `nn.layer_norm`";
  let description = [{
    Gives the gradients of input, weight and bias. On a CPU those of weight and
    bias are sums over fixed ranges of rows (`runtime/torch/NormOperators.cpp`),
    with the same bits on any number of threads; those of bf16 are kept in f32.

    ```mlir
    %dx, %dw, %db = nn.layer_norm_backward %dy, %x, %w, %b, %mean, %rstd
      : (tensor<?x64xf32>, tensor<?x64xf32>, tensor<64xf32>, tensor<64xf32>,
         tensor<?x1xf32>, tensor<?x1xf32>)
      -> (tensor<?x64xf32>, tensor<64xf32>, tensor<64xf32>)
    ```
  }];
  let arguments = (ins Nn_Tensor:$gradient, Nn_Tensor:$input, Nn_Tensor:$weight,
                       Nn_Tensor:$bias, Nn_Tensor:$mean, Nn_Tensor:$rstd);
  let results = (outs Nn_Tensor:$inputGradient, Nn_Tensor:$weightGradient,
                      Nn_Tensor:$biasGradient);
  let assemblyFormat = [{ $gradient `,` $input `,` $weight `,` $bias `,` $mean `,`
    $rstd attr-dict `:` functional-type(operands, results) }];
}

def Nn_RmsNormOp : Nn_AtenOp<"rms_norm", "aten::_fused_rms_norm",
    ["tensor(getInput())", "shapeOf(getWeight())", "tensor(getWeight())",
     "real(getEpsilon())"],
    [Nn_CheapToRepeat, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Root-mean-square normalisation of rows";
  let description = [{
    input [..., C], weight [C]: x / sqrt(mean(x^2) + epsilon) *
    weight (Zhang and Sennrich 2019). Also gives the reciprocal root of each
    row, [..., 1]. Its derivative is composed of other ops: ATen has no fused
    one for the CPU.

    ```mlir
    %y, %rstd = nn.rms_norm %x, %w epsilon 1.000000e-05
      : (tensor<?x?x64xf32>, tensor<64xf32>) -> (tensor<?x?x64xf32>, tensor<?x?x1xf32>)
    ```
  }];
  let arguments = (ins Nn_Tensor:$input, Nn_Tensor:$weight, F64Attr:$epsilon);
  let results = (outs Nn_Tensor:$result, Nn_Tensor:$rstd);
  let assemblyFormat = [{ $input `,` $weight `epsilon` $epsilon attr-dict
    `:` functional-type(operands, results) }];
}

#endif // SEXTANT_NN_NORM_TD

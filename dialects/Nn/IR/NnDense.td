//===- NnDense.td - Embeddings and matrix products ----------------------------===//
//
// These ops take rows from tables and multiply matrices. LibTorch computes
// them.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_NN_DENSE_TD
#define SEXTANT_NN_DENSE_TD

include "dialects/Nn/IR/NnBase.td"

def Nn_EmbeddingOp : Nn_AtenOp<"embedding", "aten::embedding",
    ["tensor(getWeight())", "tensor(getIndices())", "integer(-1)", "boolean(false)",
     "boolean(false)"], [DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Rows of a table";
  let description = [{
    weight [V, C], indices [...] in 0 .. V - 1; the result is [..., C].

    ```mlir
    %x = nn.embedding %w, %tokens : (tensor<256x64xf32>, tensor<?x?xi64>) -> tensor<?x?x64xf32>
    ```
  }];
  let arguments = (ins Nn_Tensor:$weight, Nn_Integers:$indices);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat =
      "$weight `,` $indices attr-dict `:` functional-type(operands, results)";
}

def Nn_EmbeddingBackwardOp : Nn_AtenOp<"embedding_backward",
    "aten::embedding_dense_backward",
    ["tensor(getGradient())", "tensor(getIndices())",
     "dimensionOf(getWeight(), 0)", "integer(-1)", "boolean(false)"]> {
  let summary = "Gradient of a table whose rows were taken";
  let description = [{
    gradient [..., C], indices [...]; the result has the shape of weight [V, C],
    whose values are not read. Rows that were taken several times add up, in the
    same order in each run: on a GPU, where ATen's operator has none, the runtime
    calls another one (`runtime/torch/EmbeddingOperators.cpp`).

    ```mlir
    %dw = nn.embedding_backward %dx, %tokens, %w
      : (tensor<?x?x64xf32>, tensor<?x?xi64>, tensor<256x64xf32>) -> tensor<256x64xf32>
    ```
  }];
  let arguments = (ins Nn_Tensor:$gradient, Nn_Integers:$indices, Nn_Tensor:$weight);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = [{ $gradient `,` $indices `,` $weight attr-dict `:`
    functional-type(operands, results) }];
}

def Nn_LinearOp : Nn_AtenOp<"linear", "aten::linear",
    ["tensor(getInput())", "tensor(getWeight())", "tensor(getBias())"],
    [ProductOpInterface, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Product with a transposed matrix, plus a bias";
  let description = [{
    input [..., in], weight [out, in], bias [out]; the result is [..., out]. A
    weight that is also an embedding (tied) is the same value.

    ```mlir
    %y = nn.linear %x, %w bias %b
      : (tensor<?x?x64xf32>, tensor<256x64xf32>, tensor<256xf32>) -> tensor<?x?x256xf32>
    ```
  }];
  let arguments = (ins Nn_Tensor:$input, Nn_Tensor:$weight, Optional<Nn_Tensor>:$bias);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = [{ $input `,` $weight (`bias` $bias^)? attr-dict `:`
    functional-type(operands, results) }];
}

def Nn_MatmulOp : Nn_AtenOp<"matmul", "aten::matmul",
    ["tensor(getLeft())", "tensor(getRight())"],
    [ProductOpInterface, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Products of matrices";
  let description = [{
    left [..., m, k], right [..., k, n]; the result is [..., m, n], where the
    dimensions before the matrices are broadcast as by `nn.add`. Of a right
    operand without such dimensions, left [..., k] gives [..., n], also where
    it is a vector.

    ```mlir
    %y = nn.matmul %x, %w : (tensor<?x?x64xf32>, tensor<64x32xf32>) -> tensor<?x?x32xf32>
    %s = nn.matmul %q, %k
      : (tensor<?x12x7x64xf32>, tensor<1x12x64x7xf32>) -> tensor<?x12x7x7xf32>
    ```
  }];
  let arguments = (ins Nn_Tensor:$left, Nn_Tensor:$right);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat =
      "$left `,` $right attr-dict `:` functional-type(operands, results)";
}

#endif // SEXTANT_NN_DENSE_TD

//===- NnShape.td - Shapes, parts and sums of tensors -------------------------===//
//
// These ops change the shape of a tensor, take or join parts, and sum or repeat
// along dimensions.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_NN_SHAPE_TD
#define SEXTANT_NN_SHAPE_TD

include "dialects/Nn/IR/NnBase.td"

def Nn_ReshapeOp : Nn_Op<"reshape", [Pure,
    DeclareOpInterfaceMethods<Nn_AtenOpInterface, ["isView"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "The same elements in another shape";
  let description = [{
    `sizes` gives the dynamic dimensions of the result. A view where strides
    allow it, else a copy.

    ```mlir
    %y = nn.reshape %x sizes(%b, %l) : tensor<?x?x64xf32> -> tensor<?x?x4x16xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, Variadic<Index>:$sizes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{ $input (`sizes` `(` $sizes^ `)`)? attr-dict `:`
    type($input) `->` type($result) }];
  let hasVerifier = 1;
}

def Nn_TransposeOp : Nn_AtenOp<"transpose", "aten::transpose.int",
    ["tensor(getInput())", "integer(getFirst())", "integer(getSecond())"],
    [DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let view = 1;
  let summary = "Two dimensions exchanged";
  let description = [{
    A view. Heads are split by `nn.reshape` [B, L, H, d] and this op, merged by
    this op and `nn.reshape`.

    ```mlir
    %y = nn.transpose %x 1, 2 : (tensor<?x?x4x16xf32>) -> tensor<?x4x?x16xf32>
    ```
  }];
  let arguments = (ins Nn_Tensor:$input, I64Attr:$first, I64Attr:$second);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = [{ $input $first `,` $second attr-dict `:`
    functional-type(operands, results) }];
}

def Nn_SliceOp : Nn_AtenOp<"slice", "aten::narrow",
    ["tensor(getInput())", "integer(getDim())", "integer(getStart())",
     "integer(getLength())"],
    [DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let view = 1;
  let summary = "A range of one dimension";
  let description = [{
    Elements start .. start + length - 1 of dimension `dim`; a view. A negative
    start counts from the end.

    ```mlir
    %y = nn.slice %x dim 1 start -64 length 64 : (tensor<?x?x8xf32>) -> tensor<?x64x8xf32>
    ```
  }];
  let arguments = (ins Nn_Tensor:$input, I64Attr:$dim, I64Attr:$start, I64Attr:$length);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = [{ $input `dim` $dim `start` $start `length` $length attr-dict
    `:` functional-type(operands, results) }];
}

def Nn_SliceBackwardOp : Nn_AtenOp<"slice_backward", "aten::slice_backward",
    ["tensor(getGradient())", "shapeOf(getInput())", "integer(getDim())",
     "integer(getStart())", "integer(getEnd())", "integer(1)"]> {
  let summary = "Gradient of `nn.slice`";
  let description = [{
    Zeros of the shape of `input`, whose values are not read, with the gradient
    in the range.

    ```mlir
    %dx = nn.slice_backward %dy, %x dim 1 start -64 length 64
      : (tensor<?x64x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
    ```
  }];
  let arguments = (ins Nn_Tensor:$gradient, Nn_Tensor:$input, I64Attr:$dim,
                       I64Attr:$start, I64Attr:$length);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = [{ $gradient `,` $input `dim` $dim `start` $start
    `length` $length attr-dict `:` functional-type(operands, results) }];
  let extraClassDeclaration = [{
    static ::llvm::LogicalResult inferReturnTypes(
        ::mlir::MLIRContext *context, ::std::optional<::mlir::Location> location,
        Adaptor adaptor, ::llvm::SmallVectorImpl<::mlir::Type> &types);
    /// The end of the range, as ATen counts it.
    int64_t getEnd();
  }];
}

def Nn_SplitOp : Nn_Op<"split", [Pure, DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Consecutive ranges of one dimension";
  let description = [{
    One result per entry of `lengths`, which add up to the dimension; views.
    Cuts a fused projection into query, key and value. Stands for one
    `aten::narrow` per result.

    ```mlir
    %q, %k, %v = nn.split %x dim 2 into [64, 16, 16]
      : (tensor<?x?x96xf32>) -> (tensor<?x?x64xf32>, tensor<?x?x16xf32>, tensor<?x?x16xf32>)
    ```
  }];
  let arguments = (ins Nn_Tensor:$input, I64Attr:$dim, DenseI64ArrayAttr:$lengths);
  let results = (outs Variadic<Nn_Tensor>:$parts);
  let assemblyFormat = [{ $input `dim` $dim `into` $lengths attr-dict `:`
    functional-type(operands, results) }];
  let extraClassDeclaration = [{
    static ::llvm::LogicalResult inferReturnTypes(
        ::mlir::MLIRContext *context, ::std::optional<::mlir::Location> location,
        Adaptor adaptor, ::llvm::SmallVectorImpl<::mlir::Type> &types);
  }];
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::inferReturnTypes(
        ::mlir::MLIRContext *context, ::std::optional<::mlir::Location> location,
        ::mlir::ValueRange operands, ::mlir::DictionaryAttr attributes,
        ::mlir::OpaqueProperties properties, ::mlir::RegionRange regions,
        ::llvm::SmallVectorImpl<::mlir::Type> &types) {
      return inferReturnTypes(context, location,
                              Adaptor(operands, attributes, properties, regions), types);
    }
  }];
}

def Nn_ConcatOp : Nn_AtenOp<"concat", "aten::cat",
    ["tensors(getParts())", "integer(getDim())"],
    [DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Tensors joined along one dimension";
  let description = [{
    The joined dimension of every part must be static for a derivative.

    ```mlir
    %x = nn.concat %q, %k dim 2
      : (tensor<?x?x64xf32>, tensor<?x?x16xf32>) -> tensor<?x?x80xf32>
    ```
  }];
  let arguments = (ins Variadic<Nn_Tensor>:$parts, I64Attr:$dim);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat =
      "$parts `dim` $dim attr-dict `:` functional-type(operands, results)";
}

def Nn_SumOp : Nn_AtenOp<"sum", "aten::sum.dim_IntList",
    ["tensor(getInput())", "integers(getDims())", "boolean(getKeep())"],
    [DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Sum over dimensions";
  let description = [{
    With `keep` the summed dimensions stay, with size 1.

    ```mlir
    %y = nn.sum %x over [0, 1] : (tensor<?x?x64xf32>) -> tensor<64xf32>
    ```
  }];
  let arguments = (ins Nn_Tensor:$input, DenseI64ArrayAttr:$dims, UnitAttr:$keep);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = [{ $input `over` $dims (`keep` $keep^)? attr-dict `:`
    functional-type(operands, results) }];
}

def Nn_BroadcastOp : Nn_AtenOp<"broadcast", "aten::expand",
    ["tensor(getInput())", "shapeOf(getLike())", "boolean(false)"],
    [DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let view = 1;
  let summary = "A tensor repeated to the shape of another";
  let description = [{
    Aligned at the last dimension, dimensions of 1 are repeated; a view. The
    values of `like` are not read.

    ```mlir
    %y = nn.broadcast %x, %z : (tensor<1x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Nn_Tensor:$input, Nn_Tensor:$like);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat =
      "$input `,` $like attr-dict `:` functional-type(operands, results)";
}

#endif // SEXTANT_NN_SHAPE_TD

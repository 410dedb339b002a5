//===- NnShape.td - Shapes, parts and sums of tensors -------------------------===//
//
// These ops change the shape of a tensor, take or join parts, and sum or repeat
// along dimensions.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_NN_SHAPE_TD
#define SEXTANT_NN_SHAPE_TD

include "dialects/Nn/IR/NnBase.td"

def Nn_ReshapeOp : Nn_Op<"reshape", [Pure, Nn_FollowsElements,
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
    [Nn_FollowsElements, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let view = 1;
  let summary = "Two dimensions exchanged";
  let description = [{
    A view. Heads are split by `nn.reshape` [B, L, H, d] and this op, merged by
    this op and `nn.reshape`.

    ```mlir
    %y = nn.transpose %x 1, 2 : (tensor<?x?x4x16xf32>) -> tensor<?x4x?x16xf32>
    ```
  }];
  let arguments = (ins Nn_Any:$input, I64Attr:$first, I64Attr:$second);
  let results = (outs Nn_Any:$result);
  let assemblyFormat = [{ $input $first `,` $second attr-dict `:`
    functional-type(operands, results) }];
}

/// The start and the length of a range, numbers or index values.
class Nn_RangeOp<string mnemonic, string aten, list<string> call, list<Trait> traits>
    : Nn_AtenOp<mnemonic, aten, call, [AttrSizedOperandSegments] # traits> {
  dag range = (ins Optional<Index>:$startValue, Optional<Index>:$lengthValue,
    I64Attr:$dim, OptionalAttr<I64Attr>:$start, OptionalAttr<I64Attr>:$length);
  let extraClassDeclaration = [{
    static ::llvm::LogicalResult inferReturnTypes(
        ::mlir::MLIRContext *context, ::std::optional<::mlir::Location> location,
        Adaptor adaptor, ::llvm::SmallVectorImpl<::mlir::Type> &types);
    ::mlir::OpFoldResult getMixedStart() {
      return getStartValue() ? ::mlir::OpFoldResult(getStartValue()) : getStartAttr();
    }
    ::mlir::OpFoldResult getMixedLength() {
      return getLengthValue() ? ::mlir::OpFoldResult(getLengthValue()) : getLengthAttr();
    }
  }];
}

def Nn_SliceOp : Nn_RangeOp<"slice", "aten::narrow",
    ["tensor(getInput())", "integer(getDim())", "integer(getMixedStart())",
     "integer(getMixedLength())"],
    [Nn_FollowsElements, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let view = 1;
  let summary = "A range of one dimension";
  let description = [{
    Elements start .. start + length - 1 of dimension `dim`; a view. Start and
    length are numbers or index values. A number as start may be negative, and
    then counts from the end; a value that is negative, or a range that goes
    beyond the end, is an error at run time.

    ```mlir
    %y = nn.slice %x dim 1 start -64 length 64 : (tensor<?x?x8xf32>) -> tensor<?x64x8xf32>
    %z = nn.slice %x dim 1 start %i length %n
      : (tensor<?x?x8xf32>, index, index) -> tensor<?x?x8xf32>
    ```
  }];
  let arguments = !con((ins Nn_Any:$input), range);
  let results = (outs Nn_Any:$result);
  let assemblyFormat = [{ $input `dim` $dim `start` ($start^) : ($startValue)?
    `length` ($length^) : ($lengthValue)? attr-dict `:`
    functional-type(operands, results) }];
}

def Nn_SliceBackwardOp : Nn_RangeOp<"slice_backward", "aten::slice_backward",
    ["tensor(getGradient())", "shapeOf(getInput())", "integer(getDim())",
     "integer(getMixedStart())", "endOf(getMixedStart(), getMixedLength())",
     "integer(1)"], []> {
  let summary = "Gradient of `nn.slice`";
  let description = [{
    Zeros of the shape of `input`, whose values are not read, with the gradient
    in the range.

    ```mlir
    %dx = nn.slice_backward %dy, %x dim 1 start -64 length 64
      : (tensor<?x64x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
    ```
  }];
  let arguments = !con((ins Nn_Tensor:$gradient, Nn_Tensor:$input), range);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = [{ $gradient `,` $input `dim` $dim `start` ($start^) :
    ($startValue)? `length` ($length^) : ($lengthValue)? attr-dict `:`
    functional-type(operands, results) }];
}

def Nn_SplitOp : Nn_Op<"split", [Pure, Nn_FollowsElements,
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
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
  let arguments = (ins Nn_Any:$input, I64Attr:$dim, DenseI64ArrayAttr:$lengths);
  let results = (outs Variadic<Nn_Any>:$parts);
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
    [Nn_FollowsElements, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Tensors joined along one dimension";
  let description = [{
    ```mlir
    %x = nn.concat %q, %k dim 2
      : (tensor<?x?x64xf32>, tensor<?x?x16xf32>) -> tensor<?x?x80xf32>
    ```
  }];
  let arguments = (ins Variadic<Nn_Any>:$parts, I64Attr:$dim);
  let results = (outs Nn_Any:$result);
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

def Nn_MeanOp : Nn_AtenOp<"mean", "aten::mean.dim",
    ["tensor(getInput())", "integers(getDims())", "boolean(getKeep())"],
    [DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Mean over dimensions";
  let description = [{
    With `keep` the dimensions stay, with size 1. NaN where they have no
    elements.

    ```mlir
    %y = nn.mean %x over [0, 1] : (tensor<?x?x64xf32>) -> tensor<64xf32>
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
    values of `like` are not read. A dynamic dimension may be 1 or that of
    `like`, also for the derivative.

    ```mlir
    %y = nn.broadcast %x, %z : (tensor<1x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Nn_Any:$input, Nn_Any:$like);
  let results = (outs Nn_Any:$result);
  let assemblyFormat =
      "$input `,` $like attr-dict `:` functional-type(operands, results)";
}

def Nn_SumToOp : Nn_AtenOp<"sum_to", "aten::sum_to_size",
    ["tensor(getInput())", "shapeOf(getLike())"]> {
  let view = 1;
  let summary = "Gradient of `nn.broadcast`";
  let description = [{
    Sums over what must have been repeated to bring `like`, whose values are not
    read, to the shape of the input; the input itself if nothing was.

    ```mlir
    %dx = nn.sum_to %dy, %x : (tensor<?x?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Nn_Tensor:$input, Nn_Tensor:$like);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat =
      "$input `,` $like attr-dict `:` functional-type(operands, results)";
}

def Nn_IndexSelectOp : Nn_AtenOp<"index_select", "aten::index_select",
    ["tensor(getInput())", "integer(getDim())", "tensor(getIndices())"],
    [DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Elements of one dimension by their indices";
  let description = [{
    Element i of dimension `dim` of the result is element indices[i] of the
    input's. An index that is out of range is an error at run time.

    ```mlir
    %y = nn.index_select %x, %i dim 1
      : (tensor<?x?x64xf32>, tensor<?xi64>) -> tensor<?x?x64xf32>
    ```
  }];
  let arguments = (ins Nn_Any:$input, 1DTensorOf<[I32, I64]>:$indices, I64Attr:$dim);
  let results = (outs Nn_Any:$result);
  let assemblyFormat = [{ $input `,` $indices `dim` $dim attr-dict `:`
    functional-type(operands, results) }];
}

def Nn_IndexSelectBackwardOp : Nn_Op<"index_select_backward",
    [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "Gradient of `nn.index_select`";
  let description = [{
    The result has the shape of `input`, whose values are not read. Elements
    that were taken several times add up.

    Stands for `aten::embedding_dense_backward` of rows, which are made of
    another dimension, or of several, by a transposition and by views: like
    `nn.embedding_backward` it gives the same bits in each run, on a GPU, too,
    where ATen's own operator adds in any order (`aten::index_add_`).

    ```mlir
    %dx = nn.index_select_backward %dy, %x, %i dim 1
      : (tensor<?x?x64xf32>, tensor<?x?x64xf32>, tensor<?xi64>) -> tensor<?x?x64xf32>
    ```
  }];
  let arguments = (ins Nn_Tensor:$gradient, Nn_Tensor:$input,
                       1DTensorOf<[I32, I64]>:$indices, I64Attr:$dim);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = [{ $gradient `,` $input `,` $indices `dim` $dim attr-dict `:`
    functional-type(operands, results) }];
  let hasVerifier = 1;
}

#endif // SEXTANT_NN_SHAPE_TD

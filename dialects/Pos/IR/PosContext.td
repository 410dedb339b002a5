//===- PosContext.td - What a payload can ask about where it stands -----------===//
//
// With these ops a payload asks about the place where it stands: index,
// coordinate, offset, head, lane, sizes, elements of parameters.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_POS_CONTEXT_TD
#define SEXTANT_POS_CONTEXT_TD

include "dialects/Pos/IR/PosAttrs.td"
include "dialects/Pos/IR/PosInterfaces.td"

class Pos_ContextOp<string mnemonic> : Pos_Op<mnemonic, [Pure,
    DeclareOpInterfaceMethods<Pos_ContextOpInterface>]> {
  let results = (outs I32:$result);
}

def Pos_IndexOp : Pos_ContextOp<"index"> {
  let summary = "Index of the query, the key or the mapped row";
  let description = [{
    Queries and keys are aligned at the end: the index of the first query is
    the key length minus the query length (as in decoding), less the queries
    that follow those of the call (`query_tail`). `self` is the row
    of the operand that a row map works on. What has a row per query of the call
    is read at `pos.tensor_row`.

    ```mlir
    %j = pos.index key
    ```
  }];
  let arguments = (ins Pos_SideAttr:$side);
  let assemblyFormat = "$side attr-dict";
}

def Pos_TensorRowOp : Pos_ContextOp<"tensor_row"> {
  let summary = "Row of a side's own tensor, counted from its first";
  let description = [{
    What a parameter with a dimension `pos.extent query` is read at: it has a
    row for each query of the call, while `pos.index query` counts from the
    first key. Of keys it is their index.

    ```mlir
    %i = pos.tensor_row query
    ```
  }];
  let arguments = (ins Pos_SideAttr:$side);
  let assemblyFormat = "$side attr-dict";
}

def Pos_CoordOp : Pos_ContextOp<"coord"> {
  let summary = "Position of the query, the key or the mapped row";
  let description = [{
    The given position on an axis; without given positions the index.

    ```mlir
    %column = pos.coord self axis 1
    ```
  }];
  let arguments = (ins Pos_SideAttr:$side, Pos_PositionAxis:$axis);
  let assemblyFormat = "$side (`axis` $axis^)? attr-dict";
}

def Pos_OffsetOp : Pos_ContextOp<"offset"> {
  let summary = "Key's position minus the query's (C5)";
  let description = [{
    ```mlir
    %o = pos.offset
    ```
  }];
  let arguments = (ins Pos_PositionAxis:$axis);
  let assemblyFormat = "(`axis` $axis^)? attr-dict";
}

def Pos_BoundOp : Pos_ContextOp<"bound"> {
  let summary = "Least or greatest coordinate of a side in this call";
  let description = [{
    Over all rows of the side and the whole batch, of given positions or of
    indices: one value per call, so that what follows from it (a frequency that
    depends on the length in use, a centre) is a constant of the call. Outside
    attention both sides are the input. Of a side without rows it is nothing
    that a payload can see.

    B1: the side is `query` or `key`.

    ```mlir
    %last = pos.bound greatest key
    ```
  }];
  let arguments = (ins Pos_BoundAttr:$bound, Pos_SideAttr:$side,
                       Pos_PositionAxis:$axis);
  let assemblyFormat = "$bound $side (`axis` $axis^)? attr-dict";
  let hasVerifier = 1;
}

def Pos_HeadOp : Pos_ContextOp<"head"> {
  let summary = "Head, counted among the heads of the operand at hand";
  let description = [{
    ```mlir
    %h = pos.head
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Pos_BatchOp : Pos_ContextOp<"batch"> {
  let summary = "Element of the batch";
  let description = [{
    ```mlir
    %b = pos.batch
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Pos_LaneOp : Pos_ContextOp<"lane"> {
  let summary = "Group of lanes that a row map works on (C6), or appended column";
  let description = [{
    ```mlir
    %t = pos.lane
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Pos_ExtentOp : Pos_ContextOp<"extent"> {
  let summary = "An extent of the attention at hand";
  let description = [{
    ```mlir
    %d = pos.extent head_dim
    ```
  }];
  let arguments = (ins Pos_ExtentAttr:$extent);
  let assemblyFormat = "$extent attr-dict";
}

def Pos_ScaleOp : Pos_Op<"scale", [Pure,
    DeclareOpInterfaceMethods<Pos_ContextOpInterface>]> {
  let summary = "Factor on the product of query and key";
  let description = [{
    1 / sqrt(head_dim) unless the attention says otherwise.

    ```mlir
    %c = pos.scale
    ```
  }];
  let results = (outs F32:$result);
  let assemblyFormat = "attr-dict";
}

def Pos_ReadOp : Pos_Op<"read", [Pure, InferTypeOpAdaptor,
    DeclareOpInterfaceMethods<Pos_PayloadOpInterface, ["getTableReads"]>]> {
  let summary = "One element of a parameter";
  let description = [{
    The indices are i32, one per dimension. A dimension of the batch whose
    extent is smaller than the batch is read modulo its extent; any other
    index must lie inside the tensor. A parameter given in f64 is read in the
    compute type (C1), which the definition calls f32.

    ```mlir
    %a = pos.read %r1[%h] : tensor<?xf32>
    ```
  }];
  let arguments = (ins RankedTensorOf<[F32, F64, I32]>:$tensor, Variadic<I32>:$indices);
  let results = (outs AnyTypeOf<[F32, I32]>:$result);
  let assemblyFormat = "$tensor `[` $indices `]` attr-dict `:` type($tensor)";
  let hasVerifier = 1;
}

def Pos_SumOp : Pos_Op<"sum", [Pure, SingleBlock, Pos_PayloadOpInterface]> {
  let summary = "Sum of a payload over 0 .. n-1";
  let description = [{
    `n` is an option or an extent of a parameter.

    ```mlir
    %y = pos.sum to %n {
    ^bb0(%k: i32):
      %x = arith.sitofp %k : i32 to f32
      pos.yield %x : f32
    } : f32
    ```
  }];
  let arguments = (ins I32:$count);
  let results = (outs F32:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`to` $count $body attr-dict `:` type($result)";
  let hasRegionVerifier = 1;
}

def Pos_RunningSumOp : Pos_Op<"running_sum", [Pure, SingleBlock,
    DeclareOpInterfaceMethods<Pos_PayloadOpInterface, ["getOwnAxes"]>]> {
  let summary = "Sum of a payload over the keys up to the query or the key";
  let description = [{
    The argument of the body runs over the indices of keys 0 .. i, where i is
    the index of the side; a query before the first key has the sum 0. Kernels
    make it once per call, as a vector over the rows of the side, in one pass
    (a prefix sum, and a suffix sum for its gradient).

    R1: the side is `query` or `key`. R2: the body varies with its argument, the
    batch and the head only.

    ```mlir
    %y = pos.running_sum to key {
    ^bb0(%t: i32):
      %b = pos.batch
      %x = pos.read %gate[%b, %t] : tensor<?x?xf32>
      pos.yield %x : f32
    } : f32
    ```
  }];
  let arguments = (ins Pos_SideAttr:$side);
  let results = (outs F32:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`to` $side $body attr-dict `:` type($result)";
  let hasRegionVerifier = 1;
}

#endif // SEXTANT_POS_CONTEXT_TD

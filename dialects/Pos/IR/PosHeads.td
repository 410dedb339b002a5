//===- PosHeads.td - Vectors in payloads --------------------------------------===//
//
// These ops stand in payloads whose argument is a vector: the scores of all
// heads at one (query, key), or a whole row. `pos.score` says how these ops,
// elementwise ops and `tensor.splat` make up a payload.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_POS_HEADS_TD
#define SEXTANT_POS_HEADS_TD

include "dialects/Pos/IR/PosAttrs.td"
include "dialects/Pos/IR/PosInterfaces.td"

def Pos_ContractOp : Pos_Op<"contract", [Pure, Pos_PayloadOpInterface]> {
  let summary = "Matrix times vector";
  let description = [{
    Uses all columns of the matrix, or, with a first column, as many from there
    on as the vector has elements: the product with a concatenation [a; b] is
    the sum of two contractions. The matrix is a parameter, f64 where the
    compute type is f64 (C1). For payloads whose argument is a vector.

    After inlining the extents of both vectors are static and the first column
    is a constant.

    * **M1** The result has one element per row of the matrix.
    * **M2** Without a first column the matrix has one column per element of the
      vector; with one, columns [first, first + elements) are inside it.

    ```mlir
    %y = pos.contract %w, %x : tensor<?x?xf32>, tensor<?xf32> -> tensor<?xf32>
    %z = pos.contract %w, %x columns from %n
      : tensor<?x?xf32>, tensor<?xf32> -> tensor<?xf32>
    ```
  }];
  let arguments = (ins 2DTensorOf<[F32, F64]>:$matrix, 1DTensorOf<[F32]>:$vector,
                       Optional<I32>:$firstColumn);
  let results = (outs 1DTensorOf<[F32]>:$result);
  let assemblyFormat = [{ $matrix `,` $vector (`columns` `from` $firstColumn^)?
    attr-dict `:` type($matrix) `,` type($vector) `->` type($result) }];
  let hasVerifier = 1;
}

def Pos_ForHeadsOp : Pos_Op<"for_heads", [Pure, SingleBlock, Pos_PayloadOpInterface,
    ParentOneOf<["ScoreOp", "HoistOp"]>]> {
  let summary = "A scalar payload at every head";
  let description = [{
    Element h of the result is what the body yields at head h, with element h of
    each input as its arguments. `pos.head` has a meaning in the body only, and
    is that head. Inside a score of all heads; made by an author, from a host,
    or from a scalar score beside a score of all heads.

    Scalars of the body that need no argument are hoisted as those of a scalar
    score are.

    ```mlir
    %t = pos.for_heads (%s) {
    ^bb0(%x: f32):
      %h = pos.head
      %o = pos.offset
      %d = arith.sitofp %o : i32 to f32
      %m = pos.read %slopes[%h] : tensor<?xf32>
      %b = arith.mulf %m, %d : f32
      %y = arith.addf %x, %b : f32
      pos.yield %y : f32
    } : (tensor<?xf32>) -> tensor<?xf32>
    ```
  }];
  let arguments = (ins Variadic<1DTensorOf<[F32]>>:$inputs);
  let results = (outs 1DTensorOf<[F32]>:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat =
      "`(` $inputs `)` $body attr-dict `:` functional-type($inputs, $result)";
  let hasRegionVerifier = 1;
}

def Pos_ElementsOp : Pos_Op<"elements", [Pure, Pos_PayloadOpInterface]> {
  let summary = "All elements of a parameter of one dimension, as a vector";
  let description = [{
    A definition uses such a parameter as a vector directly. Inlining makes this
    op of it, because the operand behind the parameter may have a dynamic extent
    and be f64 (C1).

    ```mlir
    %b = pos.elements %b1 : tensor<?xf64> -> tensor<32xf32>
    ```
  }];
  let arguments = (ins 1DTensorOf<[F32, F64]>:$param);
  let results = (outs 1DTensorOf<[F32]>:$result);
  let assemblyFormat = "$param attr-dict `:` type($param) `->` type($result)";
}

#endif // SEXTANT_POS_HEADS_TD

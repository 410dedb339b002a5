//===- PosAttention.td - Attention, its gradient, and row maps ----------------===//
//
// These ops own the sites at which encodings act: o = softmax(score(scale q
// k^T)) v, its gradient, and maps of rows outside of attention.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_POS_ATTENTION_TD
#define SEXTANT_POS_ATTENTION_TD

include "dialects/Interfaces/DifferentiableOpInterface.td"
include "dialects/Interfaces/ProductOpInterface.td"
include "dialects/Pos/IR/PosAttrs.td"
include "dialects/Pos/IR/PosInterfaces.td"

defvar Pos_Float = AnyTypeOf<[F32, F64, BF16, F16]>;
def Pos_Rows : 4DTensorOf<[F32, F64, BF16, F16]>;
def Pos_Positions : 3DTensorOf<[I32]>;
def Pos_MappedRows : AnyTypeOf<[2DTensorOf<[F32, F64, BF16, F16]>,
                                3DTensorOf<[F32, F64, BF16, F16]>],
                               "rows [B, L, C] or a table of rows [V, C]",
                               "::mlir::RankedTensorType">;
def Pos_Tail : 1DTensorOf<[I32]>;
def Pos_RowIndices : 2DTensorOf<[I32, I64]>;
def Pos_Param : RankedTensorOf<[F32, F64, I32]>;
def Pos_Statistics : 4DTensorOf<[F32, F64]>;

class Pos_SitesOwnerOp<string mnemonic, list<Trait> traits = [],
                       list<string> ownerMethods = []>
    : Pos_Op<mnemonic, traits # [Pure, IsolatedFromAbove, NoTerminator,
        AttrSizedOperandSegments,
        DeclareOpInterfaceMethods<Pos_SitesOwnerInterface,
          ["hasPositions", "getStaticExtent", "getEffectiveScale"]
            # ownerMethods>]>;

def Pos_AttentionOp : Pos_SitesOwnerOp<"attention",
    [AttrSizedResultSegments,
     DeclareOpInterfaceMethods<ProductOpInterface, ["isMultiplied", "isOfProducts"]>,
     DeclareOpInterfaceMethods<DifferentiableOpInterface,
                               ["keepForGradients"]>], ["hasScores"]> {
  let summary = "Softmax attention with positional encodings";
  let description = [{
    query [B, H, Lq, d], key [B, Hkv, Lk, d], values [B, Hkv, Lk, dv]; H is a
    multiple of Hkv (grouped queries). Results: one output [B, H, Lq, dv] per
    value operand and the log-sum-exp of the final scores [B, H, Lq] (f32; f64
    for f64 operands).

    Positions are i32 [1 or B or a divisor of B, length, axes]. Without them a
    coordinate is the index. Shapes may be dynamic except the head dims, of which
    that of query and key is at least 1; none is more than 8192, since kernels are
    written out along the lanes of a row.

    Queries are aligned with keys at the end. Where they are a chunk of a longer
    sequence, `query_tail` has as many elements as there are queries after the
    chunk: of it nothing but the extent is read, which need not be known before
    the call. Every row is then as in the attention of all queries.

    The order of computation is C2. `scale` defaults to 1 / sqrt(d).

    With `unordered` gradients may be summed up in any order, so that they may
    differ in their last digits from call to call. A target that gains nothing
    by that keeps its order.

    A last result, `statistics` [B, H, Lq, 2], is there for the gradient: by
    what the final scores of a row were shifted before the exponential, and the
    sum of the exponentials. The log-sum-exp, but for a `pos.row_term`, is the
    shift plus the logarithm of the sum; as one number it has lost what tells
    probabilities from each other where scores are large. The base is that in
    which the target computes (e in the reference, 2 on the CPU): they are for
    `pos.attention_backward` on the same target. A row that sees no key has
    minus infinity and 0.

    ```mlir
    %o, %lse = pos.attention %q, %k, (%v) uses [#pos.use<@past, "past">]
      : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, (tensor<?x?x?x64xf32>)
      -> (tensor<?x?x?x64xf32>), tensor<?x?x?xf32>
    ```
  }];
  let arguments = (ins Pos_Rows:$query, Pos_Rows:$key, Variadic<Pos_Rows>:$values,
    Variadic<Pos_Param>:$params, Optional<Pos_Positions>:$queryPositions,
    Optional<Pos_Positions>:$keyPositions, Optional<Pos_Tail>:$queryTail,
    OptionalAttr<Pos_UseArrayAttr>:$uses, OptionalAttr<F64Attr>:$scale,
    UnitAttr:$unordered);
  let results = (outs Variadic<Pos_Rows>:$outputs, 3DTensorOf<[F32, F64]>:$lse,
    Optional<Pos_Statistics>:$statistics);
  let regions = (region AnyRegion:$body);
  let assemblyFormat = [{
    $query `,` $key `,` `(` $values `)` (`uses` $uses^)?
    (`params` `(` $params^ `:` type($params) `)`)?
    (`query_positions` `(` $queryPositions^ `:` type($queryPositions) `)`)?
    (`key_positions` `(` $keyPositions^ `:` type($keyPositions) `)`)?
    (`query_tail` `(` $queryTail^ `:` type($queryTail) `)`)?
    (`scale` $scale^)? (`unordered` $unordered^)?
    attr-dict `:` type($query) `,` type($key) `,` `(` type($values) `)` `->`
    `(` type($outputs) `)` `,` type($lse) (`,` type($statistics)^)? ($body^)?
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Pos_AttentionBackwardOp
    : Pos_SitesOwnerOp<"attention_backward", [AttrSizedResultSegments],
                       ["hasScores"]> {
  let summary = "Gradient of attention";
  let description = [{
    Takes what `pos.attention` took, its outputs and statistics, and the
    gradients of its outputs and its log-sum-exp; carries the same uses, later
    the same sites. Gives the gradients of query, key and values, and of the
    parameters whose operand numbers `paramGradients` lists.

    It makes the scores of the forward again, with the same bits: the
    probabilities of a row, the exponentials divided by the sum in `statistics`,
    have a sum of 1 at any scale of the scores. `unordered` is what it is to
    `pos.attention`.

    ```mlir
    %dq, %dk, %dv = pos.attention_backward %q, %k, (%v), (%o), %stats, (%do), %dlse
      uses [#pos.use<@past, "past">] gradients []
      : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, (tensor<?x?x?x64xf32>),
        (tensor<?x?x?x64xf32>), tensor<?x?x?x2xf32>, (tensor<?x?x?x64xf32>), tensor<?x?x?xf32>
      -> tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, (tensor<?x?x?x64xf32>)
    ```
  }];
  let arguments = (ins Pos_Rows:$query, Pos_Rows:$key, Variadic<Pos_Rows>:$values,
    Variadic<Pos_Rows>:$outputs, Pos_Statistics:$statistics,
    Variadic<Pos_Rows>:$outputGradients, 3DTensorOf<[F32, F64]>:$lseGradient,
    Variadic<Pos_Param>:$params, Optional<Pos_Positions>:$queryPositions,
    Optional<Pos_Positions>:$keyPositions, Optional<Pos_Tail>:$queryTail,
    OptionalAttr<Pos_UseArrayAttr>:$uses,
    DenseI32ArrayAttr:$paramGradients, OptionalAttr<F64Attr>:$scale,
    UnitAttr:$unordered);
  let results = (outs Pos_Rows:$queryGradient, Pos_Rows:$keyGradient,
    Variadic<Pos_Rows>:$valueGradients, Variadic<Pos_Param>:$paramGradientResults);
  let regions = (region AnyRegion:$body);
  let assemblyFormat = [{
    $query `,` $key `,` `(` $values `)` `,` `(` $outputs `)` `,` $statistics `,`
    `(` $outputGradients `)` `,` $lseGradient (`uses` $uses^)?
    (`params` `(` $params^ `:` type($params) `)`)?
    (`query_positions` `(` $queryPositions^ `:` type($queryPositions) `)`)?
    (`key_positions` `(` $keyPositions^ `:` type($keyPositions) `)`)?
    (`query_tail` `(` $queryTail^ `:` type($queryTail) `)`)?
    `gradients` $paramGradients (`scale` $scale^)? (`unordered` $unordered^)?
    attr-dict `:` type($query) `,` type($key) `,` `(` type($values) `)` `,`
    `(` type($outputs) `)` `,` type($statistics) `,` `(` type($outputGradients) `)` `,`
    type($lseGradient) `->` type($queryGradient) `,` type($keyGradient) `,`
    `(` type($valueGradients) `)` (`,` type($paramGradientResults)^)? ($body^)?
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Pos_MapRowsOp : Pos_SitesOwnerOp<"map_rows",
    [DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Row maps on rows outside attention";
  let description = [{
    Applies the `pos.rows` sites of `operand` to `input` [B, L, C]. The head is
    0, the head dim is C, which is at most 16384. Sites of other operands are ignored.

    ```mlir
    %y = pos.map_rows %x of embedding uses [#pos.use<@waves, "waves">]
      : tensor<?x?x128xf32> -> tensor<?x?x128xf32>
    ```

    With `indices` [B, L] the rows are taken from a table [V, C] on the way: row
    l of element b is row indices[b, l] of the input. An index that is not in
    0 .. V - 1 is refused (`exec.check_data`). `pos-fuse-row-gathers` makes this form, after
    gradients are derived: it has none.

    ```mlir
    %y = pos.map_rows %table[%tokens] of embedding uses [#pos.use<@waves, "waves">]
      : tensor<256x128xf32>[tensor<?x?xi64>] -> tensor<?x?x128xf32>
    ```
  }];
  let arguments = (ins Pos_MappedRows:$input, Optional<Pos_RowIndices>:$indices,
    Pos_RowOperandAttr:$operand, Variadic<Pos_Param>:$params,
    Optional<Pos_Positions>:$positions, OptionalAttr<Pos_UseArrayAttr>:$uses);
  let results = (outs 3DTensorOf<[F32, F64, BF16, F16]>:$result);
  let regions = (region AnyRegion:$body);
  let assemblyFormat = [{
    $input (`[` $indices^ `]`)? `of` $operand (`uses` $uses^)?
    (`params` `(` $params^ `:` type($params) `)`)?
    (`positions` `(` $positions^ `:` type($positions) `)`)?
    attr-dict `:` type($input) (`[` type($indices)^ `]`)? `->` type($result)
    ($body^)?
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Pos_MapRowsBackwardOp : Pos_SitesOwnerOp<"map_rows_backward"> {
  let summary = "Gradient of row maps outside attention";
  let description = [{
    Takes what `pos.map_rows` took and the gradient of its result; gives the
    gradient of the rows before the maps, [B, L, C] with `indices` too, and of the
    parameters that `paramGradients` lists.

    ```mlir
    %dx = pos.map_rows_backward %x, %dy of embedding
      uses [#pos.use<@waves, "waves">] gradients []
      : tensor<?x?x128xf32>, tensor<?x?x128xf32> -> tensor<?x?x128xf32>
    ```
  }];
  let arguments = (ins Pos_MappedRows:$input, Optional<Pos_RowIndices>:$indices,
    3DTensorOf<[F32, F64, BF16, F16]>:$resultGradient,
    Pos_RowOperandAttr:$operand, Variadic<Pos_Param>:$params,
    Optional<Pos_Positions>:$positions, OptionalAttr<Pos_UseArrayAttr>:$uses,
    DenseI32ArrayAttr:$paramGradients);
  let results = (outs 3DTensorOf<[F32, F64, BF16, F16]>:$inputGradient,
    Variadic<Pos_Param>:$paramGradientResults);
  let regions = (region AnyRegion:$body);
  let assemblyFormat = [{
    $input (`[` $indices^ `]`)? `,` $resultGradient `of` $operand (`uses` $uses^)?
    (`params` `(` $params^ `:` type($params) `)`)?
    (`positions` `(` $positions^ `:` type($positions) `)`)?
    `gradients` $paramGradients
    attr-dict `:` type($input) (`[` type($indices)^ `]`)? `,`
    type($resultGradient) `->` type($inputGradient)
    (`,` type($paramGradientResults)^)? ($body^)?
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

#endif // SEXTANT_POS_ATTENTION_TD

//===- PosSites.td - The places of attention at which encodings act -----------===//
//
// A site is a place of attention at which an encoding acts. Each is an op whose
// region, the payload, computes what happens there; the set of sites is closed.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_POS_SITES_TD
#define SEXTANT_POS_SITES_TD

include "dialects/Pos/IR/PosAttrs.td"
include "dialects/Pos/IR/PosInterfaces.td"

/// A site has no result and a pure body, so it must state an effect or it would
/// be erased as dead code.
class Pos_SiteOp<string mnemonic, list<Trait> traits = [],
                 list<string> siteMethods = []>
    : Pos_Op<mnemonic, traits # [SingleBlock,
        ParentOneOf<["EncodingOp", "AttentionOp", "AttentionBackwardOp", "MapRowsOp", "MapRowsBackwardOp"]>,
        MemoryEffects<[MemWrite]>,
        DeclareOpInterfaceMethods<Pos_SiteOpInterface,
                                  ["getYieldTypes"] # siteMethods>]> {
  let regions = (region SizedRegion<1>:$body);
}

def Pos_RowsOp : Pos_SiteOp<"rows", [AttrSizedOperandSegments],
    ["resolveOperands", "getArgumentAxes", "getPointAxes"]> {
  let summary = "Maps the rows of operands, group of lanes by group of lanes";
  let description = [{
    The payload maps the values of one group (C6: one argument for `single`,
    two for `half` and `interleaved`, a vector for `whole`) to as many values.
    `grouping(%g)` chooses among `half` (0) and `interleaved` (1) by an option;
    `lanes(%begin, %end)` restricts the map to a range, where an end of 0 stands
    for the head dim. The head counts the operand's own heads.

    ```mlir
    pos.rows of [query, key] half {
    ^bb0(%x: f32, %y: f32):
      %p = pos.coord self
      %t = pos.lane
      %a = arith.sitofp %p : i32 to f32
      %c = math.cos %a : f32
      %u = arith.mulf %x, %c : f32
      %v = arith.mulf %y, %c : f32
      pos.yield %u, %v : f32, f32
    }
    ```
  }];
  let arguments = (ins Pos_RowOperandArrayAttr:$of, OptionalAttr<Pos_GroupingAttr>:$grouping,
                       Optional<I32>:$groupingOption, Optional<I32>:$begin, Optional<I32>:$end);
  let assemblyFormat = [{
    `of` custom<RowOperands>($of) custom<Grouping>($grouping, $groupingOption)
    (`lanes` `(` $begin^ `,` $end `)`)? $body attr-dict
  }];
  let hasVerifier = 1;
}

def Pos_TurnRowsOp : Pos_SiteOp<"turn_rows", [],
    ["getArgumentAxes", "getPointAxes", "isOutsideTiles"]> {
  let summary = "Multiplies blocks of query and key rows by the exponential of a matrix";
  let description = [{
    With A the matrix of `size` rows and columns that the payload gives for a
    row's block, the block x becomes exp(A) x. The payload takes the block, the
    row and the column of A (i32) and yields that element. Blocks follow each
    other from lane 0 on; lanes that fill no block stay as they are. The head
    counts the operand's own heads.

    T1: the operands are query and key. T2: turns come before other row maps of
    the same rows, and a query that turns has no `pos.query_dot`, a key no
    `pos.key_dot`. T3: `size` is 1 to the head dim.

    Matrices and exponentials are made once per call and position, in double. They
    are shared by batch and heads where A does not vary with them, and by a query
    and a key of one index (the two lengths end together) whose coordinates are
    the same; the row is rounded to its type once. Up to a norm of 2^50 of A the error of exp(A) is
    that of its angles in double. The gradient is exact (that of the exponential
    in the direction of the cotangent; Al-Mohy and Higham 2009, section 2), with
    nothing kept from the forward.

    A plane that turns by the position:

    ```mlir
    %two = arith.constant 2 : i32
    pos.turn_rows of [query, key] blocks %two {
    ^bb0(%block: i32, %row: i32, %column: i32):
      %p = pos.coord self
      %o = arith.subi %row, %column : i32
      %pf = arith.sitofp %p : i32 to f32
      %of = arith.sitofp %o : i32 to f32
      %a = arith.mulf %pf, %of : f32
      pos.yield %a : f32
    }
    ```
  }];
  let arguments = (ins Pos_RowOperandArrayAttr:$of, I32:$size);
  let assemblyFormat = "`of` custom<RowOperands>($of) `blocks` $size $body attr-dict";
  let hasVerifier = 1;
}

def Pos_ColumnsOp : Pos_SiteOp<"columns", [], ["getPointAxes"]> {
  let summary = "Appends columns to query and key rows";
  let description = [{
    An extra contraction in the same product: with a and b of `count` columns
    the score is scale (<q, k> + <a, b>). The scale stays that of the original
    head dim and multiplies the columns as well; a payload that divides one side
    by `pos.scale` has a term after the scale. Row maps do not see the columns.
    Several sites append one after the other; a count of 0 appends nothing.

    The payload yields the query's and the key's value of column `pos.lane`. The
    first varies with the query, the second with the key, never with the row of
    the other side. The head counts the operand's own heads: those of the query
    in the first value, those of the key in the second. Columns that do not vary
    with the batch (the head) are shared by it, and the gradients of what they
    read are sums over it.

    A product of learned position embeddings (SeqPE's bias form, 2025, section 3):

    ```mlir
    pos.columns %n {
      %t = pos.lane
      %i = pos.index query
      %j = pos.index key
      %a = pos.read %eq[%i, %t] : tensor<?x?xf32>
      %b = pos.read %ek[%j, %t] : tensor<?x?xf32>
      pos.yield %a, %b : f32, f32
    }
    ```
  }];
  let arguments = (ins I32:$count);
  let assemblyFormat = "$count $body attr-dict";
  let hasRegionVerifier = 1;
}

def Pos_ScoreOp : Pos_SiteOp<"score", [], ["getPointAxes"]> {
  let summary = "Maps the score at (batch, head, query, key)";
  let description = [{
    The payload sees the scaled score in natural-log units (C3). With an
    argument of type `tensor<?xf32>` it sees the scores of all heads of the
    query at (batch, query, key) at once.

    Values of a payload of all heads are scalars and vectors (one-dimensional
    tensors of f32, conditions of i1). Vectors come from elementwise ops of
    `arith` and `math`, `tensor.splat`, `pos.contract`, `pos.for_heads`,
    `pos.host` and parameters of one dimension, which stand for their elements.
    `pos.head` has a meaning inside `pos.for_heads` only. `pos.scan`,
    `pos.query_dot` and `pos.key_dot` have none.

    Inlining makes the extent of every vector static (`tensor<12xf32>`): the
    number of heads is compiled in, so the query's type must say it. Fusing
    turns scalar scores beside a score of all heads into `pos.for_heads`, so an
    attention then has one score. After hoisting a vector that varies with the
    offset at most may be a `pos.hoist` as well. Masks act on the final scores
    of each head, after the payload.

    ```mlir
    pos.score {
    ^bb0(%s: f32):
      %o = pos.offset
      %d = arith.sitofp %o : i32 to f32
      %t = arith.addf %s, %d : f32
      pos.yield %t : f32
    }
    pos.score {
    ^bb0(%s: tensor<?xf32>):
      %x = pos.contract %w1, %s : tensor<?x?xf32>, tensor<?xf32> -> tensor<?xf32>
      %y = arith.addf %x, %b1 : tensor<?xf32>
      %z = math.tanh %y : tensor<?xf32>
      %d = pos.contract %w2, %z : tensor<?x?xf32>, tensor<?xf32> -> tensor<?xf32>
      %t = arith.addf %s, %d : tensor<?xf32>
      pos.yield %t : tensor<?xf32>
    }
    ```
  }];
  let assemblyFormat = "$body attr-dict";
  let hasVerifier = 1;
}

def Pos_MaskOp : Pos_SiteOp<"mask"> {
  let summary = "Says which keys a query sees";
  let description = [{
    True is visible (C4). Several masks must all hold.

    ```mlir
    pos.mask {
      %i = pos.index query
      %j = pos.index key
      %v = arith.cmpi sle, %j, %i : i32
      pos.yield %v : i1
    }
    ```
  }];
  let assemblyFormat = "$body attr-dict";
}

def Pos_RowTermOp : Pos_Op<"row_term", [
    ParentOneOf<["AttentionOp", "AttentionBackwardOp"]>, MemoryEffects<[MemWrite]>]> {
  let summary = "Term of all scores of a row, kept out of the softmax";
  let description = [{
    Made by dropping row constants, never written by an author. What is added to
    every score of a row cancels in the softmax; all that it does is shift the
    log-sum-exp. So `pos.attention` adds the term to the log-sum-exp of the
    scores, and not to its statistics; the gradient of the term is the gradient
    of the log-sum-exp of its row. Nothing passes through the output, where rounding would leave noise.

    A row that sees no key keeps minus infinity and its term has no gradient
    (C4). A term that is infinite or NaN reaches the log-sum-exp, not the output.

    The term is a `pos.hoist` over the query and, at most, batch and head. There
    is at most one.

    ```mlir
    %t = pos.hoist [head, query] {
      %h = pos.head
      %i = pos.index query
      %b = pos.read %bias[%h, %i] : tensor<?x?xf32>
      pos.yield %b : f32
    } : f32
    pos.row_term %t : f32
    ```
  }];
  let arguments = (ins F32:$term);
  let assemblyFormat = "$term attr-dict `:` type($term)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The hoist that the term is the value of.
    HoistOp getHoist();
  }];
}

def Pos_WeightedRowsOp : Pos_SiteOp<"weighted_rows"> {
  let summary = "Adds a table's rows to the output, weighted by the probabilities";
  let description = [{
    O_i += sum_j P_ij table[index(i, j)], made by sums per bucket. The table is
    [rows, value dim] and is shared by the heads. A row outside of it reads as
    NaN. With `when`, an option says whether the site acts.

    ```mlir
    pos.weighted_rows %table : tensor<?x?xf32> {
      %o = pos.offset
      pos.yield %o : i32
    }
    ```
  }];
  let arguments = (ins 2DTensorOf<[F32, F64]>:$table, Optional<I1>:$condition);
  let assemblyFormat = "$table (`when` $condition^)? `:` type($table) $body attr-dict";
}

def Pos_ScanOp : Pos_Op<"scan", [Pure, HasParent<"ScoreOp">,
    AllTypesMatch<["value", "limit", "result"]>,
    DeclareOpInterfaceMethods<Pos_PayloadOpInterface, ["getOwnAxes", "isOfOneHead"]>]> {
  let summary = "Running sum over the visible keys of a row, clamped";
  let description = [{
    The sum of `value` over the keys from the row's end (its last key for
    `leftward`, its first for `rightward`) up to and including the key at hand,
    clamped at `limit`. Hidden keys count 0, whatever their value. Values are
    not negative: a sum that has reached the limit stays there, so tiles beyond
    it skip the scan. `limit` is a constant or an option, not trained. The
    gradient of a value is the sum of the gradients of the results that contain
    it and are below the limit (C10: 0 at the limit). Scans of one attention
    run in one direction.

    Contextual position encoding (Golovneva et al. 2024, section 4): the sum of
    gates is the position.

    ```mlir
    %p = pos.scan %g leftward until %c : f32
    ```
  }];
  let arguments = (ins F32:$value, Pos_DirectionAttr:$direction, F32:$limit);
  let results = (outs F32:$result);
  let assemblyFormat = "$value $direction `until` $limit attr-dict `:` type($value)";
}

/// A row of a table times a row of one side.
class Pos_RowDotOp<string mnemonic, string side>
    : Pos_Op<mnemonic, [Pure, ParentOneOf<["ScoreOp", "SumOp"]>,
                        Pos_PayloadOpInterface, Pos_RowDotOpInterface]> {
  let arguments = (ins 2DTensorOf<[F32, F64]>:$table, I32:$index,
                       Optional<2DTensorOf<[F32, F64]>>:$addend, UnitAttr:$columns);
  let results = (outs F32:$result);
  let assemblyFormat = [{
    $table (`columns` $columns^)? `[` $index `]` (`plus` $addend^)? attr-dict `:`
    type($table) (`,` type($addend)^)?
  }];
  let extraClassDeclaration = [{
    ::sextant::pos::Side getSide() { return ::sextant::pos::Side::}] # side # [{; }
    ::sextant::pos::AxisSet getOwnAxes() {
      return {::sextant::pos::Axis::score, ::sextant::pos::Axis::row};
    }
    bool isOfOneHead() { return true; }
    ::llvm::SmallVector<::sextant::pos::TableRead> getTableReads() {
      return {{getTable(), getColumns() ? 1u : 0u, getIndex()}};
    }
  }];
}

def Pos_QueryDotOp : Pos_RowDotOp<"query_dot", "query"> {
  let summary = "A table's row times the query row as it entered the op, unscaled";
  let description = [{
    The table is [rows, head_dim] and is shared by the heads. With `columns` it
    is [head_dim, rows], shared as well, or [heads * head_dim, rows], a part for
    each head. Row maps do not change the query row that it sees; with `plus`
    the head's row of a parameter [heads, head_dim] is added to it. A row
    outside of the table reads as NaN. In a score payload only, in a sum there
    as well.

    ```mlir
    %z = pos.query_dot %table[%index] : tensor<?x?xf32>
    %y = pos.query_dot %table columns[%index] plus %v : tensor<?x?xf32>, tensor<?x?xf32>
    ```

    Where the index determines the offset (between bounds that are far from each
    other), and in a sum over columns whose factors do, `pos-form-offset-products` makes it
    a `pos.offset_dot`. Any other index (one that has few values, or depends on
    contents) takes one of the products with all rows of the table, made once per
    query.
  }];
}

def Pos_KeyDotOp : Pos_RowDotOp<"key_dot", "key"> {
  let summary = "A table's row times the key row as it entered the op, unscaled";
  let description = [{
    The mirror image of `pos.query_dot`. The table is [rows, head_dim] and is
    shared by the heads. With `columns` it is [head_dim, rows], shared as well,
    or [kv_heads * head_dim, rows], a part for each head of the keys. Row maps do
    not change the key row that it sees; with `plus` the row of the key's head of
    a parameter [kv_heads, head_dim] is added to it. A row outside of the table
    reads as NaN. In a score payload only, in a sum there as well.

    The position-to-content term of DeBERTa (He et al. 2021, equation 4):

    ```mlir
    %z = pos.key_dot %table columns[%index] : tensor<?x?xf32>
    ```

    As there, it becomes a `pos.offset_dot` where the index determines the offset,
    and else takes one of the products of all keys with all rows of the table, made
    once per call.
  }];
}

def Pos_OffsetDotOp : Pos_Op<"offset_dot", [Pure, HasParent<"ScoreOp">,
    AttrSizedOperandSegments, Pos_RowDotOpInterface,
    DeclareOpInterfaceMethods<Pos_PayloadOpInterface,
                              ["getOwnAxes", "isOfOneHead", "getTableReads"]>]> {
  let summary = "The query row, or the key row, times a row per offset that a table gives";
  let description = [{
    With an index, the row of an offset is that row of the table, and this is the
    `pos.query_dot` at the index, or with `key` the `pos.key_dot`. With a number of columns, it is the sum over the
    columns c of table[:, c] times the factor that the body yields for c, and this
    is the sum of the products times the factors:

    ```mlir
    %z = pos.offset_dot %table[%index] : tensor<?x?xf32>
    %y = pos.offset_dot key %table[%index] : tensor<?x?xf32>
    %x = pos.offset_dot %table columns plus %v to %n {
    ^bb0(%c: i32):
      %f = arith.mulf %distance, %frequency : f32
      %w = math.sin %f : f32
      pos.yield %w : f32
    } : tensor<?x?xf32>, tensor<?x?xf32>
    ```

    Made by `pos-form-offset-products` from `pos.query_dot`, `pos.key_dot` and `pos.sum`, never written
    by an author; table, `columns` and `plus` are as there. Kernels make the rows
    once per call, one per head and offset, and multiply each tile with those of
    its offsets.

    O1: there is either an index or a number of columns with a body, which takes
    a column (i32), yields a factor (f32) and goes with `columns`. O2: the index or
    the factor varies with the offset at most, the number with nothing, and no
    parameter stands behind them. O3: no positions are given: under those,
    offsets have gaps, and rows would be too many.
  }];
  let arguments = (ins 2DTensorOf<[F32, F64]>:$table, Optional<I32>:$index,
                       Optional<2DTensorOf<[F32, F64]>>:$addend, Optional<I32>:$count,
                       UnitAttr:$columns, UnitAttr:$ofKey);
  let results = (outs F32:$result);
  let regions = (region AnyRegion:$body);
  let assemblyFormat = [{
    (`key` $ofKey^)? $table (`columns` $columns^)? (`[` $index^ `]`)? (`plus` $addend^)?
    (`to` $count^ $body)? attr-dict `:` type($table) (`,` type($addend)^)?
  }];
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::sextant::pos::Side getSide() {
      return getOfKey() ? ::sextant::pos::Side::key : ::sextant::pos::Side::query;
    }
    /// The factor of a column, in the body; null with an index.
    ::mlir::Value getFactor();
    /// The column in the body; null with an index.
    ::mlir::BlockArgument getColumn();
  }];
}

def Pos_HostOp : Pos_Op<"host", [Pure,
    DeclareOpInterfaceMethods<Pos_PayloadOpInterface, ["getOwnAxes"]>]> {
  let summary = "Additive term of a host encoding that a use names";
  let description = [{
    The sum of what the hosts add to the score; 0 without hosts. A host whose
    score payload is not additive in the score is an error at inlining. Its type
    is that of the score's argument: in a score of all heads it is the vector of
    each head's term. In a score payload only, outside `pos.for_heads`.

    ```mlir
    %b = pos.host : f32
    ```
  }];
  let results = (outs AnyTypeOf<[F32, 1DTensorOf<[F32]>]>:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Pos_HoistOp : Pos_Op<"hoist", [Pure, SingleBlock,
    ParentOneOf<["AttentionOp", "AttentionBackwardOp", "MapRowsOp", "MapRowsBackwardOp"]>]> {
  let summary = "Values that vary with a few axes only, computed outside the tiles";
  let description = [{
    Made by hoisting from the dependence sets; never written by an author. The
    target turns it by its axes into a scalar per head, a table over offsets,
    a vector over query or key rows, or a table over (row, lane). Uses stand in
    later sites and hoists of the same attention.

    A hoisted vector (of a score of all heads) has a static extent and the axes
    [offset] exactly, also where it varies with less: a table with as many rows
    as elements. `pos.head` is that of a `pos.for_heads` in its body.

    ```mlir
    %t = pos.hoist [head, offset] {
      %o = pos.offset
      %d = arith.sitofp %o : i32 to f32
      pos.yield %d : f32
    } : f32
    ```
  }];
  let arguments = (ins Pos_AxisArrayAttr:$axes);
  let results = (outs AnyTypeOf<[F32, I32, I1, 1DTensorOf<[F32]>]>:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "custom<Axes>($axes) $body attr-dict `:` type($result)";
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::sextant::pos::AxisSet getAxisSet();
  }];
}

def Pos_HingesOp : Pos_Op<"hinges", [Pure, SingleBlock, Pos_PayloadOpInterface,
    ParentOneOf<["AttentionOp", "AttentionBackwardOp"]>]> {
  let summary = "Units of a piecewise-linear function, one function per head";
  let description = [{
    The function is f(x) = sum_k (p x + q + w max(a x + b, 0)) over the units
    k = 0 .. n-1; the body yields the coefficients p, q, w, a, b of unit k. The
    result has one row of coefficients per unit, [n, 5], and is used by
    `pos.hinge_sum`. Made by `pos-form-piecewise-linear` from sums, never written by an
    author.

    H1: the coefficients vary with the unit, the batch and the head only.

    Kernels compute the coefficients in f64, once per call, and keep f as a
    table: the knots -b/a in order and, between each two, a slope and an
    intercept in f32. Of the gradients they keep moments per knot, from which
    those of the coefficients follow at the end.

    ```mlir
    %f = pos.hinges {
    ^bb0(%k: i32):
      %h = pos.head
      %zero = arith.constant 0.0 : f32
      %a = pos.read %w1[%k] : tensor<?xf32>
      %b = pos.read %b1[%k] : tensor<?xf32>
      %w = pos.read %w2[%h, %k] : tensor<?x?xf32>
      pos.yield %zero, %zero, %w, %a, %b : f32, f32, f32, f32, f32
    } : tensor<32x5xf32>
    ```
  }];
  let results = (outs 2DTensorOf<[F32]>:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$body attr-dict `:` type($result)";
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    int64_t getNumUnits() { return getType().getDimSize(0); }
  }];
}

def Pos_HingeSumOp : Pos_Op<"hinge_sum", [Pure, Pos_PayloadOpInterface,
    ParentOneOf<["ScoreOp", "ForHeadsOp"]>]> {
  let summary = "A piecewise-linear function of a scalar";
  let description = [{
    f(x) of `pos.hinges`. At a knot the derivative is the mean of both sides, as
    that of a maximum is (C10). Equal to the sum that it stands for but for
    rounding, where `x` is finite.

    H2: `x` needs neither the score nor a row, so no `pos.scan`, `pos.query_dot`
    or `pos.key_dot` and no input of a `pos.for_heads`: kernels compute it before
    the score.

    H3: in a score of all heads it stands in the body of a `pos.for_heads`, whose
    head says which function it is. Where neither `x` nor the coefficients a and b
    need the head, kernels find the segments once for all heads.

    ```mlir
    %y = pos.hinge_sum %f at %x : tensor<32x5xf32>
    ```
  }];
  let arguments = (ins 2DTensorOf<[F32]>:$hinges, F32:$value);
  let results = (outs F32:$result);
  let assemblyFormat = "$hinges `at` $value attr-dict `:` type($hinges)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The units that the function is the sum of.
    HingesOp getUnits();
  }];
}

#endif // SEXTANT_POS_SITES_TD

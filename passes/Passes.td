//===- Passes.td - Passes on sites and encodings ------------------------------===//
//
// These passes lead from the names of encodings in an attention to sites whose
// values are hoisted where that pays. README.md follows an encoding through
// them.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_TD
#define SEXTANT_PASSES_TD

include "mlir/Pass/PassBase.td"

//===----------------------------------------------------------------------===//
// From uses of encodings to sites
//===----------------------------------------------------------------------===//

def Specialize : Pass<"pos-specialize", "::mlir::ModuleOp"> {
  let summary = "Give the functions of encodings that a model calls their bodies";
  let description = [{
    A function of an encoding that takes part in the model around attention is
    written for any options and sizes. A model declares those that it calls, as
    `@<instance>.<function>` with the attributes `pos.use` and `pos.extents`; the
    declaration gets the function's body, in which options and extents are
    constants, helpers are inlined, and types follow from those of the arguments.
    Definitions are found as by `pos-link-encodings`.

    ```mlir
    // sextant-opt --pos-specialize=search-path=my/encodings
    func.func private @gated.produce(tensor<?x?x64xf32>, tensor<4x64xf32>) -> tensor<?x4x?xf32>
        attributes {pos.use = #pos.use<@gated, "gated">, pos.extents = {heads = 4 : i32}}
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::math::MathDialect", "::mlir::tensor::TensorDialect",
    "::sextant::nn::NnDialect", "::sextant::pos::PosDialect"];
  let options = [
    Option<"searchPath", "search-path", "std::string", "\"\"",
           "Folders of encodings, separated by colons">];
  let statistics = [
    Statistic<"numFunctions", "functions-specialized", "Functions that got a body">];
}

def PlaceDropouts : Pass<"pos-place-dropouts", "::mlir::ModuleOp"> {
  let summary = "Give dropouts of encodings a seed, a step and a place";
  let description = [{
    In a function that takes a seed and a step, tensor<i64> arguments that are
    marked `nn.random = "seed"` and `nn.random = "step"`, a `pos.dropout` becomes
    an `nn.dropout` whose place nothing else in the function has. In all other
    functions it becomes its input. Runs after the calls of encodings' functions
    are inlined, before derivatives are made.
  }];
  let dependentDialects = ["::sextant::nn::NnDialect"];
  let statistics = [Statistic<"numPlaced", "dropouts-placed", "Dropouts that draw">];
}

def LinkEncodings : Pass<"pos-link-encodings", "::mlir::ModuleOp"> {
  let summary = "Bring the definitions of used encodings into the module";
  let description = [{
    For each use of an encoding, takes the definition from the module or else
    from the first folder of the search path that has a file of its name, itself
    or in a folder of that name, and folds the use's options into a copy of it. Equal uses share one copy. The
    hosts that a use names are linked likewise.

    The search path is `search-path` (folders separated by colons), then the
    environment variable SEXTANT_PATH, then the folder of Sextant's own
    encodings. Unknown encodings and options are errors that list the nearest
    names; errors in a file point at its line and column.

    ```mlir
    // sextant-opt --pos-link-encodings=search-path=my/encodings
    %o, %lse = pos.attention %q, %k, (%v) uses [#pos.use<@band, "near", {size = 64 : i32}>]
      : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, (tensor<?x?x?x64xf32>)
      -> (tensor<?x?x?x64xf32>), tensor<?x?x?xf32>
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::math::MathDialect", "::mlir::tensor::TensorDialect",
    "::sextant::nn::NnDialect", "::sextant::pos::PosDialect"];
  let options = [
    Option<"searchPath", "search-path", "std::string", "\"\"",
           "Folders of encodings, separated by colons">];
  let statistics = [
    Statistic<"numLinked", "definitions-linked", "Definitions, one per distinct use">,
    Statistic<"numOptionsFolded", "options-folded", "Options folded to constants">];
}

def InlineEncodings : Pass<"pos-inline-encodings", "::mlir::ModuleOp"> {
  let summary = "Splice the sites of used encodings into their attention";
  let description = [{
    The region of the attention takes one argument per parameter operand, in
    the order of use, then of declaration (hosts' after those of the use that
    names them); each definition's sites follow in the order of the list.
    Arithmetic on options and known extents becomes constants. Missing or extra
    parameters and wrong shapes are errors that name the parameter as
    `<instance>.<param>` or `<instance>.<host>.<param>`. Definitions are erased.

    `pos.host` becomes the sum of the terms that hosts add to a score: a host
    has scalar score sites only, which are additive in the score. In scores of
    all heads the extents of vectors become static.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::sextant::pos::PosDialect"];
  let statistics = [
    Statistic<"numUses", "uses-inlined", "Uses of encodings inlined">,
    Statistic<"numSites", "sites-inlined", "Sites spliced into attentions">];
}

def FuseSites : Pass<"pos-fuse-sites"> {
  let summary = "Compose score payloads and conjoin masks";
  let description = [{
    Score sites become one whose payload is their composition in list order;
    beside a score of all heads a scalar one becomes a `pos.for_heads`. All
    masks become one whose payload is their conjunction. Row maps stay in order,
    but for those of no lanes and those that yield what they are given.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::sextant::pos::PosDialect"];
  let statistics = [
    Statistic<"numScores", "scores-composed", "Score sites merged into another">,
    Statistic<"numMasks", "masks-conjoined", "Mask sites merged into another">,
    Statistic<"numRows", "rows-erased", "Row maps that change nothing">];
}

def DropRowConstants : Pass<"pos-drop-row-constants"> {
  let summary = "Move terms of the score that cancel in the softmax to the log-sum-exp";
  let description = [{
    A term that the last ops of a score payload add, and that is the same for
    all keys of a row (it varies with batch, head and query only), has no part in
    the output. It leaves the payload for a `pos.row_term`, which shifts the
    log-sum-exp by it. Where something that is not additive comes after it (a
    soft cap, scores of all heads), the term stays. Attention and its gradient
    are treated alike, so that they agree on what a log-sum-exp holds.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::sextant::pos::PosDialect"];
  let statistics = [
    Statistic<"numDropped", "terms-dropped", "Terms that left a payload">];
}

def FormPiecewiseLinear : Pass<"pos-form-piecewise-linear"> {
  let summary = "Rewrite sums of rectified units of one scalar as piecewise-linear functions";
  let description = [{
    A sum in a score whose terms are p x + q + w max(l, r), with l and r affine in
    one and the same scalar x of the (query, key) pair, and with coefficients that
    vary with the index of the sum, the batch and the head only, becomes a
    `pos.hinge_sum` of `pos.hinges`: a hidden layer of rectified units between one
    input and a row of weights, leaky or not. Kernels then add up slopes and
    intercepts once per call instead of units per score. max(l, r) is
    r + max(l - r, 0).

    What x is does not matter, but it must not need the score, and a sum that
    `pos-hoist` can move out of the tiles as a whole stays. In a score of all
    heads the bodies of `pos.for_heads` are payloads of one head here, hosts
    among them; what they use of scalars around them is computed in them, and x
    must not need their inputs. Other sums, and counts that are not constant or
    exceed 1024, are left alone: they compute the same, unit by unit.

    Where x is a quotient by what `pos-hoist` keeps outside tiles, it becomes a
    product with the reciprocal: half a unit in the last place of x, and no
    division per score.

    Results differ from those of the sums by rounding only. For targets whose
    kernels know `pos.hinge_sum`; the reference computes the sums.

    ```mlir
    %f = pos.hinges {
    ^bb0(%k: i32):
      pos.yield %p, %q, %w, %a, %b : f32, f32, f32, f32, f32
    } : tensor<32x5xf32>
    pos.score {
    ^bb0(%s: f32):
      %y = pos.hinge_sum %f at %x : tensor<32x5xf32>
      %t = arith.addf %s, %y : f32
      pos.yield %t : f32
    }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::sextant::pos::PosDialect"];
  let statistics = [
    Statistic<"numSums", "sums-rewritten", "Sums that became functions of segments">];
}

def FormAddends : Pass<"pos-form-addends"> {
  let summary = "Make lanes that hold no part of a row an addend of a shorter product";
  let description = [{
    A row map may overwrite lanes at one end of a row with values that do not
    read it, but vary with position and lane only, by parameters or not. Where
    all that uses the mapped rows are products with matrices (`nn.linear`), the
    lanes are the same for the whole batch: their product with the matrix is made
    for one sequence, and added to the product of the other lanes, which needs no
    copy of the rows. The addend is made, and added, in f32 for rows of bf16 and
    f16; the bias is in it.

    ```mlir
    %p = pos.map_rows %zeros of query_input uses [#pos.use<@place, "place">]
      : tensor<1x?x96xf32> -> tensor<1x?x96xf32>
    %held, %rest = nn.split %w dim 1 into [96, 672]
      : (tensor<768x768xf32>) -> (tensor<768x96xf32>, tensor<768x672xf32>)
    %kept = nn.slice %x dim 2 start 96 length 672 : (tensor<?x?x768xf32>) -> tensor<?x?x672xf32>
    %a = nn.linear %p, %held bias %b
      : (tensor<1x?x96xf32>, tensor<768x96xf32>, tensor<768xf32>) -> tensor<1x?x768xf32>
    %y = nn.linear %kept, %rest : (tensor<?x?x672xf32>, tensor<768x672xf32>) -> tensor<?x?x768xf32>
    %z = nn.add %y, %a : (tensor<?x?x768xf32>, tensor<1x?x768xf32>) -> tensor<?x?x768xf32>
    ```

    A remark says why another row map stays: with more than one map of the same
    rows, lanes in the middle of a row, none left, or positions of which each
    sequence has its own, nothing would be gained.

    Gradients follow from those of the ops, so it runs before they are derived,
    and before `pos-hoist`; the reference computes what is written. Results
    differ by rounding only.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect",
    "::sextant::nn::NnDialect", "::sextant::pos::PosDialect"];
  let statistics = [
    Statistic<"numFormed", "products-shortened", "Products that became shorter">,
    Statistic<"numDeclined", "maps-declined", "Maps that make lanes without the row and stay">];
}

def Hoist : Pass<"pos-hoist"> {
  let summary = "Move what needs neither score nor row out of payloads";
  let description = [{
    By the dependence sets: each maximal subexpression that varies with
    {offset}, {query}, {key} or {self, lane}, with or without batch and head,
    or with batch and head only, becomes a `pos.hoist` of these axes. Constants,
    conditions and a few cheap ops are left in place.

    Terms that the last ops of a score payload add are first summed by what they
    vary with, so that several biases cost one table.

    Within a hoist of a score or mask, an expensive part that varies with fewer
    axes and that no gradient flows through becomes a hoist of its own (T5's
    buckets are made once for all heads). Hoists of row maps are not split: a
    frequency kept in f32 would spoil exact angles.

    The bodies of `pos.for_heads` in a score of all heads are payloads of one
    head here; what they use of scalars around them is computed in them.
  }];
  let dependentDialects = ["::sextant::pos::PosDialect"];
  let statistics = [
    Statistic<"numHoists", "subexpressions-hoisted", "Maximal subexpressions hoisted">,
    Statistic<"numParts", "parts-hoisted", "Parts of hoists that became hoists">,
    Statistic<"numJoined", "terms-joined", "Terms added to another before the score">,
    Statistic<"numInvariants", "invariants-hoisted", "Ops moved out of sums">];
}

def HoistVectors : Pass<"pos-hoist-vectors"> {
  let summary = "Move vectors of the offset out of scores of all heads";
  let description = [{
    In a score of all heads, each maximal vector that varies with the offset at
    most and takes a contraction or a function to compute becomes a
    `pos.hoist [offset]`: the half of a layer that sees a host's terms is made
    once per offset instead of once per (query, key). Runs after `pos-hoist`;
    without it the same values are computed in the tile, as they are where
    positions are given, whose offsets have gaps.

    ```mlir
    %u = pos.hoist [offset] {
      %b = pos.for_heads () {
        pos.yield %bias : f32
      } : () -> tensor<12xf32>
      %c = arith.constant 12 : i32
      %x = pos.contract %w1, %b columns from %c
        : tensor<?x?xf32>, tensor<12xf32> -> tensor<32xf32>
      pos.yield %x : tensor<32xf32>
    } : tensor<32xf32>
    ```
  }];
  let dependentDialects = ["::sextant::pos::PosDialect"];
  let statistics = [
    Statistic<"numVectors", "vectors-hoisted", "Maximal vectors hoisted">];
}

def FormOffsetProducts : Pass<"pos-form-offset-products"> {
  let summary = "Rewrite products of rows with factors of the offset as products with one row per offset";
  let description = [{
    In a score of one head, these become a `pos.offset_dot`:

    * a sum over the columns of a table whose term is a product, in any order, of
      the `pos.query_dot` at the sum's own column and of factors (or divisors)
      that vary with the column and the offset at most and read no parameter;
    * a `pos.query_dot` or `pos.key_dot` outside of sums whose index determines the
      offset: at most two offsets have the same index, because it is the offset or
      its magnitude, with either sign, plus what is the same for all scores. It may
      be clipped to two constants that are 128 or more apart.

    Kernels make one row per head and offset, once per call, where the sum takes
    one product per score and column. A sum of another form is computed term by
    term, and for another product the row is multiplied with all rows of the
    table; a remark says why. Where positions are given, nothing is rewritten:
    offsets have gaps then, and there would be too many rows.

    Runs after `pos-hoist`, for targets whose kernels know `pos.offset_dot`; the
    reference computes what is written. Results differ by rounding only.

    ```mlir
    %x = pos.offset_dot %table columns to %n {
    ^bb0(%c: i32):
      %f = arith.mulf %distance, %frequency : f32
      %w = math.sin %f : f32
      pos.yield %w : f32
    } : tensor<?x?xf32>
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::sextant::pos::PosDialect"];
  let statistics = [
    Statistic<"numSums", "sums-rewritten", "Sums that became products with rows of offsets">,
    Statistic<"numProducts", "products-rewritten", "Single products that did">,
    Statistic<"numDeclined", "products-declined", "Sums and products that stay as they are">];
}

//===----------------------------------------------------------------------===//
// What may exist after each stage
//===----------------------------------------------------------------------===//

def VerifyLinked : Pass<"pos-verify-linked", "::mlir::ModuleOp"> {
  let summary = "Check that every use has its definition";
  let description = [{
    Each use and each host of it names a `pos.encoding` of the module, without
    options of its own, and that definition has no `pos.option` left.
  }];
}

def VerifyInlined : Pass<"pos-verify-inlined", "::mlir::ModuleOp"> {
  let summary = "Check that only sites are left of encodings";
  let description = [{
    No `pos.encoding`, no use, no `pos.host`; integer operands of sites are
    constants, and row maps have a grouping.
  }];
}

def VerifyFused : Pass<"pos-verify-fused", "::mlir::ModuleOp"> {
  let summary = "Check that payloads are composed";
  let description = [{
    As after inlining, and an attention has at most one mask and one score.
  }];
}

def VerifyHoisted : Pass<"pos-verify-hoisted", "::mlir::ModuleOp"> {
  let summary = "Check that hoists are what they say";
  let description = [{
    As after fusing, and each `pos.hoist` varies with its axes at most, which a
    kernel can keep outside its tiles; no read and no sum is left in a payload
    that could be hoisted.
  }];
}

#endif // SEXTANT_PASSES_TD

//===- PosDefinition.td - Encodings, their options and parameters -------------===//
//
// An encoding is data: these ops define it by its options, its parameters, its
// inputs and its requirements. Its sites stand in PosSites.td.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_POS_DEFINITION_TD
#define SEXTANT_POS_DEFINITION_TD

include "dialects/Pos/IR/PosAttrs.td"
include "dialects/Pos/IR/PosInterfaces.td"

def Pos_EncodingOp : Pos_Op<"encoding", [Symbol, SymbolTable, IsolatedFromAbove,
    NoTerminator, SingleBlock, NoRegionArguments]> {
  let summary = "Definition of a positional encoding";
  let description = [{
    Declares options, parameters and the sites at which the encoding acts.
    `arith` and `math` ops on scalars may stand between them; they are
    compile-time arithmetic on options and extents (dims, initial values).
    The discardable attributes `formula` and `paper` (strings) document it.

    Arithmetic on integers has a value everywhere, the same at compile time, in
    initial values and on every target: it wraps; a quotient by 0 is 0 and the
    remainder is what was divided; what is shifted left, or right without its
    sign, by less than 0 or more than 31 bits is 0, and right with its sign 0 or
    -1. A conversion to integers drops the fraction; a number beyond the range
    of integers becomes the least or the greatest of them, NaN 0.

    A literal of type f32 means the decimal number that is written: what is
    computed in f64 (the reference on f64 operands, compile-time arithmetic)
    takes it in f64. `pos.exact` on a constant or an option keeps that number
    where f32 does not hold it.

    E1: what has a dimension `pos.extent query` is not read at the index of a
    query there: its rows are counted by `pos.tensor_row`.

    ```mlir
    pos.encoding @slopes attributes {formula = "s - m_h |i - j|", paper = "Press et al. 2022"} {
      %heads = pos.extent heads
      %slopes = pos.param "slopes" : tensor<?xf32> dims(%heads) frozen by {
      ^bb0(%h: i32):
        %one = arith.constant 1.0 : f32
        pos.yield %one : f32
      }
      pos.score {
      ^bb0(%s: f32):
        %h = pos.head
        %o = pos.offset
        %n = math.absi %o : i32
        %d = arith.sitofp %n : i32 to f32
        %m = pos.read %slopes[%h] : tensor<?xf32>
        %b = arith.mulf %m, %d : f32
        %t = arith.subf %s, %b : f32
        pos.yield %t : f32
      }
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

/// What a definition declares is looked up by its name: functions and uses ask for
/// it without a use of the value, so it must state an effect or it would be erased
/// as dead code.
class Pos_DeclarationOp<string mnemonic, list<Trait> traits = []>
    : Pos_Op<mnemonic, traits # [MemoryEffects<[MemWrite]>, HasParent<"EncodingOp">]>;

def Pos_OptionOp : Pos_DeclarationOp<"option"> {
  let summary = "Compile-time option of an encoding";
  let description = [{
    A number, or one of a list of names whose value is the name's place in the
    list. A use may override the default; linking folds it to a constant.

    A number may have a range, in whole numbers: it is greater than `above`, at
    least `at_least`, at most `at_most`, a multiple of `multiple_of` (i32 only).
    An f32 is finite in any case. Another value is an error at the use. What
    relates an option to others or to extents is said by `pos.require`.

    ```mlir
    %size = pos.option "size" : i32 = 256 : i32 at_least 1
    %base = pos.option "base" : f32 = 10000.0 : f32 above 0
    %width = pos.option "width" : i32 = 128 : i32 at_least 2 at_most 65536 multiple_of 2
    %pairing = pos.option "pairing" : i32 = "half" of ["half", "interleaved"]
    ```
  }];
  let arguments = (ins StrAttr:$name, AnyAttrOf<[I32Attr, F32Attr, I1Attr, StrAttr]>:$value,
                       OptionalAttr<StrArrayAttr>:$choices, OptionalAttr<I64Attr>:$above,
                       OptionalAttr<I64Attr>:$at_least, OptionalAttr<I64Attr>:$at_most,
                       OptionalAttr<I64Attr>:$multiple_of);
  let results = (outs AnyTypeOf<[I32, F32, I1]>:$result);
  let assemblyFormat = [{
    $name `:` type($result) `=` $value (`of` $choices^)? (`above` $above^)?
    (`at_least` $at_least^)? (`at_most` $at_most^)? (`multiple_of` $multiple_of^)?
    attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether a number of the option's type lies in its range.
    bool isInRange(::mlir::TypedAttr number);

    /// The range in words, "at least 1 and at most 3"; empty if there is none.
    std::string describeRange();
  }];
}

def Pos_ParamOp : Pos_DeclarationOp<"param", [AttrSizedOperandSegments]> {
  let summary = "Parameter tensor of an encoding";
  let description = [{
    `dims` gives one i32 per dimension, computed from extents and options. A
    dimension that is exactly `pos.extent batch` may be 1 or divide the batch.

    `init constant(%c)`, `init normal(%mean, %deviation)`, `init
    uniform(%low, %high)`, or `by` a region that maps indices to a value, evaluated
    in f64. A parameter without `init` is given by the caller at every call
    (ids, lengths, gates). `frozen` parameters are not trained. Integer
    parameters are always given and never trained.

    `floor` and `ceiling` bound the values after initialisation and after each
    optimizer step; attention itself never clamps. `scope` says whether each
    layer has its own copy (`layer`, the default) or the model has one.

    ```mlir
    %r1 = pos.param "r1" : tensor<?xf32> dims(%heads) init uniform(%zero, %two) floor 0.01
    ```
  }];
  let arguments = (ins StrAttr:$name, Variadic<I32>:$dims,
    OptionalAttr<Pos_InitAttr>:$init, Variadic<F32>:$initArgs,
    UnitAttr:$frozen, OptionalAttr<F64Attr>:$floor, OptionalAttr<F64Attr>:$ceiling,
    DefaultValuedAttr<Pos_ScopeAttr, "::sextant::pos::Scope::layer">:$scope);
  let results = (outs AnyTypeOf<[RankedTensorOf<[F32]>, RankedTensorOf<[I32]>]>:$value);
  let regions = (region AnyRegion:$initBody);
  let assemblyFormat = [{
    $name `:` type($value) `dims` `(` $dims `)` (`frozen` $frozen^)?
    (`init` $init^ `(` $initArgs `)`)? (`by` $initBody^)?
    (`floor` $floor^)? (`ceiling` $ceiling^)? (`scope` $scope^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Pos_RequireOp : Pos_Op<"require", [MemoryEffects<[MemWrite]>]> {
  let summary = "What must hold of options and extents where an encoding is used";
  let description = [{
    The value is at most, or at least, the limit; else the use is an error:
    `message`, followed by both. What options and static extents decide is
    decided at inlining; the only value that may be open until the call is an
    extent itself, which the program then checks as it does shapes. The range of
    a single option stands in the option.

    ```mlir
    %one = arith.constant 1 : i32
    %length = pos.extent key
    %most = arith.constant 32768 : i32
    pos.require %length at_most %most, "keys beyond the range of the scale"
    ```
  }];
  let arguments = (ins I32:$value, Pos_RelationAttr:$relation, I32:$limit, StrAttr:$message);
  let assemblyFormat = "$value $relation $limit `,` $message attr-dict";
}

def Pos_RequireExtentOp : Pos_Op<"require_extent", [MemoryEffects<[MemWrite]>]> {
  let summary = "A requirement on an extent that only the call knows";
  let description = [{
    Made by inlining from `pos.require`; never written by an author.

    ```mlir
    pos.require_extent key at_most 32768, "keys beyond the range of the scale"
    ```
  }];
  let arguments = (ins Pos_ExtentAttr:$extent, Pos_RelationAttr:$relation, I32Attr:$limit,
                       StrAttr:$message);
  let assemblyFormat = "$extent $relation $limit `,` $message attr-dict";
}

def Pos_RequireSpanOp : Pos_Op<"require_span", [MemoryEffects<[MemWrite]>]> {
  let summary = "How far apart coordinates may be where an encoding is used";
  let description = [{
    From the least to the greatest coordinate of queries and keys of a call,
    along one axis, there are at most `limit` (an option or a constant), else
    the call is an error: `message`, followed by both. Given positions are
    looked at; without them coordinates are indices.

    ```mlir
    %most = arith.constant 32768 : i32
    pos.require_span at_most %most, "positions beyond the range of the scale"
    ```
  }];
  let arguments = (ins I32:$limit, StrAttr:$message, Pos_PositionAxis:$axis);
  let assemblyFormat = "(`axis` $axis^)? `at_most` $limit `,` $message attr-dict";
}

def Pos_RequirePastOp : Pos_Op<"require_past", [MemoryEffects<[MemWrite]>]> {
  let summary = "No query may see a key of a larger index";
  let description = [{
    Some mask of the attention must say so, by comparisons of sums of the two
    indices and constants, in whatever spelling: `key < query + 1`, `not (key >
    query)`, `query - key >= 0`. Without given positions coordinates are indices.
    Else the use is an error with this message, once options are folded.

    ```mlir
    pos.require_past "the scale of a later key has no bound"
    ```
  }];
  let arguments = (ins StrAttr:$message);
  let assemblyFormat = "$message attr-dict";
}

def Pos_InputOp : Pos_DeclarationOp<"input", [AttrSizedOperandSegments]> {
  let summary = "Integer input of an encoding that the training loop feeds";
  let description = [{
    Host code beside the definition makes its values (sampled positions). `dims`
    gives one i32 per dimension, `range` the least and the greatest value; both
    are computed from options. Without `dims` sizes are those of the type, of
    which dynamic ones may be anything.

    ```mlir
    %pivots = pos.input "pivots" : tensor<?x?xi32> dims(%count, %axes) range(%zero, %last)
    ```
  }];
  let arguments = (ins StrAttr:$name, Variadic<I32>:$dims, Variadic<I32>:$range);
  let results = (outs RankedTensorOf<[I32]>:$value);
  let assemblyFormat = [{
    $name `:` type($value) (`dims` `(` $dims^ `)`)? (`range` `(` $range^ `)`)? attr-dict
  }];
  let hasVerifier = 1;
}

def Pos_YieldOp : Pos_Op<"yield", [Pure, Terminator, ReturnLike]> {
  let summary = "Ends a payload";
  let description = [{
    Gives what the op around it asks for: a score, whether a key is visible, the
    values of a group of lanes, the element of a parameter.

    ```mlir
    pos.yield %x, %y : f32, f32
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

#endif // SEXTANT_POS_DEFINITION_TD

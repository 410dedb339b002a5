//===- PosAttrs.td - Enums and attributes of the pos dialect ------------------===//
//
// This file defines the enums of the pos dialect (axes, sides, extents,
// groupings) and the attribute by which attention uses an encoding.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_POS_ATTRS_TD
#define SEXTANT_POS_ATTRS_TD

include "dialects/Pos/IR/PosBase.td"

class Pos_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::sextant::pos";
  let genSpecializedAttr = 0;
}

def Pos_Side : Pos_Enum<"Side", "whose index or coordinate", [
  I32EnumAttrCase<"self", 0>, I32EnumAttrCase<"query", 1>,
  I32EnumAttrCase<"key", 2>]>;
def Pos_SideAttr : EnumAttr<Pos_Dialect, Pos_Side, "side"> {
  let assemblyFormat = "$value";
}

/// Of positions: which of the numbers of a row.
def Pos_PositionAxis
    : DefaultValuedAttr<ConfinedAttr<I32Attr, [IntNonNegative]>, "0">;

def Pos_Bound : Pos_Enum<"Bound", "which end of a range", [
  I32EnumAttrCase<"least", 0>, I32EnumAttrCase<"greatest", 1>]>;
def Pos_BoundAttr : EnumAttr<Pos_Dialect, Pos_Bound, "bound"> {
  let assemblyFormat = "$value";
}

def Pos_RowOperand : Pos_Enum<"RowOperand", "operand whose rows are mapped", [
  I32EnumAttrCase<"query", 0>, I32EnumAttrCase<"key", 1>,
  I32EnumAttrCase<"value", 2>, I32EnumAttrCase<"embedding", 3>,
  I32EnumAttrCase<"query_input", 4>, I32EnumAttrCase<"key_input", 5>,
  I32EnumAttrCase<"value_input", 6>]>;
def Pos_RowOperandAttr : EnumAttr<Pos_Dialect, Pos_RowOperand, "operand"> {
  let assemblyFormat = "$value";
}
def Pos_RowOperandArrayAttr
    : TypedArrayAttrBase<Pos_RowOperandAttr, "operands whose rows are mapped">;

def Pos_Grouping : Pos_Enum<"Grouping", "how a row is cut into groups (C6)", [
  I32EnumAttrCase<"half", 0>, I32EnumAttrCase<"interleaved", 1>,
  I32EnumAttrCase<"single", 2>, I32EnumAttrCase<"whole", 3>]>;
def Pos_GroupingAttr : EnumAttr<Pos_Dialect, Pos_Grouping, "grouping"> {
  let assemblyFormat = "$value";
}

def Pos_Extent : Pos_Enum<"Extent", "an extent of the attention", [
  I32EnumAttrCase<"heads", 0>, I32EnumAttrCase<"kv_heads", 1>,
  I32EnumAttrCase<"head_dim", 2>, I32EnumAttrCase<"value_dim", 3>,
  I32EnumAttrCase<"model", 4>, I32EnumAttrCase<"query", 5>,
  I32EnumAttrCase<"key", 6>, I32EnumAttrCase<"batch", 7>]>;
def Pos_ExtentAttr : EnumAttr<Pos_Dialect, Pos_Extent, "extent"> {
  let assemblyFormat = "$value";
}

def Pos_Init : Pos_Enum<"Init", "distribution of a parameter's initial values", [
  I32EnumAttrCase<"constant", 0>, I32EnumAttrCase<"normal", 1>,
  I32EnumAttrCase<"uniform", 2>]>;
def Pos_InitAttr : EnumAttr<Pos_Dialect, Pos_Init, "init"> {
  let assemblyFormat = "$value";
}

def Pos_Scope : Pos_Enum<"Scope", "how many copies of a parameter a model has", [
  I32EnumAttrCase<"layer", 0>, I32EnumAttrCase<"model", 1>]>;
def Pos_ScopeAttr : EnumAttr<Pos_Dialect, Pos_Scope, "scope"> {
  let assemblyFormat = "$value";
}

def Pos_Relation : Pos_Enum<"Relation", "what an encoding requires of two numbers", [
  I32EnumAttrCase<"at_most", 0>, I32EnumAttrCase<"at_least", 1>]>;
def Pos_RelationAttr : EnumAttr<Pos_Dialect, Pos_Relation, "relation"> {
  let assemblyFormat = "$value";
}

def Pos_Direction : Pos_Enum<"Direction", "direction of a scan over keys", [
  I32EnumAttrCase<"leftward", 0>, I32EnumAttrCase<"rightward", 1>]>;
def Pos_DirectionAttr : EnumAttr<Pos_Dialect, Pos_Direction, "direction"> {
  let assemblyFormat = "$value";
}

/// What a value can vary with inside attention. `query` and `key` stand for the
/// row of that side (its index, or its coordinate). `self` is the row of the
/// operand that a row map works on. `score` is data of the (query, key) pair,
/// `row` data of the mapped row.
def Pos_Axis : Pos_Enum<"Axis", "what a value varies with", [
  I32EnumAttrCase<"batch", 0>, I32EnumAttrCase<"head", 1>,
  I32EnumAttrCase<"query", 2>, I32EnumAttrCase<"key", 3>,
  I32EnumAttrCase<"offset", 4>, I32EnumAttrCase<"self", 5>,
  I32EnumAttrCase<"lane", 6>, I32EnumAttrCase<"score", 7>,
  I32EnumAttrCase<"row", 8>]>;
def Pos_AxisAttr : EnumAttr<Pos_Dialect, Pos_Axis, "axis"> {
  let assemblyFormat = "$value";
}
def Pos_AxisArrayAttr : TypedArrayAttrBase<Pos_AxisAttr, "axes">;

def Pos_UseAttr : Pos_Attr<"Use", "use"> {
  let summary = "one use of an encoding";
  let description = [{
    Names a `pos.encoding`, the instance (whose name prefixes its parameters),
    values for its options and the hosts it takes by reference.

    ```mlir
    #pos.use<@band, "near", {size = 64 : i32}>
    #pos.use<@mixer, "mixer", {hidden = 8 : i32}, [#pos.use<@slopes, "slopes">]>
    ```
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$encoding,
                        "::mlir::StringAttr":$instance,
                        OptionalParameter<"::mlir::DictionaryAttr">:$options,
                        OptionalParameter<"::mlir::ArrayAttr">:$hosts);
  let assemblyFormat =
      "`<` $encoding `,` $instance (`,` $options^)? (`,` $hosts^)? `>`";
}
def Pos_UseArrayAttr : TypedArrayAttrBase<Pos_UseAttr, "uses of encodings">;

#endif // SEXTANT_POS_ATTRS_TD

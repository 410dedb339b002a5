//===- PosInterfaces.td - Questions that passes and kernels ask ---------------===//
//
// Passes and kernels know ops of the pos dialect by these interfaces: what owns
// sites, what a site is, what an op of a payload varies with and reads.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_POS_INTERFACES_TD
#define SEXTANT_POS_INTERFACES_TD

include "mlir/IR/OpBase.td"

def Pos_ContextOpInterface : OpInterface<"ContextOpInterface"> {
  let cppNamespace = "::sextant::pos";
  let description = [{
    A value that depends on where in the attention a payload stands. A new
    context op is one op definition and these three methods.
  }];
  let methods = [
    InterfaceMethod<"The axes that the value varies with. `hasPositions` says "
                    "whether explicit positions are given (coordinates then "
                    "vary with the batch as well).",
      "::sextant::pos::AxisSet", "getDependence", (ins "bool":$hasPositions)>,
    InterfaceMethod<"The value at the point where the payload stands.",
      "::mlir::Value", "materialize",
      (ins "::mlir::OpBuilder &":$builder, "::sextant::pos::SitePoint &":$point)>,
    InterfaceMethod<"The smallest and the largest value over a tile, as i32 values.",
      "::sextant::pos::ValueRange32", "emitRange",
      (ins "::mlir::OpBuilder &":$builder, "::sextant::pos::TileBounds &":$tile)>
  ];
}

def Pos_PayloadOpInterface : OpInterface<"PayloadOpInterface"> {
  let cppNamespace = "::sextant::pos";
  let description = [{
    An op that payloads compute with, beside constants, elementwise ops and
    context ops. How a kernel computes it is another interface of the same op,
    `codegen::EmittableOpInterface`.
  }];
  let methods = [
    InterfaceMethod<"What the value varies with, beside its operands and what "
                    "its regions use.",
      "::sextant::pos::AxisSet", "getOwnAxes", (ins), "", [{ return {}; }]>,
    InterfaceMethod<"Whether the value belongs to one head: it is made of a row "
                    "or of scores of other keys.",
      "bool", "isOfOneHead", (ins), "", [{ return false; }]>,
    InterfaceMethod<"The dimensions of parameters that the op indexes, in order.",
      "::llvm::SmallVector<::sextant::pos::TableRead>", "getTableReads", (ins), "",
      [{ return {}; }]>
  ];
}

def Pos_RowDotOpInterface : OpInterface<"RowDotOpInterface"> {
  let cppNamespace = "::sextant::pos";
  let description = [{
    A row of a table times a row of the query or of the key.
  }];
  let methods = [
    InterfaceMethod<"Whose row it is.", "::sextant::pos::Side", "getSide", (ins)>,
    InterfaceMethod<"The table.", "::mlir::Value", "getTable", (ins)>,
    InterfaceMethod<"The row of the table; null where a sum makes the row.",
      "::mlir::Value", "getIndex", (ins)>,
    InterfaceMethod<"Whether the table's columns are its rows.", "bool", "getColumns", (ins)>,
    InterfaceMethod<"What is added to the row of the operand, or null.",
      "::mlir::Value", "getAddend", (ins)>
  ];
}

def Pos_SiteOpInterface : OpInterface<"SiteOpInterface"> {
  let cppNamespace = "::sextant::pos";
  let description = [{ A place of attention at which a payload acts. }];
  let methods = [
    InterfaceMethod<"The payload.", "::mlir::Block &", "getPayload", (ins), "",
      [{ return $_op->getRegion(0).front(); }]>,
    InterfaceMethod<"The types that the payload must yield.",
      "::llvm::SmallVector<::mlir::Type>", "getYieldTypes", (ins)>,
    InterfaceMethod<"What the payload's arguments vary with, beside where it "
                    "stands: data of the pair or of the row.",
      "::sextant::pos::AxisSet", "getArgumentAxes", (ins), "",
      [{ return ::sextant::pos::Axis::score; }]>,
    InterfaceMethod<"What the payload can ask about: context ops of other axes "
                    "have no meaning at this place.",
      "::sextant::pos::AxisSet", "getPointAxes", (ins), "",
      [{ using enum ::sextant::pos::Axis;
         return ::sextant::pos::AxisSet{batch, head, query, key, offset}; }]>,
    InterfaceMethod<"Whether kernels evaluate the payload once per call, ahead "
                    "of their tiles: nothing of it is worth keeping outside.",
      "bool", "isOutsideTiles", (ins), "", [{ return false; }]>,
    InterfaceMethod<"Reads off operands what options chose, once the site stands "
                    "in an attention and its operands are constants.",
      "::llvm::LogicalResult", "resolveOperands", (ins), "",
      [{ return ::sextant::pos::detail::verifyOperandsConstant($_op); }]>
  ];
  let verify = [{ return ::sextant::pos::detail::verifySite($_op); }];
  let verifyWithRegions = 1;
}

def Pos_SitesOwnerInterface : OpInterface<"SitesOwnerInterface"> {
  let cppNamespace = "::sextant::pos";
  let description = [{
    An op of a model at which encodings act: it carries uses of encodings
    before inlining and sites in its region after it. The block of the region
    has one argument per operand of `getParams`, of the same type.
  }];
  let methods = [
    InterfaceMethod<"Uses that are not inlined yet, or null.",
      "::mlir::ArrayAttr", "getPendingUses", (ins), "",
      [{ return $_op.getUsesAttr(); }]>,
    InterfaceMethod<"Replaces the uses, once they are linked.", "void", "setPendingUses",
      (ins "::mlir::ArrayAttr":$uses), "", [{ $_op.setUsesAttr(uses); }]>,
    InterfaceMethod<"Forgets the uses, once they are inlined.", "void", "clearPendingUses",
      (ins), "", [{ $_op.removeUsesAttr(); }]>,
    InterfaceMethod<"Parameters, in the order of use, then of declaration.",
      "::mlir::OperandRange", "getParamOperands", (ins), "",
      [{ return $_op.getParams(); }]>,
    InterfaceMethod<"The region of the sites.", "::mlir::Region &", "getSitesRegion",
      (ins), "", [{ return $_op.getBody(); }]>,
    InterfaceMethod<"Whether explicit positions are given.", "bool", "hasPositions",
      (ins)>,
    InterfaceMethod<"An extent that is known now, or nothing.",
      "::std::optional<int64_t>", "getStaticExtent", (ins "::sextant::pos::Extent":$extent)>,
    InterfaceMethod<"Whether there are scores, a softmax of them and its "
                    "log-sum-exp.",
      "bool", "hasScores", (ins), "", [{ return false; }]>,
    InterfaceMethod<"The factor on the product of query and key.", "double",
      "getEffectiveScale", (ins)>
  ];
}

#endif // SEXTANT_POS_INTERFACES_TD

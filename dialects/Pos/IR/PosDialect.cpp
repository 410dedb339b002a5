//===- PosDialect.cpp - Registration of the pos dialect -------------------===//
//
// This file registers the pos dialect, parses its lists of keywords, and keeps
// constants inside of payloads.
//
//===----------------------------------------------------------------------===//

#include "dialects/Pos/IR/Pos.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FoldInterfaces.h"
#include "mlir/Transforms/InliningUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sextant::pos;

#include "dialects/Pos/IR/PosDialect.cpp.inc"
#include "dialects/Pos/IR/PosEnums.cpp.inc"
#include "dialects/Pos/IR/PosInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Pos/IR/PosAttrs.cpp.inc"

//===----------------------------------------------------------------------===//
// Lists of keywords: [query, key]
//===----------------------------------------------------------------------===//

template <typename AttrTy, typename EnumTy>
static ParseResult parseKeywords(OpAsmParser &parser, ArrayAttr &list,
                                 std::optional<EnumTy> (*symbolize)(StringRef),
                                 StringRef what) {
  SmallVector<Attribute> values;
  auto parseOne = [&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    StringRef keyword;
    if (parser.parseKeyword(&keyword))
      return failure();
    std::optional<EnumTy> value = symbolize(keyword);
    if (!value)
      return parser.emitError(loc, "unknown ")
             << what << " '" << keyword << "'";
    values.push_back(AttrTy::get(parser.getContext(), *value));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  list = parser.getBuilder().getArrayAttr(values);
  return success();
}

template <typename AttrTy>
static void printKeywords(OpAsmPrinter &printer, ArrayAttr list) {
  printer << "[";
  llvm::interleaveComma(list.getAsRange<AttrTy>(), printer,
                        [&](AttrTy value) { printer << value.getValue(); });
  printer << "]";
}

static ParseResult parseRowOperands(OpAsmParser &parser, ArrayAttr &list) {
  return parseKeywords<RowOperandAttr, RowOperand>(
      parser, list, symbolizeRowOperand, "operand");
}
static void printRowOperands(OpAsmPrinter &printer, Operation *,
                             ArrayAttr list) {
  printKeywords<RowOperandAttr>(printer, list);
}
static ParseResult parseAxes(OpAsmParser &parser, ArrayAttr &list) {
  return parseKeywords<AxisAttr, Axis>(parser, list, symbolizeAxis, "axis");
}
static void printAxes(OpAsmPrinter &printer, Operation *, ArrayAttr list) {
  printKeywords<AxisAttr>(printer, list);
}

//===----------------------------------------------------------------------===//
// Grouping: a keyword, or an option in parentheses
//===----------------------------------------------------------------------===//

static ParseResult
parseGrouping(OpAsmParser &parser, GroupingAttr &grouping,
              std::optional<OpAsmParser::UnresolvedOperand> &option) {
  if (succeeded(parser.parseOptionalKeyword("grouping"))) {
    option.emplace();
    return failure(parser.parseLParen() || parser.parseOperand(*option) ||
                   parser.parseRParen());
  }
  FailureOr<Grouping> value = FieldParser<Grouping>::parse(parser);
  if (failed(value))
    return failure();
  grouping = GroupingAttr::get(parser.getContext(), *value);
  return success();
}
static void printGrouping(OpAsmPrinter &printer, Operation *,
                          GroupingAttr grouping, Value option) {
  if (grouping)
    printer << stringifyGrouping(grouping.getValue());
  else
    printer << "grouping(" << option << ")";
}

#define GET_OP_CLASSES
#include "dialects/Pos/IR/PosOps.cpp.inc"

namespace {
/// Keeps constants inside payloads: canonicalisation would otherwise hoist them
/// into the attention op's own region, next to the sites.
struct PosFoldInterface : DialectFoldInterface {
  using DialectFoldInterface::DialectFoldInterface;
  bool shouldMaterializeInto(Region *region) const final {
    return isa<SiteOpInterface, PayloadOpInterface, HoistOp>(
        region->getParentOp());
  }
};

/// Lets functions in which attention stands be inlined.
struct PosInlinerInterface : DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;
  bool isLegalToInline(Operation *, Region *, bool, IRMapping &) const final {
    return true;
  }
};
} // namespace

void PosDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Pos/IR/PosAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Pos/IR/PosOps.cpp.inc"
      >();
  addInterfaces<PosFoldInterface, PosInlinerInterface>();
}

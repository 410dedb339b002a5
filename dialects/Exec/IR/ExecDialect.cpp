//===- ExecDialect.cpp - Registration and verification of exec ------------===//
//
// Verifiers here check what ODS cannot say: that sizes match dynamic
// dimensions, and that a description of an operator's arguments fits its
// operands.
//
//===----------------------------------------------------------------------===//

#include "dialects/Exec/IR/Exec.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::exec;

#include "dialects/Exec/IR/ExecDialect.cpp.inc"
#include "dialects/Exec/IR/ExecEnums.cpp.inc"

// A list that may be empty, which the declarative format cannot say.
static ParseResult parseNumbers(AsmParser &parser,
                                SmallVectorImpl<int64_t> &numbers) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
    return parser.parseInteger(numbers.emplace_back());
  });
}

static void printNumbers(AsmPrinter &printer, ArrayRef<int64_t> numbers) {
  printer << '[';
  llvm::interleaveComma(numbers, printer);
  printer << ']';
}

#define GET_ATTRDEF_CLASSES
#include "dialects/Exec/IR/ExecAttrs.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/Exec/IR/ExecOps.cpp.inc"

void ExecDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Exec/IR/ExecAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Exec/IR/ExecOps.cpp.inc"
      >();
}

LogicalResult AllocOp::verify() {
  auto type = cast<RankedTensorType>(getType());
  if (getSizes().size() != static_cast<size_t>(type.getNumDynamicDims()))
    return emitOpError("expected one size per dynamic dimension: ")
           << type.getNumDynamicDims() << ", got " << getSizes().size();
  return success();
}

LogicalResult DistanceOp::verify() {
  auto type = cast<RankedTensorType>(getSource().getType());
  for (int64_t dim : getDims())
    if (dim < 0 || dim >= type.getRank())
      return emitOpError("expected dimensions of ") << type << ", got " << dim;
  return success();
}

LogicalResult CheckDataOp::verify() {
  auto type = cast<RankedTensorType>(getSource().getType());
  if (type.getRank() != 1 || type.isDynamicDim(0))
    return emitOpError("expected a vector of a static size, got ") << type;
  if (getNumber() >= static_cast<uint64_t>(type.getDimSize(0)))
    return emitOpError("expected an element of ")
           << type << ", got number " << static_cast<int64_t>(getNumber());
  return success();
}

/// The description of an operator's arguments must fit the operands.
static LogicalResult verifyArgument(DenseOp op, size_t position,
                                    Attribute argument) {
  auto check = [&](int64_t number, bool tensor) -> LogicalResult {
    if (number < 0 || number >= static_cast<int64_t>(op.getOperands().size()))
      return op.emitOpError("argument ")
             << position << " names operand " << number << " of "
             << op.getOperands().size();
    Type type = op.getOperands()[number].getType();
    if (tensor ? !isa<RankedTensorType>(type) : !type.isIndex())
      return op.emitOpError("argument ")
             << position << " must be "
             << (tensor ? "a ranked tensor" : "an index") << " but operand "
             << number << " is " << type;
    return success();
  };
  auto checkAll = [&](ArrayRef<int64_t> numbers, bool tensor) {
    return success(llvm::all_of(numbers, [&](int64_t number) {
      return succeeded(check(number, tensor));
    }));
  };
  return TypeSwitch<Attribute, LogicalResult>(argument)
      .Case([&](TensorAttr attr) { return check(attr.getNumber(), true); })
      .Case([&](TensorsAttr attr) { return checkAll(attr.getNumbers(), true); })
      .Case([&](exec::IntegerAttr attr) {
        return check(attr.getNumber(), false);
      })
      .Case([&](exec::IntegersAttr attr) {
        return checkAll(attr.getNumbers(), false);
      })
      .Case<mlir::BoolAttr, mlir::StringAttr, mlir::UnitAttr,
            mlir::DenseI64ArrayAttr>([](Attribute) { return success(); })
      .Case([&](mlir::IntegerAttr attr) -> LogicalResult {
        if (attr.getType().isInteger(64))
          return success();
        return op.emitOpError("argument ")
               << position << " must be an i64 but is " << attr.getType();
      })
      .Case([&](mlir::FloatAttr attr) -> LogicalResult {
        if (attr.getType().isF64())
          return success();
        return op.emitOpError("argument ")
               << position << " must be an f64 but is " << attr.getType();
      })
      .Case([&](mlir::TypeAttr attr) -> LogicalResult {
        if (attr.getValue().isIntOrFloat())
          return success();
        return op.emitOpError("argument ")
               << position << " must be an element type but is "
               << attr.getValue();
      })
      .Default([&](Attribute attr) {
        return op.emitOpError("argument ")
               << position << " cannot be passed to an operator: " << attr;
      });
}

LogicalResult DenseOp::verify() {
  for (auto [position, argument] : llvm::enumerate(getArguments()))
    if (failed(verifyArgument(*this, position, argument)))
      return failure();
  return success();
}

LogicalResult ViewOp::verify() {
  auto source = cast<RankedTensorType>(getSource().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  if (source.getElementType() != result.getElementType())
    return emitOpError("expected a result of ")
           << source.getElementType() << ", got " << result.getElementType();
  if (getSizes().size() != static_cast<size_t>(result.getNumDynamicDims()))
    return emitOpError("expected one size per dynamic dimension: ")
           << result.getNumDynamicDims() << ", got " << getSizes().size();
  if (std::optional<ArrayRef<int64_t>> permutation = getPermutation()) {
    if (permutation->size() != static_cast<size_t>(source.getRank()))
      return emitOpError("expected a permutation of ")
             << source.getRank() << " dimensions, got " << permutation->size();
    SmallVector<bool> seen(source.getRank(), false);
    for (int64_t dim : *permutation) {
      if (dim < 0 || dim >= source.getRank() || seen[dim])
        return emitOpError("dimension ")
               << dim << " of the permutation is out of range or repeated";
      seen[dim] = true;
    }
  }
  return success();
}

LogicalResult ParameterOp::verify() {
  auto type = dyn_cast<RankedTensorType>(getType());
  if (!type || !type.hasStaticShape())
    return emitOpError("expected a tensor type of static shape, got ")
           << getType();
  size_t expected = getInit() == Init::given      ? 0
                    : getInit() == Init::constant ? 1
                                                  : 2;
  size_t given = getInitArgs() ? getInitArgs()->size() : 0;
  if (given != expected)
    return emitOpError("expected ")
           << expected << " numbers after init " << stringifyInit(getInit())
           << ", got " << given;
  if (getValues() && getValues()->getType() != getType())
    return emitOpError("expected values of ")
           << getType() << ", got " << getValues()->getType();
  return success();
}

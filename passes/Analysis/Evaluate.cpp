//===- Evaluate.cpp - Compile-time values of a definition -----------------===//
//
// The folders of arith and math compute in the type of their constants. So the
// definition is copied, every f32 of the copy becomes f64, and ops are folded
// one after the other with the constants found so far.
//
//===----------------------------------------------------------------------===//

#include "passes/Analysis/Evaluate.h"
#include "dialects/Pos/IR/Literals.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

/// Makes every f32 of an op, its attributes and its regions an f64.
static void computeInDouble(Operation *op) {
  Builder builder(op->getContext());
  AttrTypeReplacer replacer;
  replacer.addReplacement(
      [&](Float32Type) -> std::optional<Type> { return builder.getF64Type(); });
  replacer.addReplacement([&](FloatAttr attr) -> std::optional<Attribute> {
    if (!attr.getType().isF32())
      return std::nullopt;
    return builder.getF64FloatAttr(attr.getValueAsDouble());
  });
  replacer.recursivelyReplaceElementsIn(op, /*replaceAttrs=*/true,
                                        /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
  op->walk([](arith::ConstantOp constant) {
    if (auto exact = dyn_cast_or_null<FloatAttr>(pos::getExact(constant)))
      constant.setValueAttr(exact);
  });
}

Evaluator::Evaluator(pos::EncodingOp definition, Resolver resolver)
    : resolver(std::move(resolver)) {
  copy = cast<pos::EncodingOp>(definition->clone(copyOf));
  computeInDouble(*copy);
}

Evaluator::Resolver Evaluator::withExtents(
    std::function<std::optional<int64_t>(pos::Extent)> extents) {
  return [extents = std::move(extents)](Operation *op,
                                        ArrayRef<Attribute>) -> Attribute {
    auto extent = dyn_cast<pos::ExtentOp>(op);
    if (!extent)
      return {};
    std::optional<int64_t> value = extents(extent.getExtent());
    if (!value)
      return {};
    return Builder(op->getContext())
        .getI32IntegerAttr(static_cast<int32_t>(*value));
  };
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// The integer next to a number, 0 for NaN.
static Attribute foldToInteger(Operation &op, FloatAttr number, bool isSigned) {
  auto type = cast<IntegerType>(op.getResult(0).getType());
  APSInt whole(type.getWidth(), /*isUnsigned=*/!isSigned);
  bool isExact;
  // Saturates, and gives 0 for NaN.
  (void)number.getValue().convertToInteger(whole, APFloat::rmTowardZero,
                                           &isExact);
  return IntegerAttr::get(type, whole);
}

/// What folders leave alone: ops with integer results where a processor has no
/// value for them, with the value that the text of `pos.encoding` states.
static Attribute foldUndefined(Operation &op, ArrayRef<Attribute> operands) {
  if (isa<arith::FPToSIOp, arith::FPToUIOp>(op))
    if (auto number = dyn_cast_or_null<FloatAttr>(operands[0]))
      return foldToInteger(op, number, isa<arith::FPToSIOp>(op));
  if (operands.size() != 2)
    return {};
  auto left = dyn_cast_or_null<IntegerAttr>(operands[0]);
  auto right = dyn_cast_or_null<IntegerAttr>(operands[1]);
  if (!left || !right)
    return {};
  APInt a = left.getValue(), b = right.getValue();
  auto give = [&](APInt value) -> Attribute {
    return IntegerAttr::get(left.getType(), value);
  };
  APInt zero = APInt::getZero(a.getBitWidth());
  if (isa<arith::ShLIOp, arith::ShRUIOp>(op))
    return give(zero);
  if (isa<arith::ShRSIOp>(op))
    return give(a.isNegative() ? APInt::getAllOnes(a.getBitWidth()) : zero);
  if (isa<arith::RemSIOp, arith::RemUIOp>(op))
    return give(b.isZero() ? a : zero);
  if (isa<arith::DivSIOp, arith::FloorDivSIOp, arith::CeilDivSIOp,
          arith::DivUIOp, arith::CeilDivUIOp>(op))
    return give(b.isZero() ? zero : a); // the least integer by -1 wraps
  return {};
}

Attribute Evaluator::lookup(Value value) {
  if (Attribute known = values.lookup(value))
    return known;
  Operation *op = value.getDefiningOp();
  if (!op || failed(run(*op)))
    return {};
  return values.lookup(value);
}

/// Runs an op whose operands are looked up on demand.
LogicalResult Evaluator::run(Operation &op) {
  if (auto sum = dyn_cast<pos::SumOp>(op))
    return runSum(sum);
  SmallVector<Attribute> operands;
  for (Value operand : op.getOperands()) {
    // Tensors are asked for by whoever reads them.
    bool isTensor = isa<ShapedType>(operand.getType());
    operands.push_back(isTensor ? Attribute() : lookup(operand));
    if (!isTensor && !operands.back())
      return failure();
  }
  if (op.getNumResults() == 1)
    if (Attribute value = resolver(&op, operands)) {
      values[op.getResult(0)] = value;
      return success();
    }
  SmallVector<OpFoldResult> folded;
  // A fold in place (operands swapped, say) may make the next one succeed.
  for (int attempt = 0; attempt < 3 && folded.empty(); ++attempt)
    if (failed(op.fold(operands, folded)))
      break;
  if (folded.empty())
    if (Attribute value = foldUndefined(op, operands)) {
      values[op.getResult(0)] = value;
      return success();
    }
  if (folded.size() != op.getNumResults() || folded.empty()) {
    unknown = &op;
    return failure();
  }
  for (auto [result, value] : llvm::zip_equal(op.getResults(), folded)) {
    auto constant = dyn_cast<Attribute>(value);
    if (!constant)
      constant = lookup(cast<Value>(value));
    if (!constant || !isa<IntegerAttr, FloatAttr>(constant)) {
      unknown = &op;
      return failure();
    }
    values[result] = constant;
  }
  return success();
}

LogicalResult Evaluator::runSum(pos::SumOp sum) {
  auto count = dyn_cast_or_null<IntegerAttr>(lookup(sum.getCount()));
  if (!count)
    return failure();
  Builder builder(sum.getContext());
  double total = 0;
  for (int64_t k = 0; k < count.getInt(); ++k) {
    SmallVector<Attribute> term = runBlock(
        sum.getBody().front(), builder.getI32IntegerAttr(static_cast<int>(k)));
    if (term.empty())
      return failure();
    total += cast<FloatAttr>(term.front()).getValueAsDouble();
  }
  values[sum.getResult()] = builder.getF64FloatAttr(total);
  return success();
}

SmallVector<Attribute> Evaluator::runBlock(Block &block,
                                           ArrayRef<Attribute> arguments) {
  for (auto [argument, value] :
       llvm::zip_equal(block.getArguments(), arguments))
    values[argument] = value;
  for (Operation &op : block.without_terminator())
    if (failed(run(op)))
      return {};
  SmallVector<Attribute> yielded;
  for (Value value : block.getTerminator()->getOperands()) {
    yielded.push_back(lookup(value));
    if (!yielded.back())
      return {};
  }
  return yielded;
}

Attribute Evaluator::evaluate(Value value) {
  return lookup(copyOf.lookup(value));
}

SmallVector<Attribute> Evaluator::evaluate(Block &block,
                                           ArrayRef<Attribute> arguments) {
  return runBlock(*copyOf.lookup(&block), arguments);
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

SmallVector<int64_t> Evaluator::getIntegers(ValueRange values) {
  return llvm::map_to_vector(values, [&](Value value) -> int64_t {
    auto known = dyn_cast_or_null<IntegerAttr>(evaluate(value));
    return known ? known.getInt() : -1;
  });
}

SmallVector<int64_t> Evaluator::getSizes(pos::ParamOp param) {
  return getIntegers(param.getDims());
}

SmallVector<int64_t> Evaluator::getSizes(pos::InputOp input) {
  if (!input.getDims().empty())
    return getIntegers(input.getDims());
  return llvm::map_to_vector(
      cast<RankedTensorType>(input.getType()).getShape(),
      [](int64_t size) { return ShapedType::isDynamic(size) ? -1 : size; });
}

FailureOr<std::vector<double>>
Evaluator::getInitialValues(pos::ParamOp param, ArrayRef<int64_t> sizes) {
  int64_t count = 1;
  for (int64_t size : sizes)
    count *= size;
  Builder builder(param.getContext());
  SmallVector<int64_t> index(sizes.size(), 0);
  std::vector<double> elements;
  elements.reserve(count);
  for (int64_t i = 0; i < count; ++i) {
    SmallVector<Attribute> arguments;
    for (int64_t position : index)
      arguments.push_back(
          builder.getI32IntegerAttr(static_cast<int32_t>(position)));
    SmallVector<Attribute> element =
        evaluate(param.getInitBody().front(), arguments);
    if (element.empty()) {
      InFlightDiagnostic diag = param.emitOpError("initial value of '")
                                << param.getName()
                                << "' is not known at compile time";
      if (unknown)
        diag.attachNote(unknown->getLoc())
            << "'" << unknown->getName() << "' cannot be evaluated";
      return diag;
    }
    elements.push_back(cast<FloatAttr>(element.front()).getValueAsDouble());
    for (size_t dim = sizes.size(); dim-- > 0;) {
      if (++index[dim] < sizes[dim])
        break;
      index[dim] = 0;
    }
  }
  return elements;
}

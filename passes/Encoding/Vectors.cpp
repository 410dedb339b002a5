//===- Vectors.cpp - Extents of the vectors of a payload ------------------===//
//
// Types are found from the score's argument downwards: a contraction has one
// element per row of its matrix, an elementwise op as many as its operands.
// Scalar payloads and payloads of whole rows are left alone.
//
//===----------------------------------------------------------------------===//

#include "passes/Encoding/Vectors.h"
#include "dialects/Pos/IR/Literals.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

RankedTensorType passes::getHeadsType(pos::SitesOwnerInterface owner) {
  std::optional<int64_t> heads = owner.getStaticExtent(pos::Extent::heads);
  if (!heads)
    return {};
  return RankedTensorType::get({*heads}, Float32Type::get(owner->getContext()));
}

static int64_t getExtent(Value vector) {
  return cast<RankedTensorType>(vector.getType()).getDimSize(0);
}

static void setExtent(Value vector, int64_t extent) {
  auto type = cast<RankedTensorType>(vector.getType());
  vector.setType(RankedTensorType::get({extent}, type.getElementType()));
}

namespace {
/// Makes the vectors of one score static, op by op.
class Resolver {
public:
  Resolver(pos::SitesOwnerInterface owner, const ParamSizes &sizes,
           RankedTensorType heads)
      : owner(owner), sizes(sizes), heads(heads) {}

  LogicalResult resolve(Operation &op);

private:
  LogicalResult resolveContract(pos::ContractOp contract);
  LogicalResult resolveSplat(tensor::SplatOp splat);
  LogicalResult resolveElementwise(Operation &op);
  LogicalResult askForElements(Operation &op);
  std::optional<int64_t> getConstant(Value value);

  pos::SitesOwnerInterface owner;
  const ParamSizes &sizes;
  RankedTensorType heads;
};
} // namespace

/// A number that is known now, by constants and extents.
std::optional<int64_t> Resolver::getConstant(Value value) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return constant.getSExtValue();
  Operation *op = value.getDefiningOp();
  if (auto extent = dyn_cast_or_null<pos::ExtentOp>(op))
    return owner.getStaticExtent(extent.getExtent());
  if (auto cast = dyn_cast_or_null<arith::IndexCastOp>(op))
    return getConstant(cast.getIn());
  return std::nullopt;
}

/// A parameter that stands for its elements is asked for them.
LogicalResult Resolver::askForElements(Operation &op) {
  if (isa<pos::ReadOp>(op))
    return success();
  OpBuilder builder(&op);
  for (OpOperand &operand : op.getOpOperands()) {
    auto known = sizes.find(operand.get());
    if (known == sizes.end() || known->second.size() != 1)
      continue;
    int64_t extent = known->second.front();
    if (extent < 0)
      return op.emitOpError("uses a parameter as a vector whose extent is not "
                            "known at compile time");
    Type element = cast<ShapedType>(operand.get().getType()).getElementType();
    if (!isa<FloatType>(element))
      return op.emitOpError("uses a parameter of ")
             << element << " as a vector; read its elements";
    operand.set(pos::ElementsOp::create(
        builder, op.getLoc(),
        RankedTensorType::get({extent}, builder.getF32Type()), operand.get()));
  }
  return success();
}

LogicalResult Resolver::resolveContract(pos::ContractOp contract) {
  auto known = sizes.find(contract.getMatrix());
  if (known == sizes.end())
    return contract.emitOpError("matrix must be a parameter");
  int64_t rows = known->second[0], columns = known->second[1];
  if (rows < 0 || columns < 0)
    return contract.emitOpError("extents of the matrix must be known at "
                                "compile time");
  int64_t elements = getExtent(contract.getVector()), first = 0;
  if (Value from = contract.getFirstColumn()) {
    std::optional<int64_t> constant = getConstant(from);
    if (!constant)
      return contract.emitOpError("first column must be known at compile time");
    first = *constant;
    OpBuilder builder(contract);
    contract.getFirstColumnMutable().assign(arith::ConstantOp::create(
        builder, contract.getLoc(), builder.getI32IntegerAttr(first)));
  }
  bool fits = contract.getFirstColumn()
                  ? first >= 0 && first + elements <= columns
                  : elements == columns;
  if (!fits)
    return contract.emitOpError("a vector of ")
           << elements << " elements does not fit a matrix of " << columns
           << " columns from column " << first << " on (M2)";
  setExtent(contract.getResult(), rows);
  return success();
}

/// Makes a constant of the splat of a number that f32 does not hold, before the
/// folders see the rounded one alone.
static void foldExactSplat(tensor::SplatOp splat) {
  auto scalar = splat.getInput().getDefiningOp<arith::ConstantOp>();
  TypedAttr exact = scalar ? pos::getExact(scalar) : TypedAttr();
  if (!exact)
    return;
  auto type = cast<RankedTensorType>(splat.getType());
  auto rounded = DenseElementsAttr::get(type, scalar.getValue());
  OpBuilder builder(splat);
  auto vector = arith::ConstantOp::create(builder, splat.getLoc(), rounded);
  pos::keepExact(
      vector, rounded,
      DenseElementsAttr::get(type.clone(exact.getType()), Attribute(exact)));
  splat.replaceAllUsesWith(vector.getResult());
  splat.erase();
}

LogicalResult Resolver::resolveSplat(tensor::SplatOp splat) {
  if (!splat.getDynamicSizes().empty()) {
    Value size = splat.getDynamicSizes().front();
    std::optional<int64_t> extent = getConstant(size);
    if (!extent || *extent < 0)
      return splat.emitOpError("extent must be known at compile time");
    splat.getDynamicSizesMutable().clear();
    setExtent(splat.getResult(), *extent);
  }
  foldExactSplat(splat);
  return success();
}

LogicalResult Resolver::resolveElementwise(Operation &op) {
  std::optional<int64_t> extent;
  for (Value operand : op.getOperands()) {
    if (!isa<RankedTensorType>(operand.getType()))
      continue;
    if (extent && *extent != getExtent(operand))
      return op.emitOpError("combines vectors of ")
             << *extent << " and " << getExtent(operand) << " elements";
    extent = getExtent(operand);
  }
  if (extent)
    for (Value result : op.getResults())
      setExtent(result, *extent);
  return success();
}

LogicalResult Resolver::resolve(Operation &op) {
  if (op.hasTrait<OpTrait::ConstantLike>())
    return success();
  if (failed(askForElements(op)))
    return failure();
  if (auto contract = dyn_cast<pos::ContractOp>(op))
    return resolveContract(contract);
  if (auto splat = dyn_cast<tensor::SplatOp>(op))
    return resolveSplat(splat);
  if (isa<pos::ForHeadsOp, pos::HostOp>(op)) {
    op.getResult(0).setType(heads);
    return success();
  }
  if (OpTrait::hasElementwiseMappableTraits(&op))
    return resolveElementwise(op);
  return success();
}

LogicalResult passes::resolveVectors(pos::ScoreOp score,
                                     pos::SitesOwnerInterface owner,
                                     const ParamSizes &sizes) {
  Block &payload = score.getPayload();
  BlockArgument argument = payload.getArgument(0);
  if (!isa<RankedTensorType>(argument.getType()))
    return success();
  RankedTensorType heads = getHeadsType(owner);
  if (!heads) {
    InFlightDiagnostic diag = score.emitOpError(
        "sees all heads at once: the number of heads is compiled in");
    diag.attachNote(owner->getLoc())
        << "the type of this query leaves its heads open";
    return diag;
  }
  argument.setType(heads);
  Resolver resolver(owner, sizes, heads);
  for (Operation &op : llvm::make_early_inc_range(payload))
    if (failed(resolver.resolve(op)))
      return failure();
  Value yielded = payload.getTerminator()->getOperand(0);
  if (yielded.getType() != heads)
    return score.emitOpError("payload yields ")
           << getExtent(yielded) << " scores for " << heads.getDimSize(0)
           << " heads";
  // What said the extents of splats is not needed any more.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(payload)))
    if (isa<arith::IndexCastOp>(op) && op.use_empty())
      op.erase();
  return success();
}

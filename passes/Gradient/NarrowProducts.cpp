//===- NarrowProducts.cpp - Products of narrow operands -------------------===//
//
// Operands of products become narrow where they are read, and results become
// wide behind them. Ops that keep elements as they are, and functions of single
// elements, follow in the narrow type, so that the next product has its operand
// as it wants it.
//
//===----------------------------------------------------------------------===//

#include "dialects/Interfaces/ProductOpInterface.h"
#include "dialects/Nn/IR/Nn.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/Gradient/Gradient.h"

namespace sextant::passes {
#define GEN_PASS_DEF_NARROWPRODUCTS
#include "passes/Gradient/Gradient.h.inc"
} // namespace sextant::passes

using namespace mlir;
using namespace sextant;

static bool isWide(Value value) {
  return isa<RankedTensorType>(value.getType()) &&
         getElementTypeOrSelf(value.getType()).isF32();
}

namespace {
/// The values of one function.
class Narrowing {
public:
  Narrowing(FloatType narrow, MLIRContext *context)
      : narrow(narrow), builder(context) {}

  /// Whether products of `op` are narrow from here on.
  bool narrowProducts(Operation *op, ProductOpInterface product);
  /// Whether `op`, which keeps elements, follows its operands.
  bool follow(Operation *op);
  /// Erases casts that nothing reads.
  void finish();

private:
  Type getType(Value value) {
    return cast<RankedTensorType>(value.getType()).clone(narrow);
  }
  Value getNarrow(Value value);
  void widen(OpResult result);

  FloatType narrow;
  OpBuilder builder;
  DenseMap<Value, Value> narrowed; ///< of a value of f32
  DenseSet<Value> exact;           ///< values that are narrow ones, widened
  SmallVector<nn::CastOp> widened;
};
} // namespace

Value Narrowing::getNarrow(Value value) {
  Value &found = narrowed[value];
  if (!found) {
    builder.setInsertionPointAfterValue(value);
    found = nn::CastOp::create(builder, value.getLoc(), getType(value), value);
  }
  return found;
}

void Narrowing::widen(OpResult result) {
  Type wide = result.getType();
  result.setType(getType(result));
  builder.setInsertionPointAfterValue(result);
  auto cast = nn::CastOp::create(builder, result.getLoc(), wide, result);
  result.replaceAllUsesExcept(cast, cast);
  narrowed[cast] = result;
  exact.insert(cast);
  widened.push_back(cast);
}

bool Narrowing::narrowProducts(Operation *op, ProductOpInterface product) {
  SmallVector<OpOperand *> operands;
  for (OpOperand &operand : op->getOpOperands())
    if (product.isMultiplied(operand))
      operands.push_back(&operand);
  if (!llvm::all_of(operands, [](OpOperand *o) { return isWide(o->get()); }))
    return false;
  for (OpOperand *operand : operands)
    operand->set(getNarrow(operand->get()));
  for (OpResult result : op->getResults())
    if (product.isOfProducts(result))
      widen(result);
  return true;
}

bool Narrowing::follow(Operation *op) {
  auto isTensor = [](Value value) {
    return isa<RankedTensorType>(value.getType());
  };
  for (Value operand : op->getOperands())
    if (isTensor(operand) && !exact.contains(operand))
      return false;
  for (OpOperand &operand : op->getOpOperands())
    if (isTensor(operand.get()))
      operand.set(narrowed[operand.get()]);
  for (OpResult result : op->getResults())
    widen(result);
  return true;
}

void Narrowing::finish() {
  for (nn::CastOp cast : llvm::reverse(widened))
    if (cast.use_empty())
      cast.erase();
}

namespace {
/// Narrows one function after the other.
struct NarrowProducts : passes::impl::NarrowProductsBase<NarrowProducts> {
  using NarrowProductsBase::NarrowProductsBase;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(visit(function)))
        return signalPassFailure();
  }

private:
  LogicalResult visit(func::FuncOp function) {
    Attribute wanted = function->getAttr(nn::kProductsAttr);
    if (!wanted || function.isExternal())
      return success();
    auto type = dyn_cast<TypeAttr>(wanted);
    if (!type || !isa<BFloat16Type, Float16Type>(type.getValue()))
      return function.emitOpError("expected bf16 or f16 as '")
             << nn::kProductsAttr << "', got " << wanted;
    Narrowing narrowing(cast<FloatType>(type.getValue()), &getContext());
    for (Block &block : function.getBody())
      for (Operation &op : llvm::make_early_inc_range(block)) {
        if (auto product = dyn_cast<ProductOpInterface>(op))
          numProducts += narrowing.narrowProducts(&op, product);
        else if (op.hasTrait<nn::FollowsElements>())
          numFollowing += narrowing.follow(&op);
      }
    narrowing.finish();
    return success();
  }
};
} // namespace

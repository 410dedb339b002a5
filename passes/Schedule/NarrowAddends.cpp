//===- NarrowAddends.cpp - Sums that widen an addend themselves -----------===//
//
// ATen's sum of an f32 tensor and one of half the width is of f32: each element
// is widened as it is read, exactly. A residual stream thus takes what a narrow
// product gives without a pass over memory that writes it in f32 first.
//
//===----------------------------------------------------------------------===//

#include "passes/Schedule/NarrowAddends.h"
#include "dialects/Nn/IR/Nn.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace sextant;

/// Numbers of rank 0 take no part in ATen's promotion beside tensors.
static bool isTensorOf(Value value, llvm::function_ref<bool(Type)> isElement) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() > 0 && isElement(type.getElementType());
}

static bool isWide(Value value) {
  return isTensorOf(value, [](Type type) { return type.isF32(); });
}

static bool isNarrow(Value value) {
  return isTensorOf(
      value, [](Type type) { return isa<BFloat16Type, Float16Type>(type); });
}

/// Whether the op needs nothing of the cast that its operand does not have,
/// too.
static bool canReadNarrow(Operation *user, nn::CastOp cast) {
  if (isa<tensor::DimOp>(user))
    return true;
  auto sum = dyn_cast<nn::AddOp>(user);
  if (!sum)
    return false;
  bool isLeft = sum.getLeft() == cast.getResult();
  Value other = isLeft ? sum.getRight() : sum.getLeft();
  return other != cast.getResult() && isWide(other);
}

void passes::readNarrowAddends(Block &block) {
  for (nn::CastOp cast : llvm::make_early_inc_range(block.getOps<nn::CastOp>()))
    if (isWide(cast.getResult()) && isNarrow(cast.getInput()) &&
        llvm::all_of(cast->getUsers(), [&](Operation *user) {
          return canReadNarrow(user, cast);
        })) {
      cast.getResult().replaceAllUsesWith(cast.getInput());
      cast.erase();
    }
}

//===- ReverseMode.cpp - Reverse-mode differentiation of a block ----------===//
//
// A value is active if it depends on an input through tensors of floats and no
// op that stops gradients. Ops are visited from last to first; the cotangents
// of active values add up.
//
//===----------------------------------------------------------------------===//

#include "passes/Gradient/ReverseMode.h"
#include "dialects/Interfaces/DifferentiableOpInterface.h"
#include "dialects/Nn/IR/Nn.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace sextant;

static bool isFloatTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && isa<FloatType>(tensor.getElementType());
}

namespace {
/// The cotangents of all values of a block so far.
class BlockCotangents : public Cotangents {
public:
  BlockCotangents(Block &block, ValueRange inputs) {
    active.insert(inputs.begin(), inputs.end());
    for (Operation &op : block)
      if (!op.hasTrait<nn::StopsGradients>() &&
          llvm::any_of(op.getOperands(),
                       [&](Value v) { return active.contains(v); }))
        for (Value result : op.getResults())
          if (isFloatTensor(result.getType()))
            active.insert(result);
  }

  Value get(Value value) const { return cotangents.lookup(value); }

  void add(OpBuilder &builder, Location loc, Value value, Value cotangent) {
    if (cotangent.getType() != value.getType())
      cotangent =
          tensor::CastOp::create(builder, loc, value.getType(), cotangent);
    Value &sum = cotangents[value];
    sum = sum ? Value(nn::AddOp::create(builder, loc, sum, cotangent))
              : cotangent;
  }

  bool reaches(Operation &op) const {
    return llvm::any_of(op.getResults(),
                        [&](Value result) { return get(result) != nullptr; });
  }

  Value of(OpResult result) override { return get(result); }
  bool wants(OpOperand &operand) override {
    return active.contains(operand.get());
  }
  void give(OpBuilder &builder, OpOperand &operand, Value cotangent) override {
    add(builder, operand.getOwner()->getLoc(), operand.get(), cotangent);
  }

private:
  llvm::DenseSet<Value> active;
  llvm::DenseMap<Value, Value> cotangents;
};
} // namespace

FailureOr<SmallVector<Value>> passes::appendGradients(Block &block, Value loss,
                                                      ValueRange inputs,
                                                      unsigned &count) {
  OpBuilder builder(block.getTerminator());
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator()))
    if (auto differentiable = dyn_cast<DifferentiableOpInterface>(op))
      differentiable.keepForGradients(builder);
  BlockCotangents cotangents(block, inputs);
  SmallVector<Operation *> ops;
  for (Operation &op : block.without_terminator())
    ops.push_back(&op);

  Location loc = loss.getLoc();
  cotangents.add(builder, loc, loss, createFilledLike(builder, loc, loss, 1.0));
  for (Operation *op : llvm::reverse(ops)) {
    bool wanted = llvm::any_of(op->getOpOperands(), [&](OpOperand &operand) {
      return cotangents.wants(operand);
    });
    if (!wanted || !cotangents.reaches(*op))
      continue;
    auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
    if (!differentiable) {
      InFlightDiagnostic diag =
          op->emitOpError("has no derivative, but the gradient of a parameter "
                          "passes through it");
      diag.attachNote(loc) << "of this loss";
      return diag;
    }
    if (failed(differentiable.buildGradients(builder, cotangents)))
      return failure();
    ++count;
  }

  SmallVector<Value> gradients;
  for (Value input : inputs) {
    Value gradient = cotangents.get(input);
    gradients.push_back(gradient ? gradient
                                 : createFilledLike(builder, loc, input, 0.0));
  }
  return gradients;
}

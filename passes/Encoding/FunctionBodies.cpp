//===- FunctionBodies.cpp - What functions of encodings consist of --------===//
//
// Ops are looked at in their order, so that the number of a round is a constant
// before a choice that depends on it is met.
//
//===----------------------------------------------------------------------===//

#include "passes/Encoding/FunctionBodies.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace sextant;

/// Rounds beyond which a loop is taken for a mistake: each is program text.
static constexpr uint64_t kMostRounds = 1024;

void passes::inlineHelpers(func::FuncOp function, pos::EncodingOp encoding) {
  SmallVector<func::CallOp> calls;
  auto collect = [&](Operation *op) {
    op->walk([&](func::CallOp call) { calls.push_back(call); });
  };
  collect(function);
  while (!calls.empty()) {
    func::CallOp call = calls.pop_back_val();
    auto helper = encoding.lookupSymbol<func::FuncOp>(call.getCallee());
    IRMapping mapping;
    mapping.map(helper.getArguments(), call.getOperands());
    OpBuilder builder(call);
    for (Operation &op : helper.front().without_terminator())
      collect(builder.clone(op, mapping));
    for (auto [result, value] : llvm::zip_equal(
             call.getResults(), helper.front().getTerminator()->getOperands()))
      result.replaceAllUsesWith(mapping.lookupOrDefault(value));
    call.erase();
  }
}

/// Copies the ops of a block before `op`; gives what the block yields.
static SmallVector<Value> copyBody(Block &body, Operation *op,
                                   IRMapping &mapping) {
  OpBuilder builder(op);
  for (Operation &inner : body.without_terminator())
    builder.clone(inner, mapping);
  return llvm::map_to_vector(
      body.getTerminator()->getOperands(),
      [&](Value value) { return mapping.lookupOrDefault(value); });
}

/// Erases an op for which `values` stand; gives the op that follows `before`.
static Operation *replace(Operation *op, ValueRange values, Operation *before) {
  Block *block = op->getBlock();
  op->replaceAllUsesWith(values);
  op->erase();
  return before ? before->getNextNode() : &block->front();
}

static Operation *expandIf(scf::IfOp choice) {
  APInt condition;
  if (!matchPattern(choice.getCondition(), m_ConstantInt(&condition)))
    return choice;
  Operation *before = choice->getPrevNode();
  Block *chosen = condition.isZero() ? choice.elseBlock() : choice.thenBlock();
  IRMapping mapping;
  SmallVector<Value> values;
  if (chosen)
    values = copyBody(*chosen, choice, mapping);
  return replace(choice, values, before);
}

static Operation *expandFor(scf::ForOp loop) {
  APInt low, high, step;
  if (!matchPattern(loop.getLowerBound(), m_ConstantInt(&low)) ||
      !matchPattern(loop.getUpperBound(), m_ConstantInt(&high)) ||
      !matchPattern(loop.getStep(), m_ConstantInt(&step)) ||
      !step.isStrictlyPositive())
    return loop;
  // Between the bounds may lie more than 63 bits hold: unsigned numbers.
  uint64_t first = low.getSExtValue(), by = step.getSExtValue(), rounds = 0;
  if (low.slt(high))
    rounds = (high.getSExtValue() - first - 1) / by + 1;
  if (rounds > kMostRounds)
    return loop;
  Operation *before = loop->getPrevNode();
  OpBuilder builder(loop);
  SmallVector<Value> carried(loop.getInitArgs());
  for (uint64_t round = 0; round < rounds; ++round) {
    IRMapping mapping;
    Value number = arith::ConstantOp::create(
        builder, loop.getLoc(),
        builder.getIntegerAttr(loop.getInductionVar().getType(),
                               static_cast<int64_t>(first + round * by)));
    mapping.map(loop.getInductionVar(), number);
    mapping.map(loop.getRegionIterArgs(), carried);
    carried = copyBody(*loop.getBody(), loop, mapping);
  }
  return replace(loop, carried, before);
}

Operation *passes::expandControlFlow(Operation *op) {
  if (auto choice = dyn_cast<scf::IfOp>(op))
    return expandIf(choice);
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return expandFor(loop);
  return op;
}

/// Replaces an op on integers by the constant that it is.
static void foldIntegers(Operation *op, OpBuilder &builder) {
  if (op->getNumResults() != 1 || op->hasTrait<OpTrait::ConstantLike>() ||
      !op->getResult(0).getType().isIntOrIndex())
    return;
  builder.setInsertionPoint(op);
  SmallVector<Value> folded;
  if (succeeded(builder.tryFold(op, folded)))
    op->replaceAllUsesWith(folded);
}

void passes::foldControlFlow(func::FuncOp function) {
  OpBuilder builder(function.getContext());
  Operation *op = &function.front().front();
  while (op) {
    Operation *next = expandControlFlow(op);
    if (next == op) {
      next = op->getNextNode();
      foldIntegers(op, builder);
    }
    op = next;
  }
}

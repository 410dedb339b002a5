//===- BlockKernel.cpp - Kernels whose items blocks run -------------------===//

#include "codegen/CUDA/Sm80/BlockKernel.h"
#include "codegen/CUDA/Sm80/FragmentOperands.h"
#include "codegen/Emit/KernelNumber.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include <cmath>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Folds what pullbacks ask of constants, such as whether a divisor is zero.
static void foldChoices(ThreadBuilder &thread, Operation *function) {
  OpBuilder &builder = thread.kernel.builder;
  OpBuilder::InsertionGuard guard(builder);
  SmallVector<Operation *> found;
  function->walk([&](Operation *op) {
    if (isa<arith::CmpFOp, arith::SelectOp>(op))
      found.push_back(op);
  });
  for (Operation *op : found) {
    builder.setInsertionPoint(op);
    SmallVector<Value> results;
    if (failed(builder.tryFold(op, results)) || results.empty())
      continue;
    op->replaceAllUsesWith(results);
    op->erase();
  }
}

/// Payloads of scores take functions that a GPU has an instruction for by that,
/// and multiply where they divide by a constant.
static void approximate(ThreadBuilder &thread) {
  OpBuilder &builder = thread.kernel.builder;
  Operation *function = builder.getInsertionBlock()->getParentOp();
  foldChoices(thread, function);
  SmallVector<Operation *> found;
  function->walk([&](Operation *op) {
    if (isa<math::TanhOp, arith::DivFOp>(op) &&
        op->getResult(0).getType().isF32())
      found.push_back(op);
  });
  OpBuilder::InsertionGuard guard(builder);
  for (Operation *op : found) {
    builder.setInsertionPoint(op);
    Value result;
    if (auto tanh = dyn_cast<math::TanhOp>(op)) {
      result = thread.tanh(tanh.getOperand());
    } else {
      FloatAttr divisor;
      if (!matchPattern(op->getOperand(1), m_Constant(&divisor)))
        continue;
      double factor = 1.0 / divisor.getValueAsDouble();
      if (!std::isnormal(static_cast<float>(factor)))
        continue;
      result = thread.kernel.mulF(op->getOperand(0),
                                  thread.kernel.constantF32(factor));
    }
    op->getResult(0).replaceAllUsesWith(result);
    op->erase();
  }
}

void codegen::createBlockKernel(const Lowering &lowering, StringRef suffix,
                                const KernelOperands &operands,
                                const BlockShape &block,
                                const BlockBody &body) {
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value) {
    ThreadBuilder thread(kernel, lowering.kernels, block,
                         getRowElement(lowering.plan));
    body.run(thread, arguments, items);
    approximate(thread);
  };
  VectorTarget ofThread;
  ofThread.width = 1;
  ofThread.flushingCall = emitWarpCall;
  createKernel(lowering, suffix, operands, ofThread,
               {body.items, noScratch, run});
  auto createSize = [&](StringRef name, int64_t value) {
    createNumber(
        lowering, lowering.getKernelName(suffix) + name, operands, ofThread,
        [&](KernelBuilder &, ArgumentBlock &) { return Index(value); });
  };
  createSize("_threads", block.countThreads());
  createSize("_shared", block.sharedBytes);
  createSize("_scores", body.scores);
}

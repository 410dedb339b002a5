//===- BlockKernel.cpp - Kernels whose items blocks run -------------------===//

#include "codegen/CUDA/Sm80/BlockKernel.h"
#include "codegen/CUDA/Sm80/FragmentOperands.h"
#include "codegen/CUDA/Sm80/PayloadMath.h"
#include "codegen/Emit/KernelNumber.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

void codegen::createBlockKernel(const Lowering &lowering, StringRef suffix,
                                const KernelOperands &operands,
                                const BlockShape &block,
                                const BlockBody &body) {
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value) {
    ThreadBuilder thread(kernel, lowering.kernels, block,
                         getRowElement(lowering.plan));
    body.run(thread, arguments, items);
    usePayloadInstructions(thread);
  };
  VectorTarget ofThread;
  ofThread.width = 1;
  ofThread.isThread = true;
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

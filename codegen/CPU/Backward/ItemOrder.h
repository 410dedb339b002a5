//===- ItemOrder.h - Items that add to the same rows in turn ----*- C++ -*-===//
//
// Work items of different keys add to the same copy of dQ, as many items apart
// as there are copies. They do it in the order of their numbers, so that the
// bits of the sum do not depend on threads: block of queries by block, each
// when the item before it has done with the block. As many threads as copies
// hardly ever wait; more threads stay blocks behind each other. Sums over
// scores are too large, where they are of offsets, for each item to have its
// own: an item begins when the one that had its sums before has ended.
//
// Whoever is to run an item takes the first that nobody has begun. So what an
// item waits for is being run by another thread or has ended, however items are
// handed out, and the first of those that run waits for nothing.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_BACKWARD_ITEMORDER_H
#define SEXTANT_CODEGEN_CPU_BACKWARD_ITEMORDER_H

#include "codegen/CPU/Backward/BackwardItem.h"

namespace sextant::codegen {

/// The turns of the item where the code stands.
class ItemOrder {
public:
  explicit ItemOrder(BackwardItem &at)
      : at(at), progress(at.launch.order->progress) {}

  /// Waits until the item's sums are free.
  void begin();
  /// Waits until the item may add to dQ of the block.
  void awaitTurn();
  /// Tells the next item that it may.
  void endTurn();
  /// Hands the sums on.
  void end();

private:
  void await(Index before, Index blocks);
  mlir::Value getProgress(Index item);
  Index getBlock() { return kernel.div(at.firstQuery, at.shape.queries); }

  BackwardItem &at;
  KernelBuilder &kernel = at.kernel;
  ArgumentBlock &arguments = at.arguments;
  unsigned progress; ///< operand of BackwardLaunch::Order
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_BACKWARD_ITEMORDER_H

//===- BackwardItem.h - What the parts of a backward share ------*- C++ -*-===//
//
// A backward is written by parts with one duty each. They share the builder,
// the memory of a work item, and the place where the emitted code stands.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDITEM_H
#define SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDITEM_H

#include "codegen/CPU/Backward/BackwardLaunch.h"
#include "codegen/Emit/ScratchLayout.h"

namespace sextant::codegen {

/// What the parts of a backward share while one work item is written.
struct BackwardItem {
  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const BackwardLaunch &launch;
  ScratchMemory &scratch;

  const BackwardShape &shape = launch.shape;
  mlir::Value mappedRow = {}; ///< f32, while a row is mapped

  // Where the emitted code stands.
  Index batch = 0, kvHead = 0, head = 0;
  Index chunk = 0, part = 0; ///< of the tiles of keys, of the blocks of queries
  Index firstKey = 0, keyCount = 0, panelCount = 0; ///< of the tile
  Index place = 0; ///< of the tile among those that are kept
  Index firstQuery = 0, queryCount = 0, groupEnd = 0; ///< of the block

  /// Memory of the item, in 32-bit words.
  mlir::Value reserve(int64_t words, llvm::StringRef name = "other") {
    return scratch.at(kernel, scratch.layout.reserve(words, name));
  }
  /// Likewise, of what products read most: near where there is such memory.
  mlir::Value reserveNear(int64_t words, llvm::StringRef name) {
    return scratch.at(kernel, scratch.layout.reserveHeld(words, name));
  }
  /// The item's sums over scores, of which each item of a head has its own, or
  /// for a while, where items take turns.
  Index getSum() {
    if (launch.order)
      return kernel.rem(chunk, countSums());
    return kernel.add(kernel.mul(chunk, countParts()), part);
  }
  /// Where items take turns.
  Index countSums() {
    return kernel.min(arguments.getSize(launch.order->progress, 1),
                      BackwardLaunch::Order::mostSums);
  }
  /// Its copy of dQ, likewise.
  Index getCopy() {
    Index copies = arguments.getSize(*launch.queryGradient, 0);
    return launch.order ? kernel.rem(chunk, copies) : chunk;
  }
  /// Parts of the queries.
  Index countParts() {
    return launch.keyRows ? arguments.getSize(*launch.keyRows, 0) : Index(1);
  }
  /// Blocks of the item's part of the queries, or of so many rows.
  void forEachBlock(llvm::function_ref<void(mlir::Value first)> body) {
    forEachBlock(getLength(pos::Side::query), body);
  }
  void forEachBlock(Index rows,
                    llvm::function_ref<void(mlir::Value first)> body) {
    kernel.loop(kernel.mul(part, shape.queries), rows,
                kernel.mul(countParts(), shape.queries), body);
  }
  /// Clears the item's part of sums [chunks, B, H, padded queries, row].
  void clearRows(unsigned tensor, Index firstHead, Index heads) {
    Index row = arguments.getSize(tensor, 4);
    if (!launch.keyRows)
      return kernel.clear(
          arguments.getAddress(tensor, {chunk, batch, firstHead}),
          kernel.mul(heads, kernel.mul(arguments.getSize(tensor, 3), row)));
    kernel.loop(
        firstHead, kernel.add(firstHead, heads), 1, [&](mlir::Value number) {
          forEachBlock(arguments.getSize(tensor, 3), [&](mlir::Value first) {
            kernel.clear(
                arguments.getAddress(tensor, {chunk, batch, number, first}),
                kernel.mul(row, shape.queries));
          });
        });
  }
  /// Likewise, of one head the block of queries where the code stands.
  void clearBlock(unsigned tensor) {
    kernel.clear(arguments.getAddress(tensor, {chunk, batch, head, firstQuery}),
                 kernel.mul(arguments.getSize(tensor, 4), shape.queries));
  }
  /// The first key of the item's first tile.
  Index getFirstKey() { return kernel.mul(chunk, shape.keys); }
  Index getLength(pos::Side side) {
    bool isKey = side == pos::Side::key;
    return arguments.getSize(isKey ? launch.sites.key : launch.sites.query, 2);
  }
  void enterTile(Index first) {
    firstKey = first;
    keyCount =
        kernel.min(shape.keys, kernel.sub(getLength(pos::Side::key), first));
    panelCount =
        shape.panels == 1 ? Index(1) : kernel.ceilDiv(keyCount, shape.panel);
  }
  void enterBlock(Index first) {
    firstQuery = first;
    queryCount = kernel.min(shape.queries,
                            kernel.sub(getLength(pos::Side::query), first));
    groupEnd = kernel.roundUp(queryCount, shape.countQueriesTogether());
  }
  /// Sums of the moments of functions of hinges, one per plan.hinges; null
  /// where they are not wanted.
  llvm::SmallVector<mlir::Value> getHingeMoments() {
    llvm::SmallVector<mlir::Value> moments;
    for (const PartialSum &sum : launch.hingeMoments)
      moments.push_back(
          sum ? arguments.getAddress(*sum, {getSum(), batch, head})
              : mlir::Value());
    return moments;
  }
};

/// Adds the kernel `suffix`, whose items (batch, head of the keys, chunk of key
/// tiles, part of the queries) a `LoopNest` writes; an item of scores of all
/// heads is of all heads.
template <typename LoopNest>
void createBackward(const Lowering &lowering, llvm::StringRef suffix,
                    const BackwardLaunch &launch, const VectorTarget &target) {
  ScratchLayout layout(target.near);
  if (!launch.weights) // whose tiles of all heads are too large
    layout.hold(std::min(launch.shape.countNearWords(target.width),
                         target.near.bytes / 4));
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    Index heads = launch.weights ? 1 : arguments.getSize(launch.sites.key, 1);
    Index chunks = launch.order ? arguments.getSize(launch.order->progress, 1)
                                : arguments.getSize(*launch.queryGradient, 0);
    llvm::SmallVector<ItemAxis> axes{arguments.getSize(launch.sites.key, 0),
                                     heads, chunks};
    if (launch.keyRows)
      axes.push_back(arguments.getSize(*launch.keyRows, 0));
    return ItemSpace(kernel, axes);
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, mlir::Value far) {
    ScratchMemory scratch(kernel, layout, far);
    BackwardItem at{kernel, arguments, launch, scratch};
    LoopNest nest(at);
    auto runItem = [&](const Item &item) {
      at.batch = item[0];
      at.kvHead = item[1];
      at.chunk = item[2];
      if (launch.keyRows)
        at.part = item[3];
      nest.emitItem();
    };
    if (!launch.order)
      return items.forEach(runItem);
    auto take = [&]() -> Index {
      return kernel.countUp(arguments.getAddress(launch.order->begun, {0}));
    };
    items.forEachTaken(take, runItem);
  };
  // Called after `run`, which hands the memory out.
  auto scratchBytes = [&](KernelBuilder &, ArgumentBlock &) {
    return Index(layout.getBytes());
  };
  auto nearBytes = [&] { return layout.getNearBytes(); };
  createKernel(lowering, suffix, launch.operands, target,
               {items, scratchBytes, run, nearBytes});
  layout.tell(lowering, suffix);
}

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDITEM_H

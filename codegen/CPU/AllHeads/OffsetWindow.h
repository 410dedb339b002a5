//===- OffsetWindow.h - The offsets of one block, staged --------*- C++ -*-===//
//
// A payload of all heads reads tables over offsets row after row: dozens of
// streams, in pages and cache sets that nobody chose. Before a block the
// entries that its offsets need are copied to scratch memory, at a stride of an
// odd number of cache lines. Sums of gradients are collected likewise, and
// added to the tables' gradients after the block.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_ALLHEADS_OFFSETWINDOW_H
#define SEXTANT_CODEGEN_CPU_ALLHEADS_OFFSETWINDOW_H

#include "codegen/Emit/ScratchLayout.h"
#include "codegen/Rows/PartialSum.h"
#include "codegen/Tables/AllHeadsWeights.h"
#include "codegen/Tiles/TilePoint.h"

namespace sextant::codegen {

/// The offset tables of f32 of one plan, when no positions are given.
class OffsetWindow {
public:
  /// Reserves memory for windows of `length` entries, a multiple of a vector.
  OffsetWindow(KernelBuilder &kernel, ArgumentBlock &arguments,
               const KernelPlan &plan, const SiteOperands &operands,
               int64_t length, ScratchMemory &scratch);

  /// Whether the window holds a table.
  bool holds(pos::HoistOp hoist) const { return find(hoist); }
  /// The address of an entry of a row, in the window.
  mlir::Value getEntry(pos::HoistOp hoist, Index row, Index entry);

  /// Copies entries first .. first + length - 1 of all tables.
  void load(Index batch, Index first);
  /// Adds the window to the tensors [chunks, B, rows, T] of partial sums, one
  /// per plan.hoisted.
  void addTo(llvm::ArrayRef<PartialSum> sums, Index chunk, Index batch,
             Index first);
  void clear();

private:
  struct Rows {
    const Hoisted *hoisted;
    unsigned number; ///< of plan.hoisted
    int64_t first, count;
  };
  const Rows *find(pos::HoistOp hoist) const;
  void forVectors(llvm::function_ref<void(const Rows &, Index row, Index entry,
                                          mlir::Value inWindow)>
                      body);

  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const SiteOperands &operands;
  int64_t length, stride;
  llvm::SmallVector<Rows> tables;
  mlir::Value memory;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_ALLHEADS_OFFSETWINDOW_H

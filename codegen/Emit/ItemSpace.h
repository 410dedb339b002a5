//===- ItemSpace.h - The work items of a kernel as points -------*- C++ -*-===//
//
// Items are counted by one number. The space of a kernel says how many there
// are, and where an item stands on axes such as batch, head and rows:
//
//   number = (place0 * count1 + place1) * count2 + place2
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_EMIT_ITEMSPACE_H
#define SEXTANT_CODEGEN_EMIT_ITEMSPACE_H

#include "codegen/Emit/KernelBuilder.h"

namespace sextant::codegen {

/// `extent` elements, of which an item takes up to `step`.
struct ItemAxis {
  ItemAxis(Index extent, Index step = 1) : extent(extent), step(step) {}
  Index extent, step;
};

/// Where an item stands.
class Item {
public:
  Item(KernelBuilder &kernel, llvm::ArrayRef<ItemAxis> axes, Index number);

  /// The first element of an axis that belongs to the item.
  Index operator[](unsigned axis) const { return first[axis]; }
  /// The element after the last one.
  Index end(unsigned axis) const;

private:
  KernelBuilder &kernel;
  llvm::ArrayRef<ItemAxis> axes;
  llvm::SmallVector<Index, 4> first;
};

/// The axes along which the work items of a kernel are numbered.
class ItemSpace {
public:
  ItemSpace(KernelBuilder &kernel, llvm::ArrayRef<ItemAxis> axes)
      : kernel(kernel), axes(axes) {}

  Index count() const;

private:
  friend struct Items;
  KernelBuilder &kernel;
  llvm::SmallVector<ItemAxis, 4> axes;
};

/// The items begin .. end - 1 of a kernel, which may be none.
struct Items {
  llvm::function_ref<ItemSpace()> getSpace;
  Index begin, end;

  /// Runs `body` for each of them.
  void forEach(llvm::function_ref<void(const Item &)> body) const;
  /// Runs `body` for as many items, whose numbers `take` gives: where threads
  /// agree on them, no item is begun before those that it waits for.
  void forEachTaken(llvm::function_ref<Index()> take,
                    llvm::function_ref<void(const Item &)> body) const;
};

/// The elements of a sum's operand for place `at` of a result with the given
/// extent: an extent of 1 stands for the sum over `all`.
KernelBuilder::Range getSummed(KernelBuilder &kernel, Index extent, Index at,
                               Index all);

/// The vector at `from` plus those at the next places, `step` words apart, of
/// `count` places: partial sums in the order of their chunks.
mlir::Value loadSum(KernelBuilder &kernel, mlir::Value from, Index count,
                    Index step);

/// `initial` (f64) plus the addends (f32 or f64) at all points of nested loops,
/// one after the other.
mlir::Value
sumOver(KernelBuilder &kernel, llvm::ArrayRef<KernelBuilder::Range> ranges,
        mlir::Value initial,
        llvm::function_ref<mlir::Value(mlir::ValueRange point)> addend);

/// The vector at `from`, of which `count` lanes exist and are wanted; what
/// others hold is left open. An addend of sums.
mlir::Value loadAddend(KernelBuilder &kernel, mlir::VectorType type,
                       mlir::Value from, Index count);

/// `sumOver` of addends that are loads and no more: as many of them as the
/// target wants at once stand before the first addition.
mlir::Value
sumLoaded(KernelBuilder &kernel, llvm::ArrayRef<KernelBuilder::Range> ranges,
          mlir::Value initial,
          llvm::function_ref<mlir::Value(mlir::ValueRange point)> load);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_EMIT_ITEMSPACE_H

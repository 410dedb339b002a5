//===- OffsetTile.h - Values of offsets of a register tile ------*- C++ -*-===//
//
// Under given positions a hoisted value over offsets is gathered from its table
// or, where the table does not hold the offsets in use, computed. Both happen
// in a loop over a register tile of scores before its payloads, which load the
// values from scratch memory: one copy of the value's code serves both targets
// of the choice, which is the same for a whole call.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TILES_OFFSETTILE_H
#define SEXTANT_CODEGEN_TILES_OFFSETTILE_H

#include "codegen/Tiles/TilePoint.h"

namespace sextant::codegen {

/// The hoisted values over offsets that score and mask use; none without
/// positions.
llvm::SmallVector<const Hoisted *> getCellHoists(const KernelPlan &plan);

/// Values over offsets of a register tile, looked up or computed.
class OffsetTile {
public:
  /// `memory` has room for `getCellHoists` times `rows` rows of `vectors`
  /// vectors, 32-bit words.
  OffsetTile(KernelBuilder &kernel, ArgumentBlock &arguments,
             const KernelPlan &plan, const SiteOperands &operands,
             mlir::Value memory, int64_t rows, int64_t vectors);

  /// Fills the memory. `moveTo` moves `point` to a vector of a row of the tile.
  void fill(TilePoint &point,
            llvm::function_ref<void(Index row, Index vector)> moveTo);

  /// The value of a hoist at a place of the memory: row * panel + lane.
  mlir::Value load(pos::HoistOp hoist, Index place) const;

private:
  void fillFrom(TilePoint &point, TilePoint::Offsets source,
                llvm::function_ref<void(Index row, Index vector)> moveTo);

  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const SiteOperands &operands;
  llvm::SmallVector<const Hoisted *> hoists;
  mlir::Value memory;
  int64_t rows, vectors;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TILES_OFFSETTILE_H

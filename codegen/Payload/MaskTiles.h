//===- MaskTiles.h - What a mask says of a whole tile -----------*- C++ -*-===//
//
// A kernel skips tiles in which no query sees a key, and leaves the mask out of
// tiles in which every query sees every key. Which ones these are depends on
// lengths and positions, so the question is answered by emitted code: interval
// arithmetic over the payload of the mask.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_PAYLOAD_MASKTILES_H
#define SEXTANT_CODEGEN_PAYLOAD_MASKTILES_H

#include "dialects/Pos/IR/Pos.h"

namespace sextant::codegen {

/// Two i1: whether all pairs of the tile are visible for certain, and whether
/// any may be. A null value stands for "unknown": not certain, and possible.
struct TileClass {
  mlir::Value certain, possible;
};

/// The range of a hoisted value over the tile; unknown where the kernel cannot
/// tell.
using HoistedRange =
    llvm::function_ref<pos::ValueRange32(mlir::OpBuilder &, pos::HoistOp)>;

/// Emits the class of a tile of at least one pair. Ops without a rule are
/// unknown, never an error.
TileClass emitTileClass(mlir::OpBuilder &builder, pos::MaskOp mask,
                        pos::TileBounds &tile, HoistedRange hoisted);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_PAYLOAD_MASKTILES_H

//===- RegisterTile.h - A product kept in vector registers ------*- C++ -*-===//
//
// Every product of the CPU kernels is a call of this emitter: rows of scalars
// that are broadcast, times vectors, summed over a contraction.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TILES_REGISTERTILE_H
#define SEXTANT_CODEGEN_TILES_REGISTERTILE_H

#include "codegen/Emit/KernelBuilder.h"
#include <functional>

namespace sextant::codegen {

/// A row of scalars: element k is at pointer[offset + k * rowStep].
struct TileRow {
  mlir::Value pointer;
  int64_t offset = 0;
};

/// `count` rows that begin `distance` elements apart.
llvm::SmallVector<TileRow> getTileRows(mlir::Value first, int64_t count,
                                       int64_t distance);

/// sum over k < count of broadcast(rows[r][k]) * vector(base + k * vectorStep
/// + v * width), for each row r and vector v.
struct RegisterTile {
  llvm::ArrayRef<TileRow> rows;
  Index rowStep = 1;
  mlir::Value base;
  Index vectorStep = 1;
  int64_t vectors = 2;
  /// From a vector of a step to the next; 0: the width.
  int64_t vectorDistance = 0;
  /// Vectors are bf16, which are widened; steps count 32-bit words.
  bool widens = false;
  /// From a lane of a vector to the next: of an operand that lies transposed.
  int64_t laneStep = 1;
  /// Bytes to which the pointers of rows are aligned, where lanes are threads:
  /// scalars that lie together are then loaded together, of neighbouring steps
  /// or of neighbouring rows.
  int64_t alignment = 4;
  Index count = 0;
  int64_t unroll = 4;
  /// The count is a multiple of `unroll`.
  bool isWhole = false;
  /// Elements are pairs of bf16 (32-bit units), products are dots.
  bool pairs = false;
  /// Written before every `unroll` steps, of which it takes the first.
  std::function<void(Index step)> meanwhile;
};

/// Emits the product on top of `initial`; results and `initial` are numbered
/// r * vectors + v.
KernelBuilder::Values emitTile(KernelBuilder &kernel, const RegisterTile &tile,
                               mlir::ValueRange initial);

/// Adds the product to vectors in memory: that of row r and vector v is at
/// to[r * stride + v * width].
void addTile(KernelBuilder &kernel, const RegisterTile &tile, mlir::Value to,
             int64_t stride);

/// Adds products to whole rows of `length` elements, `tile.vectors` vectors at
/// a time: `tile.base` and `to` are those of the first.
void addRows(KernelBuilder &kernel, RegisterTile tile, mlir::Value to,
             int64_t length);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TILES_REGISTERTILE_H

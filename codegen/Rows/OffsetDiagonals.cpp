//===- OffsetDiagonals.cpp - Products read along diagonals ----------------===//

#include "codegen/Rows/OffsetDiagonals.h"
#include "codegen/Tiles/RegisterTile.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

void OffsetPanel::emitEntries(KernelBuilder &kernel, Value from, Index low,
                              Index high, Value entries) const {
  kernel.loop(low, high, rows, [&](Value entry) {
    Value first = kernel.advance(from, {kernel.mul(entry, shape.row)});
    SmallVector<TileRow> tileRows = getTileRows(first, rows, shape.row);
    RegisterTile tile;
    tile.rows = tileRows;
    tile.base = packed;
    tile.vectorStep = getWidth();
    tile.vectors = vectors;
    tile.count = shape.dim;
    Values sums =
        emitTile(kernel, tile, Values(rows * vectors, kernel.splatF32(0.0)));
    Value to = kernel.advance(entries, {kernel.mul(entry, getWidth())});
    for (auto [number, sum] : llvm::enumerate(sums))
      kernel.storeVector(sum, to,
                         {static_cast<int64_t>(number) * kernel.width()});
  });
}

void OffsetPanel::emitDiagonals(KernelBuilder &kernel, Value entries,
                                Value cells) const {
  int64_t width = kernel.width(), panel = getWidth();
  for (int64_t v = 0; v < vectors; ++v) {
    // Lane l of row r is in entry first + width - 1 + r - l.
    int64_t first = panel - v * width - (width - 1);
    Value from = kernel.advance(entries, {first * panel});
    Values shifted;
    for (int64_t m = 0; m < width - 1 + rows; ++m)
      shifted.push_back(kernel.loadVector(from, {m * panel + v * width}));
    int64_t known = 0; // rows below have no value any more
    for (int64_t step = width / 2; step > 0; step /= 2) {
      SmallVector<bool> moves;
      for (int64_t lane = 0; lane < width; ++lane)
        moves.push_back((lane & step) != 0);
      Value isMoved = kernel.constant(
          DenseElementsAttr::get(kernel.vi1, ArrayRef<bool>(moves)));
      known += step;
      for (int64_t m = shifted.size() - 1; m >= known; --m)
        shifted[m] = kernel.selectF(isMoved, shifted[m - step], shifted[m]);
    }
    for (int64_t r = 0; r < rows; ++r)
      kernel.storeVector(shifted[width - 1 + r], cells,
                         {r * panel + v * width});
  }
}

//===- BackwardTile.cpp - Tiles of a backward on tensor cores -------------===//
//
// A thread has 255 registers. Of each block of 16 keys it holds half a register
// per lane of dK and dV, and a register per query of the tile for P and dP,
// more if a payload is not a sum. A warp with two blocks loads rows of queries
// from shared memory half as often for as many products.
//
//===----------------------------------------------------------------------===//

#include "codegen/CUDA/Sm80/BackwardTile.h"

using namespace sextant::codegen;

namespace {
struct TileShape {
  int64_t warps, blocks, queries;
  int64_t mostSums; ///< registers of sums that leave room for the rest
};
} // namespace

/// The best first. The last one fits whatever the dims are, if dV takes a pass
/// of its own.
static constexpr TileShape tileShapes[] = {
    {4, 2, 32, 192}, {8, 1, 64, 192}, {8, 1, 32, 176}, {4, 1, 32, 176}};

BackwardTile::BackwardTile(int64_t headDim, llvm::ArrayRef<int64_t> valueDims,
                           int64_t offsetWindows, int64_t queryWindows,
                           const SumWords &sums, int64_t sharedBytes,
                           bool readsQuerySums)
    : head(headDim), sums(sums) {
  rowSide = pos::Side::key;
  this->offsetWindows = offsetWindows;
  columnWindows = queryWindows;
  for (int64_t dim : valueDims)
    values.push_back(dim);
  for (bool splits : {false, true})
    for (const TileShape &shape : tileShapes) {
      isSplit = splits;
      warps = shape.warps;
      blocks = shape.blocks;
      columns = shape.queries;
      if (countRegisters() > shape.mostSums)
        continue;
      keepsQuerySums = readsQuerySums;
      if (keepsQuerySums && getBlock().findRoom(sharedBytes))
        return;
      keepsQuerySums = false;
      if (getBlock().sharedBytes <= sharedBytes)
        return;
    }
  warps = 0;
}

int64_t BackwardTile::countRegisters() const {
  int64_t ofValues = 0;
  for (const SharedRowShape &shape : values)
    ofValues += shape.padded;
  int64_t lanes =
      isSplit ? std::max(head.padded, ofValues) : head.padded + ofValues;
  return blocks * (lanes / 2 + columns) + sums.numbers * countScores();
}

int64_t BackwardTile::getRowBytes(int64_t rows, unsigned number) const {
  int64_t bytes = rows * head.getBytes();
  for (unsigned before = 0; before < number; ++before)
    bytes += rows * values[before].getBytes();
  return bytes;
}

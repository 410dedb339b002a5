//===- BackwardTile.cpp - Tiles of a backward on tensor cores -------------===//
//
// A thread has 255 registers. Of each block of 16 keys it holds half a register
// per lane of dK and dV, and a register per query of the tile for P and dP,
// more if a payload is not a sum. A warp with two blocks loads rows of queries
// from shared memory half as often for as many products.
//
// Where the sums of two blocks are too many, warps with two blocks have half of
// the queries each, and share dK and dV out anew (KeyGradientShare.h): at
// d = 128 a product of 16 x 8 x 16 takes 1/2 of a load of four matrices for S
// and dP and 1/4 for dK and dV, where a warp with one block of keys and all
// queries loads 5/8 and 1/2.
//
//===----------------------------------------------------------------------===//

#include "codegen/CUDA/Sm80/BackwardTile.h"

using namespace sextant::codegen;

namespace {
struct TileShape {
  int64_t warps, blocks, queries;
  int64_t mostSums; ///< registers of sums that leave room for the rest
  int64_t columnParts = 1;
};
} // namespace

/// The best first. The last one fits whatever the dims are, if dV takes a pass
/// of its own.
static constexpr TileShape tileShapes[] = {{4, 2, 32, 192},
                                           {8, 2, 64, 192, 2},
                                           {8, 1, 64, 192},
                                           {8, 1, 32, 176},
                                           {4, 1, 32, 176}};

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
      columnParts = shape.columnParts;
      if (countRegisters() > shape.mostSums ||
          (sharesGradients() && !hasEqualGradients()))
        continue;
      keepsQuerySums = readsQuerySums;
      if (keepsQuerySums && getBlock().findRoom(sharedBytes))
        return;
      // What P takes would wait for dQ in place of matrices.
      if (keepsQuerySums && sharesGradients())
        continue;
      keepsQuerySums = false;
      if (getBlock().sharedBytes <= sharedBytes)
        return;
    }
  warps = 0;
}

bool BackwardTile::hasEqualGradients() const {
  return !isSplit && values.size() == 1 &&
         values.front().padded == head.padded &&
         head.padded % (gradientParts * fragmentDepth) == 0;
}

int64_t BackwardTile::countRegisters() const {
  int64_t ofScores = blocks * countWarpColumns() + sums.numbers * countScores();
  if (sharesGradients())
    return countGradientBlocks() * countGradientLanes(head) / 2 + ofScores;
  int64_t ofValues = 0;
  for (const SharedRowShape &shape : values)
    ofValues += shape.padded;
  int64_t lanes =
      isSplit ? std::max(head.padded, ofValues) : head.padded + ofValues;
  return blocks * lanes / 2 + ofScores;
}

int64_t BackwardTile::getRowBytes(int64_t rows, unsigned number) const {
  int64_t bytes = rows * head.getBytes();
  for (unsigned before = 0; before < number; ++before)
    bytes += rows * values[before].getBytes();
  return bytes;
}

//===- ForwardTile.cpp - Tiles of a forward on tensor cores ---------------===//
//
// A thread has 255 registers. Of each block of 16 queries it holds half a
// register per key of the tile and per column of the values; addresses, rows
// and fragments of operands take some 70 more.
//
//===----------------------------------------------------------------------===//

#include "codegen/CUDA/Sm80/ForwardTile.h"

using namespace sextant::codegen;

/// Of sums that are kept in registers.
static constexpr int64_t mostSums = 128;
/// Shared memory that a block may have on a GPU of sm_80.
static constexpr int64_t mostSharedBytes = 163 << 10;

ForwardTile::ForwardTile(int64_t headDim, llvm::ArrayRef<int64_t> valueDims,
                         int64_t offsetWindows, int64_t keyWindows)
    : query(headDim), offsetWindows(offsetWindows), keyWindows(keyWindows) {
  int64_t columns = 0;
  for (int64_t dim : valueDims) {
    values.push_back(dim);
    columns += values.back().padded;
  }
  // Where a warp cannot have two blocks of queries there are more warps, so
  // that as many queries share what is copied.
  if (blocks * (columns + keys) / 2 > mostSums) {
    blocks = 1;
    warps = 8;
  }
  if (blocks * (columns + keys) / 2 > mostSums)
    keys = 32;
  if (getBlock().sharedBytes > mostSharedBytes)
    keys = 32;
  if (getBlock().sharedBytes > mostSharedBytes)
    warps /= 2;
  assert(getBlock().sharedBytes <= mostSharedBytes &&
         "dims are at most `mostTileDims`");
}

int64_t ForwardTile::getValues(unsigned number) const {
  int64_t bytes = keys * query.getBytes();
  for (unsigned before = 0; before < number; ++before)
    bytes += keys * values[before].getBytes();
  return bytes;
}

//===- ForwardTile.cpp - Tiles of a forward on tensor cores ---------------===//
//
// A thread has 255 registers. Of each block of 16 queries it holds half a
// register per key of the tile and per column of the values; addresses, rows
// and fragments of operands take some 70 more. A warp with two blocks loads
// rows of keys and values from shared memory half as often for as many
// products, so tiles have fewer keys before it has one. Then there are more
// warps, so that as many queries share what is copied.
//
//===----------------------------------------------------------------------===//

#include "codegen/CUDA/Sm80/ForwardTile.h"

using namespace sextant::codegen;

namespace {
struct TileShape {
  int64_t warps, blocks, keys;
  int64_t mostSums; ///< registers of sums that leave room for the rest
};
} // namespace

/// The best first.
static constexpr TileShape tileShapes[] = {{4, 2, 64, 128},
                                           {4, 2, 32, 160},
                                           {8, 1, 64, 128},
                                           {8, 1, 32, 160},
                                           {4, 1, 32, 160}};

/// Of few queries: one warp, of which a block has as many as its shared memory
/// holds, each with a tile on its way. A thread of 16 warps has 128 registers:
/// only rows of 32 elements and fewer have so many, and these need 62.
static constexpr TileShape tileOfFew[] = {{1, 1, 32, 160}};
static constexpr int64_t mostParts = 16;

ForwardTile::ForwardTile(int64_t headDim, llvm::ArrayRef<int64_t> valueDims)
    : query(headDim) {
  llvm::append_range(values, valueDims);
}

ForwardTile::ForwardTile(QueryCount count, int64_t headDim,
                         llvm::ArrayRef<int64_t> valueDims,
                         int64_t offsetWindows, int64_t keyWindows,
                         int64_t sharedBytes)
    : ForwardTile(headDim, valueDims) {
  this->offsetWindows = offsetWindows;
  columnWindows = keyWindows;
  bool isFew = count == QueryCount::Few;
  teamThreads = isFew ? 4 : warpLanes;
  int64_t valueColumns = 0;
  for (const SharedRowShape &shape : values)
    valueColumns += shape.padded;
  for (const TileShape &shape :
       isFew ? llvm::ArrayRef(tileOfFew) : llvm::ArrayRef(tileShapes)) {
    warps = shape.warps;
    blocks = shape.blocks;
    columns = shape.keys;
    if (blocks * (valueColumns + columns) / 2 <= shape.mostSums &&
        getBlock().sharedBytes <= sharedBytes) {
      if (isFew)
        fillSharedMemory(sharedBytes);
      return;
    }
  }
  warps = 0;
}

/// Large blocks have less to join in memory: they may leave up to a quarter of
/// the room that a multiprocessor has for warps.
void ForwardTile::fillSharedMemory(int64_t sharedBytes) {
  auto countWarps = [&] {
    return parts * getBlock().countBlocksOfMemory(sharedBytes);
  };
  int64_t most = 0;
  for (parts = 1; parts <= mostParts; ++parts)
    most = std::max(most, countWarps());
  parts = mostParts;
  while (4 * countWarps() < 3 * most)
    --parts;
}

int64_t ForwardTile::getValues(unsigned number) const {
  int64_t bytes = columns * query.getBytes();
  for (unsigned before = 0; before < number; ++before)
    bytes += columns * values[before].getBytes();
  return bytes;
}

/// Of a head dim of 64 a thread holds 128 numbers, which leaves 40 registers of
/// 168.
void ForwardTile::fitThreeBlocks(int64_t sharedBytes) {
  constexpr int64_t mostNumbers = 128;
  int64_t numbers = countScores();
  for (const SharedRowShape &shape : values)
    numbers += blocks * shape.padded / 2;
  BlockShape third = getBlock();
  third.residentBlocks = 3;
  if (warps == 4 && numbers <= mostNumbers && third.findRoom(sharedBytes))
    residentBlocks = third.residentBlocks;
}

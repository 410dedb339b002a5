//===- BackwardShape.h - Sizes of the backward kernel -----------*- C++ -*-===//
//
// The numbers of the backward that are fixed when it is compiled: its register
// tiles, the block of queries and the tile of keys, rows padded to vectors.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TILES_BACKWARDSHAPE_H
#define SEXTANT_CODEGEN_TILES_BACKWARDSHAPE_H

#include "codegen/Tiles/CacheTraffic.h"
#include "codegen/Tiles/RowParts.h"
#include "codegen/Tiles/Terms.h"
#include "codegen/Tiles/UnitProduct.h"
#include <algorithm>

namespace sextant::codegen {

/// Lanes are keys. A tile of keys is cut into panels of one register tile's
/// width; a block of queries into groups of one register tile's rows.
struct BackwardShape {
  BackwardShape(const VectorTarget &target, mlir::Type element,
                llvm::ArrayRef<int64_t> headDims,
                llvm::ArrayRef<int64_t> valueDims)
      : dot(target.bf16Dot && element.isBF16()),
        isTiled(target.matrixUnit && (dot || element.isF32())),
        headParts(headDims, target, dot), valueParts(valueDims, target, dot),
        headDim(headParts.getDim()), valueDim(valueParts.getDim()) {
    bool wide = target.hasManyRegisters();
    rows = wide ? 8 : 4;
    vectors = wide ? 2 : 3;
    rowVectors = vectors;
    panel = vectors * target.width;
    // A 32-bit unit of bf16 holds two values, so a vector of units has twice
    // as many; the loop over a contraction takes four steps at a time.
    int64_t unit = hasPairs() ? 2 * target.width : target.width;
    headRow = llvm::alignTo(headDim, unit);
    valueRow = llvm::alignTo(valueDim, unit);
    int64_t fitting = tileWords / getWordsPerKey();
    panels = std::clamp<int64_t>(
        fitting / panel, llvm::divideCeil(leastKeys, panel), mostKeys / panel);
    keys = panels * panel;
    stride = keys + target.width;
    keyStride = panel;
    probabilityStride = stride;
    if (target.near.bytes)
      fitNearMemory(target);
  }

  /// What products read and write for a block of queries: K and V of the tile
  /// in panels and their gradients, Q and dO, P, and dS with its edges.
  int64_t countNearWords(int64_t width) const {
    return headRow * keyStride + valueRow * panel +
           (headRow + valueRow) * (panel + queries) +
           queries * probabilityStride + (queries + 1) * stride + width;
  }

  /// For scores of all of so many heads: tiles of one panel, of which some are
  /// kept at once, and blocks of whole vectors, as windows of their offsets
  /// are. A small cache is enough where few bytes pass then (CacheTraffic.h).
  void keepTilesOfAllHeads(int64_t heads) {
    queries = llvm::alignTo(queries, stride - keys);
    panels = 1;
    stride += panel - keys;
    keys = panel;
    keyStride = panel;
    sharesKeys = false;
    if (isNear)
      return;
    for (int64_t cache : {secondCache, largeSecondCache})
      for (queries = paddedRows; queries >= fewQueries; queries /= 2) {
        // An eighth is for what payloads keep.
        keepFittingTiles(cache / heads * 7 / 8);
        if (hasSmallTraffic(3 * leastFlopsPerByte / 2))
          return;
      }
    // What is too much then is fetched again, but that alone: blocks take their
    // tiles back and forth.
    for (queries = fewQueries;; queries /= 2) {
      keepFittingTiles(largeSecondCache / heads);
      if (queries == countFewestQueries() ||
          hasSmallTraffic(9 * leastFlopsPerByte / 8))
        return;
    }
  }

  /// For scans, which go over the keys twice, with all queries each time: tiles
  /// as long as there is room for, with their scores, in a second cache.
  void keepKeysOfScans() {
    if (isNear)
      return;
    int64_t words = secondCache / 4 * 7 / 8;
    int64_t ofBlock = queries * (headRow + valueRow + 2 * (stride - keys));
    int64_t fitting = (words - ofBlock) / (getWordsPerKey() + 2 * queries);
    panels = std::clamp(fitting / panel, panels, 2 * mostKeys / panel);
    stride += panels * panel - keys;
    keys = panels * panel;
    probabilityStride = stride;
  }

  /// What a tile keeps of a key while queries pass: K and V in panels, K in
  /// slabs, dK and dV.
  int64_t getWordsPerKey() const {
    int64_t copies = unpacksKeys ? 1 : 2;
    return (copies * headRow + valueRow) * countTerms() / perStep() + headRow +
           valueRow;
  }

  /// Whether products of scores of all heads can read rows of f32 where they
  /// are: a product of columns reads whole groups of lanes.
  bool readsInPlace(const RowParts &parts) const {
    return parts.isSingle() && parts.getDim() % rows == 0;
  }

  /// Queries of a block are computed to a multiple of these.
  int64_t countQueriesTogether() const {
    return isTiled ? UnitProduct::block : rows;
  }

  /// Rows of a step of a contraction over queries or keys.
  int64_t perStep() const { return hasPairs() ? 2 : 1; }

  /// Whether products are of pairs of bf16: of rows of them, or of the terms of
  /// rows of f32.
  bool hasPairs() const { return dot || isTiled; }
  bool hasTerms() const { return isTiled && !dot; }
  /// How many operands of bf16 stand for one.
  int64_t countTerms() const { return hasTerms() ? countOfTerms : 1; }
  /// Words of elements of a row before it is split into terms.
  int64_t countCopiedWords(int64_t elements) const {
    return dot ? elements / 2 : elements;
  }
  /// Words of a term of a block's rows, of `row` elements, and of a tile of
  /// scores.
  int64_t countTermWords(int64_t row) const { return queries * row / 2; }

  /// Of a term of K in slabs.
  int64_t countSlabTermWords() const { return keys / 2 * headRow; }

  /// Whether operands are bf16 and products contract pairs of them.
  bool dot;
  /// Products are those of a matrix unit (UnitProduct.h).
  bool isTiled;
  RowParts headParts;  ///< of query and key: the operand, then columns
  RowParts valueParts; ///< the value operands, side by side
  int64_t headDim, valueDim;
  /// A register tile is rows x vectors; that of dQ is rows x rowVectors, or
  /// narrower at the end of a row.
  int64_t rows, vectors, rowVectors;
  /// Keys of a register tile, register tiles and keys of a tile of keys.
  int64_t panel, panels, keys;
  /// Tiles of keys that an item keeps at once, while queries pass.
  int64_t tiles = 1;
  /// The longer a tile, the fewer bytes pass per product (CacheTraffic.h), as
  /// long as what it keeps takes up to half of a second cache.
  static constexpr int64_t leastKeys = 128, mostKeys = 256;
  static constexpr int64_t tileWords = secondCache / 2 / 4;
  /// Rows of sums over queries are rounded up to a multiple of these.
  static constexpr int64_t paddedRows = 64;
  /// Queries of a block, of which there are a whole number in those.
  int64_t queries = paddedRows;
  /// Of scores of all heads, where a block keeps rows of all of them: with
  /// fewer what is added to dK and dV takes longer, and a matrix unit
  /// multiplies as many at once. Fewer are for so many heads that else too many
  /// bytes pass.
  static constexpr int64_t fewQueries = 32;
  /// Elements of a padded row of Q and K, of V and dO; padding is zero.
  int64_t headRow, valueRow;
  /// Where near memory is short: each block adds to dK, dV and dQ once, so a
  /// sixteenth of its products are additions to what lies further away.
  static constexpr int64_t nearQueries = 16;
  /// Elements from one row of a buffer of scores to the next: the keys of the
  /// tile and a vector of zeros, which the sums along diagonals run into.
  int64_t stride;
  /// Of P, which has no such sums.
  int64_t probabilityStride;
  /// Elements from a lane of K^T to the next.
  int64_t keyStride;
  /// Whether lanes are threads with near memory. There dQ reads K^T, whose
  /// lanes are then an odd number of elements apart so that threads meet in no
  /// bank.
  bool isNear = false, sharesKeys = false;
  /// Whether rows of K are made of K^T again for dQ, of one head at a time,
  /// where what is kept in slabs would leave room for fewer keys.
  bool unpacksKeys = false;
  /// Steps of a contraction that are written out.
  int64_t unroll = 4;

private:
  int64_t countFewestQueries() const {
    return isTiled ? UnitProduct::depth : 16;
  }

  /// Of scores of all heads, beside the scores of a block of queries and the
  /// rows of two, since those of one are still there when the tiles pass again
  /// with the next one, in so many bytes of cache for a head.
  int64_t countFittingTiles(int64_t bytes) const {
    int64_t ofBlock = queries * 2 * (2 * headRow + valueRow + panel);
    return std::clamp<int64_t>((bytes / 4 - ofBlock) /
                                   (panel * getWordsPerKey()),
                               1, mostKeys / panel);
  }

  /// Keeps as many tiles as so many bytes of cache for a head have room for
  /// beside the block. K is kept in slabs as well where that costs no tile:
  /// rows that are made of K^T for each block take a twentieth of the time. A
  /// matrix unit needs slabs.
  void keepFittingTiles(int64_t bytes) {
    unpacksKeys = !isTiled;
    tiles = countFittingTiles(bytes);
    if (!unpacksKeys)
      return;
    unpacksKeys = false;
    unpacksKeys = countFittingTiles(bytes) < tiles;
  }

  /// Whether there are as many operations for each byte of Q, dO and dQ, which
  /// pass once for the tiles that are kept: more than leastFlopsPerByte, since
  /// K and V pass, too, and of a small cache by half, so that many heads keep
  /// more tiles in a large one.
  bool hasSmallTraffic(int64_t flopsPerByte) const {
    int64_t flops = 2 * (3 * headDim + 2 * valueDim) * tiles * keys;
    return flops >= flopsPerByte * 4 * (headDim + valueDim + headRow);
  }

  /// A tile is one panel, as wide as near memory allows, of a block's queries.
  /// A thread multiplies `rows` scalars, four of which it loads together, with
  /// its lanes: five loads for 16 products of one lane.
  void fitNearMemory(const VectorTarget &target) {
    isNear = sharesKeys = true;
    queries = rows = nearQueries;
    panels = 1;
    unroll = 8;
    for (vectors = 2; vectors > 0; --vectors) {
      keys = panel = probabilityStride = vectors * target.width;
      stride = keys + target.width;
      keyStride = panel + 1;
      if (vectors == 1 || 4 * countNearWords(target.width) <= target.near.bytes)
        return;
    }
  }
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TILES_BACKWARDSHAPE_H

//===- CacheTraffic.h - Bytes beyond the second cache -----------*- C++ -*-===//
//
// What the kernels of attention move between the second cache and what lies
// beyond it, once a sequence is too long for that cache: counted from the sizes
// of their tiles, against the floating-point operations done meanwhile. A line
// that is written counts twice, fetched and sent back. With a third cache that
// is far away a core gets some ten bytes per nanosecond, and does some 200
// operations: at a byte per 64 operations it does not wait.
//
// Forward: an item's queries stay, K and V pass once per item.
// Backward: a tile's keys and their gradients stay; Q, dO and dQ pass once per
// tile, dQ read and written. A chunk of tiles has a dQ of its own, which is
// cleared before and summed up after it.
//
// Scans go over the keys of a head twice, so tiles are longer where there are
// any (BackwardShape::keepKeysOfScans). With a table that is as wide as a row,
// as of contextual positions, a query passes in ten rows of d words outside of
// the tiles, in five of each tile and, of several tiles, in three of the sweep
// for totals, which ends early. For each byte of N keys that is N / 6
// operations in one tile, 64 from 384 keys on, and N / 9.2 in two, so 64 again
// from 589. What lies below, up to 383 keys and from 481 to 588, has this for a
// floor: 50 of 300 keys, 59 of 540.
//
// Scores of all heads need those of all heads at once, so what is kept is kept
// of all of them, and fewer queries or keys fit. Of h heads with rows of d
// words, in c words of cache:
//
//   forward:  Q and O of M queries stay, 2 d words of each, and a block of K
//             and V; 2 d words of a key pass, M / 2 operations for each byte of
//             f32 (countItemPanels).
//   backward: K, V, dK and dV of N keys stay, 4 d words of each (or 5 d with K
//             in slabs, where as many keys fit so), and Q, dO and dQ of two
//             blocks of q queries, the one and the one before, and of
//             the one rows of two panels of p keys:
//             N = (c / h - 2 q (3 d + p)) / 4 d, in whole panels. Q, dO and dQ
//             pass, N / 1.2 operations for each byte that is fetched
//             (BackwardShape's tiles).
//
// Many heads have a floor. Of dim 64 on AVX2, with an eighth of the cache for
// what payloads keep, 1 MiB has room for 168 keys of 4 heads (q = 32), 2 MiB
// for as many of 8 heads and for 120 keys of 10. All of 2 MiB holds 96 keys of
// 12 heads, at most 80 operations a byte, and as many of 16, in blocks of 16;
// 20 get 60, 24 get 40, 32 get 20. More would take the scores of all heads from
// beyond the cache, or passes over heads that make them again. Of 5 heads and
// more what is kept is too much for 1 MiB; there it passes once per block of
// queries. Rows of heads that share sets of the cache pass more often: they are
// copied (RowsApart.h).
//
// The unit test of this name counts both; tools/bench/bytes.py counts the same
// by simulating the caches.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TILES_CACHETRAFFIC_H
#define SEXTANT_CODEGEN_TILES_CACHETRAFFIC_H

#include <cstdint>

namespace sextant::codegen {

/// Bytes of a second cache, at least.
constexpr int64_t secondCache = 1024 * 1024;

/// Of a large one, which kernels of all heads at once count on where a small
/// one has no room for what makes few bytes pass.
constexpr int64_t largeSecondCache = 2 * secondCache;

/// Bytes after which sets of a second cache begin again: 1 MiB of eight ways,
/// as 2 MiB of 16.
constexpr int64_t cacheWay = secondCache / 8;

/// Operations of a kernel for each byte beyond the second cache, at least.
constexpr int64_t leastFlopsPerByte = 64;

/// Items of a problem of scores of all heads, at least, however small it is:
/// heads are none.
constexpr int64_t leastItemsOfAllHeads = 4;

/// Queries of a forward item whose traffic is small, at least.
inline int64_t getLeastQueries(int64_t elementBytes) {
  return elementBytes * leastFlopsPerByte / 2;
}

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TILES_CACHETRAFFIC_H

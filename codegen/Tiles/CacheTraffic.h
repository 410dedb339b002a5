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
// Scores of all heads keep panels of all heads, so that fewer queries or keys
// fit: those of an item forward (AllHeadsForwardLoopNest.h), backward the tiles
// that BackwardShape::useOnePanel makes. Backward, up to four heads of dim 64
// have enough keys for a byte per 64 operations of the products; eight keep one
// panel, whose tiles move a byte per 15 of these and some more of the payload.
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

/// Operations of a kernel for each byte beyond the second cache, at least.
constexpr int64_t leastFlopsPerByte = 64;

/// Queries of a forward item whose traffic is small, at least.
inline int64_t getLeastQueries(int64_t elementBytes) {
  return elementBytes * leastFlopsPerByte / 2;
}

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TILES_CACHETRAFFIC_H

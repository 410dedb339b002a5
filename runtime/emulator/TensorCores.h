//===- TensorCores.h - Matrices that a warp holds in pieces -----*- C++ -*-===//
//
// What mma.sync.m16n8k16, ldmatrix.x4 and movmatrix do, as the PTX manual
// states it for elements of f16 and bf16. A word holds two elements, the first
// in its low half; denormals of f16 count. With group = lane / 4 and pair = 2 *
// (lane % 4) a lane has of
//
//   A  16 x 16   word i: row group + 8 (i % 2), columns pair + 8 (i / 2), + 1
//   B  16 x 8    word i: rows pair + 8 i, + 1, column group
//   C  16 x 8    element i: row group + 8 (i / 2), column pair + i % 2
//
// Lane 8 m + r names the address of row r of matrix m. A lane gets of each
// matrix the elements pair, + 1 of row `group`; transposed, of column `group`.
// What a lane has of a matrix that is turned is such a word, too.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_EMULATOR_TENSORCORES_H
#define SEXTANT_RUNTIME_EMULATOR_TENSORCORES_H

#include <array>
#include <cstddef>
#include <cstdint>

namespace sextant::runtime::emulator {

inline constexpr int matrixRows = 8;
inline constexpr int32_t matrixRowBytes = 16;

/// An address per lane of a warp.
using LaneSources = std::array<const void *, 32>;
using LaneTargets = std::array<void *, 32>;

/// A B + C, of what lanes have at `sources`: words of A, of B, elements of C
/// (f32), stored to `targets`. Elements of A and B are what `decode` makes of
/// their bits. Products and their sums are exact; what is added to C is cut off
/// towards zero, as of hardware nobody promises more.
void multiplyFragments(const LaneSources &sources, const LaneTargets &targets,
                       double (*decode)(uint16_t bits));

/// Four words for each lane, of the rows at `sources`.
void loadFragments(const LaneSources &sources, const LaneTargets &targets,
                   bool isTransposed);

/// A word per lane of a warp.
using LaneWords = std::array<int32_t, 32>;

/// movmatrix.sync.aligned.m8n8.trans.b16: the matrix transposed.
LaneWords turnMatrix(const LaneWords &words);

} // namespace sextant::runtime::emulator

#endif // SEXTANT_RUNTIME_EMULATOR_TENSORCORES_H

//===- ScoreTile.h - Scores that a block computes at a time -----*- C++ -*-===//
//
// A block stays with the rows of a tile of scores while columns pass by. In a
// forward rows are queries and columns keys; in a backward, which sums up over
// queries, it is the other way round. The warps of a block share the rows out,
// 16 at a time, and each has all columns, or a part of them (WarpPart.h).
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_SCORETILE_H
#define SEXTANT_CODEGEN_CUDA_SM80_SCORETILE_H

#include "codegen/CUDA/ThreadFunctions.h"
#include "codegen/Plan/KernelPlan.h"
#include "codegen/Tables/HoistTable.h"
#include "llvm/Support/MathExtras.h"

namespace sextant::codegen {

/// Rows, columns and depth of a product of matrices of a warp.
inline constexpr int64_t fragmentRows = 16, fragmentColumns = 8,
                         fragmentDepth = 16;
/// f32 of such a product that a thread holds.
inline constexpr int64_t fragmentElements = 4;

/// Rows of one operand in shared memory. A row takes 16 bytes more than it has
/// elements: then eight rows of a matrix lie in different banks, and the
/// address of each is that of a thread plus a constant, which costs no
/// instruction.
struct SharedRowShape {
  int64_t dim = 0; ///< of the operand; what follows up to `padded` is zero
  int64_t padded = 0;

  SharedRowShape(int64_t dim)
      : dim(dim), padded(llvm::alignTo(dim, fragmentDepth)) {}
  int64_t getBytes() const { return 2 * padded + 16; }
};

/// The largest sum of value dims, and the largest head dim: what fits into the
/// registers of a thread.
inline constexpr int64_t mostTileDims = 256;
/// Of a word of 32 bits.
inline constexpr int64_t wordBytes = 4;

/// Entries of tables over offsets that one copy to shared memory takes.
inline constexpr int64_t windowUnit = 4;

/// The place of an element: rows and columns from the thread's first one.
struct FragmentElement {
  int64_t row = 0, column = 0;

  /// Element `number` (0 .. 3) of a product of matrices.
  static FragmentElement get(int64_t block, int64_t columns, int64_t number) {
    return {fragmentRows * block + 8 * (number / 2),
            fragmentColumns * columns + number % 2};
  }
};

/// The sizes of a tile of scores and the rows of shared memory that it is made
/// of.
struct ScoreTile {
  pos::Side rowSide = pos::Side::query;
  int64_t warps = 0;       ///< of a block
  int64_t blocks = 0;      ///< of 16 rows, of a warp
  int64_t columns = 0;     ///< of a tile
  int64_t columnParts = 1; ///< of a tile, for as many warps of the same rows
  /// Tables over offsets, and vectors over columns, of words of 32 bits that
  /// are read with each tile.
  int64_t offsetWindows = 0, columnWindows = 0;
  /// Threads of a block that may have a head, and so windows, of their own
  /// (BlockHeads.h): a warp, or the four that have a row; 0: none have.
  int64_t teamThreads = 0;

  pos::Side getColumnSide() const {
    return rowSide == pos::Side::query ? pos::Side::key : pos::Side::query;
  }
  int64_t countWarpRows() const { return blocks * fragmentRows; }
  int64_t countWarpColumns() const { return columns / columnParts; }
  /// Warps that share the rows out.
  int64_t countRowWarps() const { return warps / columnParts; }
  int64_t countRows() const { return countRowWarps() * countWarpRows(); }
  /// Rows that a thread has elements of: two of each block.
  int64_t countThreadRows() const { return 2 * blocks; }
  int64_t countThreads() const { return warpLanes * warps; }
  bool isPackable() const { return teamThreads > 0; }
  /// Whether rows may have heads of their own: a block of few queries.
  bool hasTeamsOfRows() const {
    return isPackable() && teamThreads < warpLanes;
  }
  int64_t countTeams() const {
    return isPackable() ? countThreads() / teamThreads : 1;
  }

  /// Scores that a thread holds, [block][8 columns][element].
  int64_t countScores() const { return blocks * countWarpColumns() / 2; }
  /// Of eight columns each, of a warp.
  int64_t countGroups() const { return countWarpColumns() / fragmentColumns; }
  unsigned getNumber(int64_t block, int64_t group, int64_t element) const {
    return (block * countGroups() + group) * fragmentElements + element;
  }
  llvm::SmallVector<FragmentElement> getElements() const {
    llvm::SmallVector<FragmentElement> elements;
    for (int64_t block = 0; block < blocks; ++block)
      for (int64_t group = 0; group < countGroups(); ++group)
        for (int64_t number = 0; number < fragmentElements; ++number)
          elements.push_back(FragmentElement::get(block, group, number));
    return elements;
  }

  /// How tables over offsets lie in memory: a window may reach past both ends.
  HoistTableOptions getTableOptions() const {
    return {OffsetOrder::Ascending, std::max(countRows(), columns), windowUnit};
  }

  // Bytes of windows, from their first one.
  int64_t countOffsetEntries() const { return countRows() + columns; }
  /// Of a team with a head of its own, whose rows are at most those of a warp.
  int64_t countTeamEntries() const { return countWarpRows() + columns; }
  int64_t getOffsetWindow(int64_t number) const {
    int64_t ofTeams = isPackable() ? countTeams() * countTeamEntries() : 0;
    return 4 * number * std::max(countOffsetEntries(), ofTeams);
  }
  int64_t getColumnWindow(int64_t number) const {
    return getOffsetWindow(offsetWindows) + 4 * number * countTeams() * columns;
  }
  int64_t getWindowBytes() const { return getColumnWindow(columnWindows); }
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_SCORETILE_H

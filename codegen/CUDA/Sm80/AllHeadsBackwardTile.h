//===- AllHeadsBackwardTile.h - A backward's tile of all heads --*- C++ -*-===//
//
// Where things lie in shared memory:
//
//   keys, values      rows of K and V of all heads
//   scores            S [head][query][key] of f32
//   gradients         dP, likewise
//     from the payload on what is kept for gradients of matrices, and in the
//     end what threads have summed up (AllHeadsGradientPoint.h)
//   probabilities     P [head][query][key] in the rows' type
//   score gradients   dS, likewise
//   windows           gradients of tables over offsets, of each warp
//   stage 0:          queries, gradients of outputs, of all heads
//   stage 1:          the same, for the tile that comes next, if there is room
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_ALLHEADSBACKWARDTILE_H
#define SEXTANT_CODEGEN_CUDA_SM80_ALLHEADSBACKWARDTILE_H

#include "codegen/CUDA/Sm80/AllHeadsTile.h"
#include "codegen/Tables/AllHeadsWeights.h"

namespace sextant::codegen {

/// The gradients of what a payload of all heads reads, as a block sums them up.
/// They are wanted of values over offsets, of matrices over heads and units, of
/// vectors over these and of values of a head.
struct AllHeadsSums {
  AllHeadsSums(const KernelPlan &plan, int64_t points);

  /// Rows of tables over offsets: along a diagonal of a tile all points add to
  /// the same element.
  struct Table {
    const Hoisted *hoisted;
    int64_t first, rows;
  };
  /// A matrix: sums over points of products of cotangents of its results with
  /// elements of its operand, which are kept in rows, an element per point.
  struct Matrix {
    pos::ContractOp op;
    int64_t results, operands; ///< their first rows
    int64_t rows, columns;     ///< of the matrix
  };
  /// What each thread adds up by itself.
  struct Sum {
    mlir::Value owner;
    int64_t first, elements;
  };
  llvm::SmallVector<Table> tables;
  llvm::SmallVector<Matrix> matrices;
  llvm::SmallVector<Sum> sums;
  int64_t tableRows = 0, keptRows = 0, elements = 0;
  int64_t warps;           ///< of a block
  SharedRowShape ofPoints; ///< a kept row

  /// A warp has so many queries and keys.
  static constexpr int64_t warpQueries = 4, warpKeys = warpLanes / warpQueries;
  static constexpr int64_t diagonals = warpQueries + warpKeys - 1;
  // Bytes of shared memory.
  int64_t countWindowBytes() const {
    return wordBytes * warps * tableRows * diagonals;
  }
  int64_t countKeptBytes() const { return keptRows * ofPoints.getBytes(); }
  int64_t countElementBytes() const { return wordBytes * warps * elements; }
};

/// Where parts of a backward lie in shared memory, and how much of it there is.
struct AllHeadsBackwardTile : AllHeadsTile {
  /// A block has at most `sharedBytes` of shared memory.
  AllHeadsBackwardTile(const KernelPlan &plan, int64_t headDim,
                       llvm::ArrayRef<int64_t> valueDims, int64_t sharedBytes);

  AllHeadsSums sums;
  int64_t stages = 2; ///< of what passes; 0: there is no room for one

  /// Of dK and dV, which stay with a thread.
  int64_t countSums() const;
  /// Of P and dS, whose rows are two chunks of 16 bytes. Of eight rows that are
  /// loaded together four have them the other way round, so that they lie in
  /// different banks.
  static constexpr int64_t roundedRowBytes = 2 * fragmentRows;
  static constexpr int64_t turnedRows = 4;
  static constexpr int64_t roundedBytes = fragmentRows * roundedRowBytes;

  // Where parts begin.
  int64_t getValues(unsigned number) const { return countRowBytes(number); }
  int64_t getScores() const { return countRowBytes(ofHead.values.size()); }
  int64_t getGradients() const { return getScores() + heads * getScoreBytes(); }
  int64_t getProbabilities() const {
    int64_t bytes = std::max({2 * heads * getScoreBytes(),
                              sums.countKeptBytes(), sums.countElementBytes()});
    return getScores() + llvm::alignTo(bytes, 16);
  }
  int64_t getScoreGradients() const {
    return getProbabilities() + heads * roundedBytes;
  }
  int64_t getWindows() const {
    return getScoreGradients() + heads * roundedBytes;
  }
  int64_t getStage() const {
    return llvm::alignTo(getWindows() + sums.countWindowBytes(), 16);
  }
  /// From the start of a stage.
  int64_t getOutputGradients(unsigned number) const {
    return countRowBytes(number);
  }
  int64_t getStageBytes() const { return countRowBytes(ofHead.values.size()); }

  BlockShape getBlock() const {
    return {ofHead.warps, getStage() + stages * getStageBytes()};
  }
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_ALLHEADSBACKWARDTILE_H

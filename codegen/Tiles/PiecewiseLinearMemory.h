//===- PiecewiseLinearMemory.h - Functions of a tile in memory --*- C++ -*-===//
//
// Where piecewise-linear functions of a tile lie in scratch memory, one after
// the other: columns of 32-bit words, an element per point, of each head,
//
//   argument | result | slope | cotangent
//
// and, of a score of all heads, the segments i64 [heads][2] of the tile.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TILES_PIECEWISELINEARMEMORY_H
#define SEXTANT_CODEGEN_TILES_PIECEWISELINEARMEMORY_H

#include "codegen/Emit/KernelBuilder.h"
#include "codegen/Plan/KernelPlan.h"

namespace sextant::codegen {

/// The segments from the lowest to the highest that a tile reaches into.
struct SegmentRange {
  mlir::Value low, high; ///< i64
  mlir::Value isOne;     ///< i1
};

/// The scratch memory of the piecewise-linear functions of a tile.
class PiecewiseLinearMemory {
public:
  enum Column { argument, result, slope, cotangent, numColumns };
  /// What of a function does not need the head.
  struct Shared {
    bool argument = false, knots = false;
  };

  /// `memory` has room for all functions of the plan with `elements` points.
  PiecewiseLinearMemory(KernelBuilder &kernel, const KernelPlan &plan,
                        mlir::Value memory, int64_t elements);
  static int64_t countFunctionWords(const KernelPlan &plan, int64_t elements);

  // A function is told by its number among plan.hingeSums.
  const Shared &getShared(unsigned number) const { return shared[number]; }
  /// The address of a vector of one column of one function at one head.
  mlir::Value at(unsigned number, Index head, Column column, Index place) const;
  void storeReach(unsigned number, Index head, const SegmentRange &reach) const;
  SegmentRange loadReach(unsigned number, Index head) const;

private:
  mlir::Value getReachAddress(unsigned number, Index head) const;

  KernelBuilder &kernel;
  const KernelPlan &plan;
  mlir::Value memory;
  int64_t stride; ///< words of one column from one head to the next
  int64_t functionWords;
  llvm::SmallVector<Shared> shared;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TILES_PIECEWISELINEARMEMORY_H

//===- FragmentFactors.h - The factors of a hinge product -------*- C++ -*-===//
//
// The argument of a HingeProduct is a product of a value over offsets and one
// over queries, of which there are fewer than of scores: a thread reads each of
// them once, and their ranges bound those of the products.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTFACTORS_H
#define SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTFACTORS_H

#include "codegen/CUDA/Sm80/FragmentPoint.h"

namespace sextant::codegen {

/// Least and greatest of some numbers; NaN where one is.
using NumberRange = std::pair<mlir::Value, mlir::Value>;

/// Both factors, at the scores of a thread and in the part of a tile that a
/// warp has.
class FragmentFactors {
public:
  using Values = KernelBuilder::Values;

  FragmentFactors(ThreadBuilder &thread, FragmentPoint &point,
                  const FragmentOperands &launch, const ScoreTile &tile)
      : thread(thread), kernel(thread.kernel), point(point), launch(launch),
        tile(tile) {}

  /// At elements.
  struct Elements {
    Values ofOffsets, ofQueries;
  };
  Elements load();
  /// Likewise, with 0 in place of what is no finite number.
  Elements loadFinite();

  /// Of the products of all factors of the warp's part of the tile, so far as
  /// the lane knows; of those of queries `queries` is the range.
  NumberRange findRange(NumberRange queries);
  /// Of those of queries, in all lanes: of rows of the block, or columns of the
  /// tile.
  NumberRange findQueryRange();
  /// What lanes know, in all of them.
  NumberRange acrossWarp(NumberRange range);

private:
  Values loadOffsets();
  const HingeProduct &get() const { return *launch.hingeProduct; }

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  FragmentPoint &point;
  const FragmentOperands &launch;
  const ScoreTile &tile;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTFACTORS_H

//===- FragmentHingeProduct.h - Hinges of a product of two factors --------===//
//
// A payload that adds one function of hinges, at the product of a value over
// offsets and one over queries (HingeProduct). The range of the arguments of a
// warp's part of a tile follows from those of the factors, of which there are
// fewer than of scores. Most tiles lie in the segment in which the one before
// lay, with all arguments finite. There the function costs an instruction per
// score: its intercept is a part of the shifts of rows, its slope one of the
// factor of a query.
//
// The gradients of both factors are sums of cotangents times the other factor,
// and the moments follow from those over keys. A thread keeps moments of its
// own as long as tiles lie in one segment.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTHINGEPRODUCT_H
#define SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTHINGEPRODUCT_H

#include "codegen/CUDA/Sm80/FragmentHinges.h"

namespace sextant::codegen {

class FragmentSums;

/// The function of a HingeProduct at the tiles that pass by.
class FragmentHingeProduct {
public:
  using Values = KernelBuilder::Values;
  /// Gives the address of the moments of the head (f64), where they are wanted.
  using FindMoments = std::function<mlir::Value()>;

  /// `payloadFactor`: see FragmentForm.
  FragmentHingeProduct(ThreadBuilder &thread, FragmentPoint &point,
                       FragmentHinges &hinges, const FragmentOperands &launch,
                       const ScoreTile &tile, double payloadFactor)
      : thread(thread), kernel(thread.kernel), point(point), hinges(hinges),
        launch(launch), tile(tile), payloadFactor(payloadFactor) {}

  bool exists() const { return launch.hingeProduct.has_value(); }

  /// Stands at a head, and gives the state before its first tile. Moments are
  /// wanted where `moments` is given.
  Values enterHead(FindMoments moments = {});
  /// Stands at the tile where the point stands; the state becomes that there.
  void enterTile(llvm::MutableArrayRef<mlir::Value> state);
  /// The tile's moments come to the head's.
  void finishHead(mlir::ValueRange state);

  /// Whether the tile lies in one segment (i1).
  mlir::Value getIsOneLine() const { return isOneLine; }
  /// What is to be added to all scores of the tile (f32).
  mlir::Value getAddend() const { return addend; }
  /// Scores on the line of the tile, but for that.
  Values emitLine(mlir::ValueRange products);
  /// The hinges stand at the tile, where its arguments reach into several
  /// segments.
  void enterReach();

  /// Adds the gradients of what the function is made of: of factors to `sums`,
  /// of its moments to the state.
  void addGradients(FragmentSums &sums, mlir::ValueRange cotangents,
                    llvm::MutableArrayRef<mlir::Value> state);

private:
  /// Of a state: the segment (i32), the knots below and above it, and the
  /// intercept (in units of products) and the slope of its line; and where
  /// moments are wanted those of the thread since the last tile of another
  /// segment.
  enum State { segment, below, above, intercept, slope, sum, product };
  /// Of some factors, or arguments, at elements.
  struct Factors {
    Values ofOffsets, ofQueries;
  };
  /// Least and greatest.
  using Range = std::pair<mlir::Value, mlir::Value>;

  Factors loadFactors();
  Values loadOffsets();
  Range findQueryRange();
  Range acrossWarp(Range range);
  Range multiply(mlir::ValueRange offsets, Range queries);
  Values findLine(Range range, mlir::ValueRange state);
  mlir::Value isEverywhere(mlir::Value condition);
  Values moveTo(mlir::Value segment, mlir::ValueRange state);
  void flush(mlir::ValueRange state);
  mlir::Value getMoment(mlir::Value moments, Index segment,
                        PiecewiseLinearLayout::Moment moment);
  Values addOnLine(FragmentSums &sums, mlir::ValueRange cotangents,
                   mlir::ValueRange state);
  Values addOnSegments(FragmentSums &sums, mlir::ValueRange cotangents,
                       mlir::ValueRange state);
  void makeFinite(Values &factors);
  /// The sum of the products of sums of columns with the factors of queries.
  mlir::Value sumProducts(mlir::ValueRange columns, mlir::ValueRange ofQueries,
                          mlir::Value sum);
  const HingeProduct &get() const { return *launch.hingeProduct; }

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  FragmentPoint &point;
  FragmentHinges &hinges;
  const FragmentOperands &launch;
  const ScoreTile &tile;
  const double payloadFactor;

  FindMoments moments;
  mlir::Value table; ///< of the head
  /// Of queries that stay with the block; else of each tile.
  Range queryRange;

  // Of the tile at hand.
  mlir::Value isOneLine, addend;
  mlir::Value lineSlope;
  mlir::Value reach; ///< the last segment and the first one, or 0
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTHINGEPRODUCT_H

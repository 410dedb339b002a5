//===- FragmentHingeProduct.h - Hinges of a product of two factors --------===//
//
// A payload that adds one function of hinges, at the product of a value over
// offsets and one over queries (HingeProduct). The range of the arguments of a
// warp's part of a tile follows from those of the factors, of which there are
// fewer than of scores. Most tiles lie in the segment in which the one before
// lay, with all arguments finite. There the function costs an instruction per
// score: its intercept is a part of the shifts of rows, its slope one of the
// factor of a query. In others each knot adds to the line of the lowest segment
// what scores above it have more. Where a factor is no finite number all knots
// lie in the tile, and lines of segments give the scores (FragmentHinges.h).
//
// The gradients of both factors are sums of cotangents times the other factor,
// and the moments follow from those over keys. A thread keeps moments of its
// own as long as tiles lie in one segment.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTHINGEPRODUCT_H
#define SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTHINGEPRODUCT_H

#include "codegen/CUDA/Sm80/FragmentFactors.h"
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
      : thread(thread), kernel(thread.kernel), hinges(hinges), launch(launch),
        tile(tile), payloadFactor(payloadFactor),
        factors(thread, point, launch, tile) {}

  bool exists() const { return launch.hingeProduct.has_value(); }

  /// Stands at a head, and gives the state before its first tile. Moments are
  /// wanted where `moments` is given.
  Values enterHead(FindMoments moments = {});
  /// Stands at the tile where the point stands; the state becomes that there.
  void enterTile(llvm::MutableArrayRef<mlir::Value> state);
  /// The tile's moments come to the head's.
  void finishHead(mlir::ValueRange state);

  /// The scores of the tile, but for an addend: by its line, by knots, or by
  /// `emitSegments` where an argument is no finite number.
  Values emit(mlir::ValueRange products,
              llvm::function_ref<Values()> emitSegments);
  /// What is to be added to all of them (f32).
  mlir::Value getAddend() const { return addend; }

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
  /// The intercept is in units of products.
  struct Line {
    mlir::Value intercept, slope;
  };
  /// From a segment, or a knot, on: by how much slopes change, and the moments
  /// of the cotangents there.
  struct Change {
    mlir::Value slope;
    Index number;
    PiecewiseLinearLayout::Moment sum, product;
  };

  Values findLine(NumberRange range, mlir::ValueRange state);
  mlir::Value isEverywhere(mlir::Value condition);
  Line loadLine(mlir::Value number);
  Values moveTo(mlir::Value number, mlir::ValueRange state);
  mlir::Value enterReach();
  Values emitLine(mlir::ValueRange products, Line own);
  Values emitKnots(mlir::ValueRange products);
  void flush(mlir::ValueRange state);
  mlir::Value getMoment(mlir::Value moments, Index number,
                        PiecewiseLinearLayout::Moment moment);
  Values addOnLine(FragmentSums &sums, mlir::ValueRange cotangents,
                   mlir::ValueRange state);
  Values addOnKnots(FragmentSums &sums, mlir::ValueRange cotangents,
                    mlir::ValueRange state, bool isFinite);
  Values findAbove(const FragmentFactors::Elements &elements,
                   mlir::ValueRange cotangents, mlir::Value knot);
  Values addParts(FragmentSums &sums, const FragmentFactors::Elements &elements,
                  mlir::ValueRange parts, const Change &change,
                  mlir::ValueRange before);
  /// The sum of the products of sums of columns with the factors of queries.
  mlir::Value sumProducts(mlir::ValueRange columns, mlir::ValueRange ofQueries,
                          mlir::Value sum);
  const HingeProduct &get() const { return *launch.hingeProduct; }

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  FragmentHinges &hinges;
  const FragmentOperands &launch;
  const ScoreTile &tile;
  const double payloadFactor;
  FragmentFactors factors;

  FindMoments moments;
  mlir::Value table; ///< of the head
  /// Of queries that stay with the block; else of each tile.
  NumberRange queryRange;

  // Of the tile at hand.
  mlir::Value isOneLine; ///< whether it lies in one segment (i1)
  Line line;             ///< of that
  mlir::Value reach;     ///< of several, or 0
  mlir::Value addend;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTHINGEPRODUCT_H

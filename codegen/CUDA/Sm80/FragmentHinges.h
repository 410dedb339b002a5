//===- FragmentHinges.h - Piecewise-linear functions of fragments ---------===//
//
// As in codegen/Tiles/PiecewiseLinearTile.h: first the range of the arguments
// of a warp's part of a tile, and with it the segments that it reaches into. In
// most tiles this is one, whose line serves all scores. Otherwise values of a
// group of scores go on by one segment per knot that they lie above. Moments of
// cotangents are sums of a warp, which adds to a part of its own.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTHINGES_H
#define SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTHINGES_H

#include "codegen/CUDA/Sm80/FragmentPoint.h"
#include "codegen/Tables/PiecewiseLinearTable.h"

namespace sextant::codegen {

/// A payload's piecewise-linear functions at the scores of a thread, and the
/// moments of their cotangents.
class FragmentHinges {
public:
  using Values = KernelBuilder::Values;

  /// `lanes`: of the vectors that tables are written in.
  FragmentHinges(ThreadBuilder &thread, ArgumentBlock &arguments,
                 FragmentPoint &point, const FragmentOperands &launch,
                 int64_t lanes)
      : thread(thread), kernel(thread.kernel), arguments(arguments),
        point(point), launch(launch), lanes(lanes) {}

  bool areAny() const { return !launch.plan.hingeSums.empty(); }

  /// One function at a tile.
  struct Reach {
    mlir::Value table;     ///< of the head
    mlir::Value low, high; ///< the first and the last segment (i32)
  };
  /// The reach of function `number` where arguments are in a range, which is
  /// the same in all lanes.
  Reach findReach(unsigned number, mlir::Value table, mlir::Value least,
                  mlir::Value most);
  /// The table of function `number` at the head where the point stands.
  mlir::Value getTable(unsigned number);
  PiecewiseLinearLayout getLayout(unsigned number) const;
  /// Stands at a tile where the only function has a reach.
  void enterReach(const Reach &reach) { reaches = {reach}; }
  const Reach &getReach() const { return reaches.front(); }

  /// Joins the values of all lanes of a warp.
  mlir::Value
  acrossWarp(mlir::Value value,
             llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> join);
  /// Adds what lanes have of two sums to two moments (f64).
  void addSums(mlir::Value ofAll, mlir::Value ofProducts, mlir::Value sum,
               mlir::Value product);

  /// Stands at a tile, of which the warp has these elements, unless it does so
  /// already. Gives whether each function has one segment there, an i1.
  mlir::Value enterTile(llvm::ArrayRef<FragmentElement> elements);
  /// The tile is another one from here on.
  void leaveTile() { block = nullptr; }
  /// The values of all functions at some elements: on one line each, or by
  /// segments. The point finds them.
  void fill(llvm::ArrayRef<FragmentElement> elements, bool isOneLine);
  /// Likewise their slopes; on a knot, the mean of both sides.
  void fillSlopes(llvm::ArrayRef<FragmentElement> elements, bool isOneLine);
  /// Adds the moments (PiecewiseLinearLayout) of the cotangents of function
  /// `number` at the elements of the tile to those at an address.
  void addMoments(unsigned number, llvm::ArrayRef<FragmentElement> elements,
                  mlir::ValueRange cotangents, mlir::Value moments);

private:
  Reach findReach(unsigned number, llvm::ArrayRef<FragmentElement> elements);
  mlir::Value countKnots(mlir::Value table, const PiecewiseLinearLayout &layout,
                         mlir::arith::CmpFPredicate predicate,
                         mlir::Value bound);
  Values getArguments(unsigned number,
                      llvm::ArrayRef<FragmentElement> elements);
  /// Values of the line of a segment.
  Values emitLine(const Reach &reach, const PiecewiseLinearLayout &layout,
                  Index segment, mlir::ValueRange arguments);
  /// Adds the sum over the warp of some cotangents, and that of their products
  /// with the arguments, to two moments.
  void addSums(mlir::ValueRange arguments, mlir::ValueRange cotangents,
               mlir::Value sum, mlir::Value product);

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  FragmentPoint &point;
  const FragmentOperands &launch;
  int64_t lanes;
  llvm::SmallVector<Reach> reaches; ///< as plan.hingeSums
  mlir::Value areOne;               ///< whether all reach one segment
  mlir::Block *block = nullptr;     ///< where that is known
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTHINGES_H

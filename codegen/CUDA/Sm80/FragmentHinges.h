//===- FragmentHinges.h - Piecewise-linear functions of fragments ---------===//
//
// As in codegen/Tiles/PiecewiseLinearTile.h: first the range of the arguments
// of a warp's part of a tile, and with it the segments that it reaches into. In
// most tiles this is one, whose line serves all scores. Otherwise values of a
// group of scores go on by one segment per knot that they lie above.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTHINGES_H
#define SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTHINGES_H

#include "codegen/CUDA/Sm80/FragmentPoint.h"
#include "codegen/Tables/PiecewiseLinearTable.h"

namespace sextant::codegen {

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

  /// Stands at a tile, of which the warp has these elements. Gives whether each
  /// function has one segment there, an i1.
  mlir::Value enterTile(llvm::ArrayRef<FragmentElement> elements);
  /// The values of all functions at some elements: on one line each, or by
  /// segments. The point finds them.
  void fill(llvm::ArrayRef<FragmentElement> elements, bool isOneLine);

private:
  /// One function at the tile at hand.
  struct Reach {
    mlir::Value table;     ///< of the head
    mlir::Value low, high; ///< the first and the last segment (i32)
  };

  Reach findReach(unsigned number, llvm::ArrayRef<FragmentElement> elements);
  mlir::Value countKnots(mlir::Value table, const PiecewiseLinearLayout &layout,
                         mlir::arith::CmpFPredicate predicate,
                         mlir::Value bound);
  mlir::Value
  acrossWarp(mlir::Value value,
             llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> join);
  Values getArguments(unsigned number,
                      llvm::ArrayRef<FragmentElement> elements);
  /// Values of the line of a segment.
  Values emitLine(const Reach &reach, const PiecewiseLinearLayout &layout,
                  Index segment, mlir::ValueRange arguments);
  PiecewiseLinearLayout getLayout(unsigned number) const;

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  FragmentPoint &point;
  const FragmentOperands &launch;
  int64_t lanes;
  llvm::SmallVector<Reach> reaches; ///< as plan.hingeSums
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTHINGES_H

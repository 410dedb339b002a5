//===- PiecewiseLinearTile.h - Piecewise-linear functions of a tile -------===//
//
// A function is evaluated for a register tile of scores before its payloads,
// which load the values from scratch memory. First the arguments, their range
// and with it the segments that the tile reaches into: in most tiles one, whose
// line is the same for all points. Otherwise each point starts in the lowest of
// these segments and goes on by one per knot that it lies above. Nothing is
// gathered, and no gradient is scattered.
//
// Of a score of all heads the values of all heads are made before the payload.
// Arguments that do not need the head are computed once, and so are segments
// where, besides, the knots are the same at all heads: all that is left to each
// head is its lines.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TILES_PIECEWISELINEARTILE_H
#define SEXTANT_CODEGEN_TILES_PIECEWISELINEARTILE_H

#include "codegen/Tables/PiecewiseLinearTable.h"
#include "codegen/Tiles/PiecewiseLinearMemory.h"
#include "codegen/Tiles/TilePoint.h"

namespace sextant::codegen {

/// Evaluates the piecewise-linear functions of a register tile.
class PiecewiseLinearTile {
public:
  /// For a tile of `rows` rows of `vectors` vectors, of all heads if the plan's
  /// score is of all; `memory` has `countWords` words. Slopes and cotangents
  /// are kept where `hasGradients`.
  PiecewiseLinearTile(KernelBuilder &kernel, ArgumentBlock &arguments,
                      const KernelPlan &plan, const SiteOperands &operands,
                      mlir::Value memory, int64_t rows, int64_t vectors,
                      bool hasGradients);
  static int64_t countWords(const KernelPlan &plan, int64_t elements);

  using MoveTo = llvm::function_ref<void(Index row, Index vector)>;

  /// Evaluates all functions at the first `count` rows of the tile. `moveTo`
  /// moves `point` to a vector of a row of it. With all heads the point stands
  /// at head 0 after it.
  void fill(TilePoint &point, MoveTo moveTo, Index count);
  /// At all rows.
  void fill(TilePoint &point, MoveTo moveTo) {
    return fill(point, moveTo, rows);
  }

  /// The value at a place of the tile: row * panel + lane.
  mlir::Value load(pos::HingeSumOp op, Index head, Index place) const;
  /// Takes the cotangent of the value and gives that of the argument.
  mlir::Value pull(pos::HingeSumOp op, Index head, Index place,
                   mlir::Value cotangent);
  /// Adds the moments of the cotangents of a head to those at `moments`, f64,
  /// one per plan.hinges (null: not wanted). Every place has been pulled.
  void addMoments(Index batch, Index head, llvm::ArrayRef<mlir::Value> moments);

private:
  using Values = KernelBuilder::Values;
  using enum PiecewiseLinearMemory::Column;
  /// One function at one head.
  struct Place {
    unsigned number; ///< of plan.hingeSums
    Index head;
    mlir::Value table;
    SegmentRange reach;
  };

  void fillHead(unsigned number, TilePoint &point, MoveTo moveTo);
  void fillAllHeads(unsigned number, TilePoint &point, MoveTo moveTo);
  Values fillArguments(unsigned number, TilePoint &point, MoveTo moveTo);
  SegmentRange findReach(unsigned number, mlir::Value table,
                         mlir::ValueRange range);
  void emitValues(const Place &place);
  void emitLine(const Place &place);
  void emitSegments(const Place &place);
  void addMoments(const Place &place, mlir::Value moments);
  void addPoints(
      const Place &place, mlir::Value sum, mlir::Value product,
      llvm::function_ref<mlir::Value(mlir::Value x, mlir::Value ct)> select);

  mlir::Value countKnots(mlir::Value table, const PiecewiseLinearLayout &layout,
                         mlir::arith::CmpFPredicate predicate,
                         mlir::Value place);
  unsigned find(pos::HingeSumOp op) const;
  PiecewiseLinearLayout getLayout(unsigned number) const;
  mlir::Value getTable(unsigned number, Index batch, Index head);
  /// Calls `body` with the place of each vector; carries values.
  Values forEachVector(mlir::ValueRange initial, KernelBuilder::LoopBody body);

  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const KernelPlan &plan;
  const SiteOperands &operands;
  int64_t rows, vectors;
  bool hasGradients;
  PiecewiseLinearMemory memory;
  /// As plan.hingeSums: no cotangent comes through a comparison.
  llvm::SmallVector<bool> isPulled;

  // Of the tile at hand.
  Index rowCount = 0;
  /// As plan.hingeSums, of the one head; those of all heads are in memory.
  llvm::SmallVector<SegmentRange> reaches;
  llvm::SmallVector<mlir::Value> tables;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TILES_PIECEWISELINEARTILE_H

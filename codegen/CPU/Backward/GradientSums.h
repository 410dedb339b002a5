//===- GradientSums.h - Sums of a score payload's gradients -----*- C++ -*-===//
//
// A score payload gives, per score, the cotangents of the hoisted values that
// it used. Each is kept as a tile of the block (in most cases it is the tile of
// dS or its negative, which is there anyway) and summed once per block of
// queries: along diagonals, rows, columns, or all of it. The sums are O(L).
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_BACKWARD_GRADIENTSUMS_H
#define SEXTANT_CODEGEN_CPU_BACKWARD_GRADIENTSUMS_H

#include "codegen/CPU/Backward/BackwardItem.h"
#include "codegen/CPU/Backward/BackwardPoint.h"

namespace sextant::codegen {

/// Sums up the cotangents of hoisted values and parameters over a block.
class GradientSums {
public:
  GradientSums(BackwardItem &at, BackwardPoint &point);

  /// Memory for a tile of scores, with a vector in front of it.
  mlir::Value reserveTile();

  /// Takes the cotangents at one point, whose place in a tile is `cell` +
  /// `place`.
  void record(mlir::Value scoreGradient,
              llvm::ArrayRef<HoistCotangent> cotangents, Index cell,
              Index place);

  /// Tiles of cotangents that differ from dS; hidden cells of them are zero.
  llvm::SmallVector<mlir::Value> getOwnTiles() const;
  /// Whether some sum is taken of the tile of dS.
  bool usesScoreGradients() const;

  /// Adds the sums of the block to the partial sums of the gradients.
  void emitBlock(mlir::Value scoreGradients);

private:
  enum class Source { Unused, ScoreGradient, Negated, Own };
  struct Sink {
    const Hoisted *hoisted = nullptr;
    unsigned tensor = 0; ///< partial sums
    Source source = Source::Unused;
    mlir::Value tile; ///< if the source is Own
  };

  Sink *findSink(pos::HoistOp hoist);
  void clearEdges(mlir::Value tile);
  mlir::Value combine(const Sink &sink, mlir::Value old, mlir::Value addend);
  void addSum(mlir::Value addend, const Sink &sink, mlir::Value to);
  void addDiagonals(const Sink &sink, mlir::Value tile, mlir::Value to);
  void addAtOffsets(const Sink &sink, mlir::Value tile, mlir::Value to);
  mlir::Value areDistinct(mlir::Value lanes);
  void moveTo(Index row, Index column);
  void addToTable(const Sink &sink, mlir::Value tile, mlir::Value to,
                  Index column);
  void addInPlace(pos::HoistOp hoist, mlir::Value cotangent);
  mlir::Value sumRow(mlir::Value first);
  void addRows(const Sink &sink, mlir::Value tile, mlir::Value to);
  void addColumns(const Sink &sink, mlir::Value tile, mlir::Value to);
  void addAll(const Sink &sink, mlir::Value tile, mlir::Value to);

  BackwardItem &at;
  KernelBuilder &kernel = at.kernel;
  ArgumentBlock &arguments = at.arguments;
  const BackwardLaunch &launch = at.launch;
  const BackwardShape &shape = launch.shape;
  BackwardPoint &point;
  Index columns = 0; ///< of the block; its rows are `groupEnd`
  llvm::SmallVector<Sink> sinks;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_BACKWARD_GRADIENTSUMS_H

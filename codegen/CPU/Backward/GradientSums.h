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

#include "codegen/CPU/Backward/BackwardSite.h"
#include "codegen/CPU/Backward/BackwardTask.h"
#include "codegen/Emit/ScratchLayout.h"

namespace sextant::codegen {

class GradientSums {
public:
  /// A rectangle of scores that begins at (firstQuery, firstKey); `rows` and
  /// `columns` of the tiles are valid.
  struct Rectangle {
    Index chunk, firstQuery, firstKey, rows, columns;
  };

  GradientSums(KernelBuilder &kernel, ArgumentBlock &arguments,
               const BackwardTask &task, ScratchLayout &layout,
               mlir::Value scratch);

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
  void emitBlock(BackwardSite &site, mlir::Value scoreGradients,
                 const Rectangle &block);

private:
  enum class Source { Unused, ScoreGradient, Negated, Own };
  struct Sink {
    const Hoisted *hoisted = nullptr;
    unsigned tensor = 0; ///< partial sums
    Source source = Source::Unused;
    mlir::Value tile; ///< if the source is Own
  };

  void clearEdges(mlir::Value tile, const Rectangle &block);
  void addSum(mlir::Value addend, const Sink &sink, mlir::Value at);
  void addDiagonals(const Sink &sink, mlir::Value tile, mlir::Value to,
                    const Rectangle &block);
  void addAtOffsets(BackwardSite &site, const Sink &sink, mlir::Value tile,
                    mlir::Value to, const Rectangle &block);
  mlir::Value areDistinct(mlir::Value lanes);
  void moveTo(BackwardSite &site, const Rectangle &block, Index row,
              Index column);
  void addToTable(BackwardSite &site, const Sink &sink, mlir::Value tile,
                  mlir::Value to, const Rectangle &block, Index column);
  void addInPlace(BackwardSite &site, pos::HoistOp hoist,
                  mlir::Value cotangent);
  void addRows(const Sink &sink, mlir::Value tile, mlir::Value to,
               const Rectangle &block);
  void addColumns(const Sink &sink, mlir::Value tile, mlir::Value to,
                  const Rectangle &block);
  void addAll(const Sink &sink, mlir::Value tile, mlir::Value to,
              const Rectangle &block);

  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const BackwardTask &task;
  const BackwardShape &shape;
  ScratchLayout &layout;
  mlir::Value scratch;
  llvm::SmallVector<Sink> sinks;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_BACKWARD_GRADIENTSUMS_H

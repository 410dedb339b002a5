//===- FragmentGradients.h - P and dS that a thread holds -------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTGRADIENTS_H
#define SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTGRADIENTS_H

#include "codegen/CUDA/Sm80/BackwardTile.h"
#include "codegen/CUDA/Sm80/FragmentScores.h"

namespace sextant::codegen {

/// The probabilities of a tile and the gradients of its scores, in the order of
/// scores.
class FragmentGradients {
public:
  using Values = KernelBuilder::Values;

  FragmentGradients(ThreadBuilder &thread, FragmentPoint &point,
                    FragmentScores &scores, const FragmentOperands &launch,
                    const BackwardTile &tile)
      : thread(thread), kernel(thread.kernel), point(point), scores(scores),
        launch(launch), tile(tile) {}

  /// Stands at a tile, whose statistics are at an address of shared memory.
  void enterTile(mlir::Value statistics);
  /// P = exp2(score - shift) / sum, with `addend` added to each score (null:
  /// none).
  Values emitProbabilities(mlir::ValueRange scores, mlir::Value addend);
  /// P * (dP - delta): the cotangents of what the payload gives.
  Values emitCotangents(mlir::ValueRange probabilities,
                        mlir::ValueRange gradients);
  /// dS: these pulled back through the payload; `products` are what scores were
  /// made of. Behind it, one after the other, the wanted
  /// cotangents.
  Values emitScoreGradients(mlir::ValueRange products,
                            mlir::ValueRange probabilities,
                            mlir::ValueRange gradients,
                            const WantedCotangents &wanted);

private:
  /// Those of the thread's two columns of a group of eight.
  std::pair<mlir::Value, mlir::Value> load(Statistic statistic, int64_t group);
  /// Calls `body` for the elements of two columns each, with the number of the
  /// element and the column's statistic.
  void forElements(Statistic statistic,
                   llvm::function_ref<void(unsigned number, mlir::Value)> body);

  ThreadBuilder &thread;
  KernelBuilder &kernel;
  FragmentPoint &point;
  FragmentScores &scores;
  const FragmentOperands &launch;
  const BackwardTile &tile;
  mlir::Value statistics; ///< at the thread's first column
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTGRADIENTS_H

//===- FragmentScores.h - Scores that a thread holds ------------*- C++ -*-===//
//
// From products to probabilities, element by element. A payload that only adds
// to its argument adds to the product itself, in units of the product, and one
// multiply-add makes an exponent of the sum: a table costs one instruction.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTSCORES_H
#define SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTSCORES_H

#include "codegen/CUDA/Sm80/FragmentHingeProduct.h"

namespace sextant::codegen {

/// How scores are kept: a score times `exponentFactor` is one in base 2.
struct FragmentForm {
  explicit FragmentForm(const KernelPlan &plan);

  /// Of the product, before the payload.
  double productFactor = 1.0;
  /// Of what the payload adds, or gives.
  double payloadFactor = 1.0;
  double exponentFactor = 1.0;
};

/// The scores of a tile that a thread holds; of what the mask hides, or what
/// does not exist, those of hidden keys.
KernelBuilder::Values hideScores(KernelBuilder &kernel, FragmentPoint &point,
                                 const KernelPlan &plan, const ScoreTile &tile,
                                 mlir::ValueRange scores);

/// What a pullback gives besides the gradients of scores.
struct WantedCotangents {
  llvm::SmallVector<const Hoisted *> hoisted;
  llvm::SmallVector<unsigned> hingeSums; ///< numbers among plan.hingeSums
  size_t count() const { return hoisted.size() + hingeSums.size(); }
};

/// The scores of a tile that a thread holds, [block][8 columns][element].
class FragmentScores {
public:
  using Values = KernelBuilder::Values;

  FragmentScores(KernelBuilder &kernel, ArgumentBlock &arguments,
                 FragmentPoint &point, FragmentHinges &hinges,
                 FragmentHingeProduct &hingeProduct,
                 const FragmentOperands &launch, const ScoreTile &tile)
      : kernel(kernel), arguments(arguments), point(point), hinges(hinges),
        hingeProduct(hingeProduct), launch(launch), tile(tile),
        form(launch.plan), start(*kernel.builder.getInsertionBlock()) {}

  const FragmentForm &getForm() const { return form; }

  /// What is to be added to all scores of the tile at hand (f32); null for
  /// nothing.
  mlir::Value getAddend() const {
    return hingeProduct.exists() ? hingeProduct.getAddend() : mlir::Value();
  }
  /// The scores of products, but for that; `isVisible` (i1): the mask shows all
  /// of them, and all keys of the tile exist, in a backward all queries, too.
  Values emit(mlir::ValueRange products, mlir::Value isVisible);
  /// The gradients of products times the scale, from those of what a payload
  /// gives; behind them, one after the other, the wanted cotangents at all
  /// elements.
  Values pullBack(mlir::ValueRange products, mlir::ValueRange gradients,
                  const WantedCotangents &wanted);
  /// Emits a body that asks for values over offsets, and gives values of such
  /// types: once, or for each place where those come from.
  Values whereOffsetsAre(mlir::TypeRange types,
                         llvm::function_ref<Values()> body);

private:
  Values emitVisible(mlir::ValueRange products, mlir::Value isVisible);
  Values emitScores(mlir::ValueRange products);
  Values emitGroups(mlir::ValueRange products, bool isOneLine);
  mlir::Value emitScore(mlir::Value product);
  Values pullGroups(mlir::ValueRange products, mlir::ValueRange gradients,
                    const WantedCotangents &wanted, bool isOneLine);
  /// Whether the payload stands in a loop over columns.
  bool isLooped() const;

  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  FragmentPoint &point;
  FragmentHinges &hinges;
  FragmentHingeProduct &hingeProduct;
  const FragmentOperands &launch;
  const ScoreTile &tile;
  const FragmentForm form;
  /// Whether values over offsets are computed where the code stands.
  bool isRare = false;
  mlir::Block &start; ///< of the function
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTSCORES_H

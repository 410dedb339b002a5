//===- ScoreForm.h - From products to exponents of the softmax --*- C++ -*-===//
//
// The backward makes the probabilities of the forward again. Their sum is 1
// only if it makes the same scores, bit for bit: an error of one part in 2^24
// of a score of 10000 is one of a thousandth of a probability. So both
// directions make scores by the operations that stand here, of products with
// the same operands in the same order, and what the exponentials were shifted
// and divided by is kept as two numbers, never as their rounded log-sum-exp.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TILES_SCOREFORM_H
#define SEXTANT_CODEGEN_TILES_SCOREFORM_H

#include "codegen/Emit/KernelBuilder.h"
#include "codegen/Plan/KernelPlan.h"
#include <limits>
#include <optional>

namespace sextant::codegen {

/// The score of a hidden key, and the maximum of no keys: that a key is hidden
/// is a fact of the mask, and no finite score looks like it.
inline constexpr double hiddenScore = -std::numeric_limits<double>::infinity();

/// How a score is made of a product, the same way in both directions.
struct ScoreForm {
  /// `pairs`: products are dots of pairs of bf16, whose operands take no
  /// factor.
  ScoreForm(const KernelPlan &plan, bool pairs);

  /// The score payload adds to its argument and does nothing else with it.
  bool isAdditive = true;
  /// Of rows of the query where products read them, and of rows of the key.
  double queryFactor = 1.0, keyFactor = 1.0;
  /// Makes a product the argument of the payload, in base 2 if that is
  /// additive.
  double productFactor = 1.0;
  /// Makes a score, as it is kept, one in base 2; none: it is.
  std::optional<double> exponentFactor;

  /// Moves the factor of queries, if it is a power of two, to keys: the same
  /// bits, and rows of queries can be read where they lie.
  void moveFactorToKeys();

  /// From the units of scores, as they are kept, to natural logarithms.
  double getUnit() const;
  /// What makes a sum over query rows with their factor the gradient of the
  /// keys.
  double getKeyGradientFactor(double scale) const;

  using PayloadFunction = llvm::function_ref<mlir::Value(mlir::Value argument)>;
  /// The score of a product, of one head.
  mlir::Value emitScore(KernelBuilder &kernel, mlir::Value product,
                        PayloadFunction payload) const;
  /// What is subtracted from a score in base 2 whose exponential shall be 1.
  mlir::Value emitShift(KernelBuilder &kernel, mlir::Value score) const;
  /// A score in base 2 plus `negativeShift`.
  mlir::Value emitExponent(KernelBuilder &kernel, mlir::Value score,
                           mlir::Value negativeShift) const;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TILES_SCOREFORM_H

//===- ScoreForm.cpp - From products to exponents of the softmax ----------===//

#include "codegen/Tiles/ScoreForm.h"
#include <cmath>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using llvm::numbers::log2e;

ScoreForm::ScoreForm(const KernelPlan &plan, bool pairs) {
  pos::ScoreOp score = plan.score;
  // A payload of all heads is written out by its own emitter.
  isAdditive = plan.isAdditive;
  double factor = plan.scale * (isAdditive ? log2e : 1.0);
  if (plan.scoreHeads)
    exponentFactor = log2e;
  if (!pairs)
    queryFactor = factor;
  else if (!score && plan.scale > 0)
    exponentFactor = factor;
  else
    productFactor = factor;
}

void ScoreForm::moveFactorToKeys() {
  int exponent = 0;
  if (std::frexp(queryFactor, &exponent) == 0.5)
    std::swap(queryFactor, keyFactor);
}

double ScoreForm::getUnit() const {
  return llvm::numbers::ln2 * exponentFactor.value_or(1.0);
}

double ScoreForm::getKeyGradientFactor(double scale) const {
  double factor = static_cast<float>(queryFactor);
  return factor == 0.0 ? 0.0 : scale / factor;
}

Value ScoreForm::emitScore(KernelBuilder &kernel, Value product,
                           PayloadFunction payload) const {
  Value score = product;
  if (productFactor != 1.0)
    score = kernel.mulF(score, kernel.splatF32(productFactor));
  if (!payload)
    return score;
  // What is added to the score is what the payload makes of -0.
  Value lanes =
      kernel.broadcast(payload(isAdditive ? kernel.splatF32(-0.0) : score));
  Value base = kernel.splatF32(log2e);
  return isAdditive ? kernel.fma(lanes, base, score) : kernel.mulF(lanes, base);
}

/// Never contracted with a difference, in which it would have other bits.
Value ScoreForm::emitShift(KernelBuilder &kernel, Value score) const {
  if (!exponentFactor)
    return score;
  return arith::MulFOp::create(kernel.builder, kernel.loc, score,
                               kernel.splatF32(*exponentFactor));
}

/// Never contracted with a product that the score is: where a score comes from
/// memory there is none.
Value ScoreForm::emitExponent(KernelBuilder &kernel, Value score,
                              Value negativeShift) const {
  if (exponentFactor)
    return kernel.fma(score, kernel.splatF32(*exponentFactor), negativeShift);
  return arith::AddFOp::create(kernel.builder, kernel.loc, score,
                               negativeShift);
}

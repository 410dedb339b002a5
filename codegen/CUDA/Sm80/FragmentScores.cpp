//===- FragmentScores.cpp - Scores that a thread holds --------------------===//

#include "codegen/CUDA/Sm80/FragmentScores.h"
#include "codegen/CUDA/Sm80/ColumnLoop.h"
#include "codegen/CUDA/Sm80/PayloadMath.h"
#include "codegen/Tables/OffsetRange.h"
#include "codegen/Tables/PayloadCall.h"
#include "codegen/Tiles/ScoreForm.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using llvm::numbers::log2e;
using Values = KernelBuilder::Values;

/// A scale below this one makes numbers in units of products too large, and one
/// that is negative turns their order.
static constexpr double leastScale = 0x1p-16;
/// A few scores at a time have values of their functions in registers.
static constexpr size_t groupSize = 16;

FragmentForm::FragmentForm(const KernelPlan &plan) {
  bool isPlain = !plan.score || (plan.isAdditive && !plan.scoreHeads);
  if (isPlain && plan.scale >= leastScale) {
    payloadFactor = 1.0 / plan.scale;
    exponentFactor = plan.scale * log2e;
    return;
  }
  productFactor = isPlain ? plan.scale * log2e : plan.scale;
  payloadFactor = log2e;
}

/// Under given positions values over offsets come from tables, if those hold
/// all that are in use, or are computed here: that is known when the kernel
/// runs.
Values FragmentScores::whereOffsetsAre(TypeRange types,
                                       function_ref<Values()> body) {
  if (!usesOffsetsOfPositions(launch.plan))
    return body();
  OffsetRange range(kernel, arguments, *launch.sites.offsetRange);
  auto emitFrom = [&](TilePoint::Offsets source) {
    point.setOffsets(source);
    isRare = source == TilePoint::Offsets::InPlace;
    Values results = body();
    isRare = false;
    return results;
  };
  return kernel.choose(
      range.emitHasTables(), types,
      [&] { return emitFrom(TilePoint::Offsets::Tables); },
      [&] { return emitFrom(TilePoint::Offsets::InPlace); });
}

Values FragmentScores::emit(ValueRange products, Value isVisible) {
  return whereOffsetsAre(products.getTypes(),
                         [&] { return emitVisible(products, isVisible); });
}

Values FragmentScores::pullBack(ValueRange products, ValueRange gradients,
                                const WantedCotangents &wanted) {
  SmallVector<Type> types((1 + wanted.count()) * gradients.size(), kernel.f32);
  return whereOffsetsAre(types, [&] {
    auto pull = [&](bool isOneLine) {
      return pullGroups(products, gradients, wanted, isOneLine);
    };
    if (!hinges.areAny())
      return pull(/*isOneLine=*/true);
    return kernel.choose(
        hinges.enterTile(tile.getElements()), types,
        [&] { return pull(/*isOneLine=*/true); },
        [&] { return pull(/*isOneLine=*/false); });
  });
}

/// A payload that only adds needs no forward values.
Values FragmentScores::pullGroups(ValueRange products, ValueRange gradients,
                                  const WantedCotangents &wanted,
                                  bool isOneLine) {
  Block &payload = pos::ScoreOp(launch.plan.score).getBody().front();
  auto pull = [&](Value product, Value gradient) {
    Value argument = kernel.constantF32(-0.0);
    if (!launch.plan.isAdditive)
      argument = kernel.mulF(product, kernel.constantF32(form.productFactor));
    Values pulled{
        callPullback(kernel, payload, argument, gradient, point).front()};
    if (!launch.plan.isAdditive) {
      allowErrorsOf(argument);
      allowErrorsOf(gradient);
    }
    for (const Hoisted *hoisted : wanted.hoisted)
      pulled.push_back(point.getCotangent(hoisted->op));
    for (unsigned function : wanted.hingeSums)
      pulled.push_back(point.getCotangent(launch.plan.hingeSums[function]));
    for (Value &value : pulled)
      value = value ? value : kernel.constantF32(0);
    return pulled;
  };
  if (isLooped())
    return ColumnLoop(kernel, point, tile, start)
        .run({products, gradients}, 1 + wanted.count(),
             [&](ValueRange numbers) { return pull(numbers[0], numbers[1]); });
  SmallVector<Values> results(1 + wanted.count());
  SmallVector<FragmentElement> all = tile.getElements();
  for (size_t first = 0; first < all.size(); first += groupSize) {
    auto group = ArrayRef(all).slice(first, groupSize);
    hinges.fill(group, isOneLine);
    hinges.fillSlopes(group, isOneLine);
    for (auto [element, product, gradient] :
         llvm::zip_equal(group, products.slice(first, groupSize),
                         gradients.slice(first, groupSize))) {
      point.setElement(element);
      for (auto [result, value] :
           llvm::zip_equal(results, pull(product, gradient)))
        result.push_back(value);
    }
  }
  Values flat;
  for (const Values &own : results)
    llvm::append_range(flat, own);
  return flat;
}

/// Functions of hinges are evaluated for groups of scores. What is rare should
/// not take the room of what is not.
bool FragmentScores::isLooped() const {
  pos::ScoreOp op = launch.plan.score;
  return op && !hinges.areAny() &&
         (isRare || standsInLoop(op.getBody().front()));
}

Values FragmentScores::emitVisible(ValueRange products, Value isVisible) {
  Values scores = emitScores(products);
  return kernel.choose(
      isVisible, ValueRange(scores).getTypes(), [&] { return scores; },
      [&] { return hideScores(kernel, point, launch.plan, tile, scores); });
}

Values FragmentScores::emitScores(ValueRange products) {
  if (!hinges.areAny())
    return emitGroups(products, /*isOneLine=*/true);
  if (hingeProduct.exists())
    return hingeProduct.emit(
        products, [&] { return emitGroups(products, /*isOneLine=*/false); });
  Value isOneLine = hinges.enterTile(tile.getElements());
  return kernel.choose(
      isOneLine, products.getTypes(),
      [&] { return emitGroups(products, /*isOneLine=*/true); },
      [&] { return emitGroups(products, /*isOneLine=*/false); });
}

Values FragmentScores::emitGroups(ValueRange products, bool isOneLine) {
  if (isLooped())
    return ColumnLoop(kernel, point, tile, start)
        .run({products}, 1, [&](ValueRange numbers) -> Values {
          return {emitScore(numbers[0])};
        });
  SmallVector<FragmentElement> all = tile.getElements();
  Values scores;
  for (size_t first = 0; first < all.size(); first += groupSize) {
    auto group = ArrayRef(all).slice(first, groupSize);
    hinges.fill(group, isOneLine);
    for (auto [element, product] :
         llvm::zip_equal(group, products.slice(first, groupSize))) {
      point.setElement(element);
      scores.push_back(emitScore(product));
    }
  }
  return scores;
}

Value FragmentScores::emitScore(Value product) {
  Value score = product;
  auto factor = [&](double value) { return kernel.constantF32(value); };
  if (form.productFactor != 1.0)
    score = kernel.mulF(score, factor(form.productFactor));
  pos::ScoreOp op = launch.plan.score;
  if (!op)
    return score;
  auto call = [&](Value argument) {
    return callPayload(kernel, op.getBody().front(), argument, point).front();
  };
  // What is added to the score is what the payload makes of -0.
  if (launch.plan.isAdditive)
    return kernel.fma(call(factor(-0.0)), factor(form.payloadFactor), score);
  Value result = kernel.mulF(call(score), factor(form.payloadFactor));
  allowErrorsOf(score);
  return result;
}

Values codegen::hideScores(KernelBuilder &kernel, FragmentPoint &point,
                           const KernelPlan &plan, const ScoreTile &tile,
                           ValueRange scores) {
  Values seen;
  for (auto [score, element] : llvm::zip_equal(scores, tile.getElements())) {
    point.setElement(element);
    Value isSeen = point.exists(pos::Side::key);
    // Rows of queries past the end are dropped, but not where they are summed
    // up.
    if (tile.rowSide == pos::Side::key)
      isSeen = kernel.both(isSeen, point.exists(pos::Side::query));
    if (pos::MaskOp op = plan.mask)
      isSeen = kernel.both(
          isSeen, callPayload(kernel, op.getBody().front(), {}, point).front());
    seen.push_back(
        kernel.selectF(isSeen, score, kernel.constantF32(hiddenScore)));
  }
  return seen;
}

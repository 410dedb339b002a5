//===- FragmentGradients.cpp - P and dS that a thread holds ---------------===//

#include "codegen/CUDA/Sm80/FragmentGradients.h"
#include "codegen/Tables/PayloadCall.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

void FragmentGradients::enterTile(Value address) {
  statistics = thread.advance(address, thread.mul(point.column, wordBytes));
}

std::pair<Value, Value> FragmentGradients::load(Statistic statistic,
                                                int64_t group) {
  int64_t word =
      static_cast<int64_t>(statistic) * tile.columns + group * fragmentColumns;
  return thread.loadPair(thread.advance(statistics, wordBytes * word));
}

void FragmentGradients::forElements(Statistic statistic,
                                    function_ref<void(unsigned, Value)> body) {
  for (int64_t group = 0; group < tile.countGroups(); ++group) {
    auto [even, odd] = load(statistic, group);
    for (int64_t block = 0; block < tile.blocks; ++block)
      for (int64_t element = 0; element < fragmentElements; ++element)
        body(tile.getNumber(block, group, element), element % 2 ? odd : even);
  }
}

/// By the operations of the forward (FragmentSoftmax.cpp): an error of a score
/// is one of its probability.
Values FragmentGradients::emitProbabilities(ValueRange all, Value addend) {
  Values results(all);
  double factor = scores.getForm().exponentFactor;
  llvm::DenseMap<Value, Value> shifts;
  forElements(Statistic::NegativeShift, [&](unsigned number, Value negative) {
    Value &shift = shifts[negative];
    if (!shift)
      shift = addend ? kernel.fma(addend, kernel.constantF32(factor), negative)
                     : negative;
    Value exponent =
        factor == 1.0
            ? kernel.addF(all[number], shift)
            : kernel.fma(all[number], kernel.constantF32(factor), shift);
    results[number] = thread.exp2(exponent);
  });
  forElements(Statistic::InverseSum, [&](unsigned number, Value inverse) {
    results[number] = kernel.mulF(results[number], inverse);
  });
  return results;
}

Values FragmentGradients::emitCotangents(ValueRange probabilities,
                                         ValueRange gradients) {
  Values results(gradients);
  forElements(Statistic::NegativeDelta, [&](unsigned number, Value delta) {
    results[number] = kernel.mulF(kernel.addF(gradients[number], delta),
                                  probabilities[number]);
  });
  return results;
}

Values FragmentGradients::emitScoreGradients(ValueRange products,
                                             ValueRange probabilities,
                                             ValueRange gradients,
                                             const WantedCotangents &wanted) {
  Values results = emitCotangents(probabilities, gradients);
  if (launch.plan.score)
    return scores.pullBack(products, results, wanted);
  // What only a mask reads has no gradient.
  results.append(wanted.count() * gradients.size(), kernel.constantF32(0));
  return results;
}

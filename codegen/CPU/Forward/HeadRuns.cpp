//===- HeadRuns.cpp - Heads that share keys and values --------------------===//

#include "codegen/CPU/Forward/HeadRuns.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

HeadRuns::HeadRuns(KernelBuilder &kernel, Index group, Index most)
    : kernel(kernel), group(group), perGroup(kernel.ceilDiv(group, most)),
      length(kernel.ceilDiv(group, perGroup)) {}

Index HeadRuns::find(Index head) const {
  return kernel.add(kernel.mul(kernel.div(head, group), perGroup),
                    kernel.div(kernel.rem(head, group), length));
}

KernelBuilder::Range HeadRuns::clip(Index run,
                                    KernelBuilder::Range range) const {
  Index begin = kernel.mul(kernel.div(run, perGroup), group);
  Index first =
      kernel.add(begin, kernel.mul(kernel.rem(run, perGroup), length));
  Index end = kernel.min(kernel.add(first, length), kernel.add(begin, group));
  return {kernel.max(first, range.low), kernel.min(end, range.high)};
}

void HeadRuns::forEach(
    KernelBuilder::Range range,
    function_ref<void(Index first, Index count)> body) const {
  Index first = find(range.low);
  Index last = find(kernel.sub(range.high, 1));
  Index end = kernel.select(kernel.less(range.low, range.high),
                            kernel.add(last, 1), first);
  kernel.loop(first, end, 1, [&](Value run) {
    auto [low, high] = clip(run, range);
    body(low, kernel.sub(high, low));
  });
}

//===- ScanSweep.h - Keys in the order of running sums ----------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CPU_FORWARD_SCANSWEEP_H
#define SEXTANT_CODEGEN_CPU_FORWARD_SCANSWEEP_H

#include "codegen/CPU/Forward/ForwardItem.h"

namespace sextant::codegen {

/// Takes the running sums of scans (`pos.scan`) from group to group of keys, in
/// the direction in which they run.
class ScanSweep {
public:
  explicit ScanSweep(ForwardItem &item)
      : item(item), kernel(item.kernel), plan(item.launch.plan),
        sums(item.layout.reserve(plan.scans.size() *
                                 item.launch.countQueries())) {}

  /// The first of `step` places of a range, in the direction of the scans.
  Index inOrder(Index first, Index count, int64_t step) const {
    if (!plan.isLeftward())
      return first;
    Index last = kernel.mul(kernel.div(kernel.sub(count, 1), step), step);
    return kernel.sub(last, first);
  }
  /// Clears the sums of a vector of queries of the panel.
  void clear(Index lane) {
    for (size_t scan = 0; scan < plan.scans.size(); ++scan)
      kernel.storeVector(kernel.splatF32(0),
                         item.at(sums, {item.getQuery(lane),
                                        scan * item.launch.countQueries()}));
  }
  void enterPanel() { panelSums = item.ofPanel(sums); }
  /// Emits what a group does with the sums; twice, where they may have reached
  /// their limits: then scans are not run.
  KernelBuilder::Values run(mlir::TypeRange types,
                            llvm::function_ref<KernelBuilder::Values()> group) {
    if (plan.scans.empty())
      return group();
    ForwardPoint &point = item.point;
    point.scans.enter(panelSums, item.launch.countQueries(),
                      item.launch.vectors);
    auto runGroup = [&](bool isSaturated) {
      point.scans.setSaturated(isSaturated);
      KernelBuilder::Values results = group();
      if (!isSaturated)
        point.scans.store();
      return results;
    };
    mlir::Value isSaturated = point.scans.emitSaturated();
    if (!isSaturated)
      return runGroup(false);
    return kernel.choose(
        isSaturated, types, [&] { return runGroup(true); },
        [&] { return runGroup(false); });
  }

private:
  ForwardItem &item;
  KernelBuilder &kernel;
  const KernelPlan &plan;
  int64_t sums; ///< in scratch memory: [scans][panels * panel]
  mlir::Value panelSums;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_FORWARD_SCANSWEEP_H

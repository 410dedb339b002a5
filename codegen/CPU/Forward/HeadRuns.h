//===- HeadRuns.h - Heads that share keys and values ------------*- C++ -*-===//
//
// Items of few queries are heads. A range of them is cut into runs, whose heads
// have one head of keys: keys and values then pass once per run, and not once
// per head. A run is as long as the range and the memory of an item allow, so
// that few threads read least and many still have a range each.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_FORWARD_HEADRUNS_H
#define SEXTANT_CODEGEN_CPU_FORWARD_HEADRUNS_H

#include "codegen/Emit/KernelBuilder.h"

namespace sextant::codegen {

/// The heads of all elements of the batch, in runs that share keys.
class HeadRuns {
public:
  /// `group` heads share keys, of which a run has `most` at most.
  HeadRuns(KernelBuilder &kernel, Index group, Index most);

  /// The number of the run that a head is in, were it alone.
  Index find(Index head) const;
  /// Heads of a run that are among those of `range`.
  KernelBuilder::Range clip(Index run, KernelBuilder::Range range) const;
  /// Calls `body` for the runs of a range, which may be empty.
  void forEach(KernelBuilder::Range range,
               llvm::function_ref<void(Index first, Index count)> body) const;

private:
  KernelBuilder &kernel;
  Index group;
  Index perGroup; ///< runs, as even as can be
  Index length;   ///< heads of a run, of the last one of a group fewer
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_FORWARD_HEADRUNS_H

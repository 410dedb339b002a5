//===- PendingChecks.h - Checks of data that a device computes --*- C++ -*-===//
//
// What a program checks of its data is known to the device only when it has
// come so far, and a step does not wait for it. The element is copied to memory
// of the host that the device writes to, in the order of the other work, and
// later calls look at what has arrived. A call that a CUDA graph has captured
// copies at each replay, to memory that no other check has.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_CUDA_PENDINGCHECKS_H
#define SEXTANT_RUNTIME_CUDA_PENDINGCHECKS_H

#include "runtime/Device.h"
#include "runtime/cuda/Driver.h"
#include <deque>
#include <mutex>

namespace sextant::runtime::cuda {

/// The checks of one device. It lives as long as the process: a graph may be
/// replayed at any time.
class PendingChecks {
public:
  explicit PendingChecks(const Driver &driver) : driver(driver) {}

  /// Counts a run, and looks at what runs before it have left.
  Status begin();
  /// Has the element copied on `stream`; `captured` by a graph.
  Status add(Stream stream, const DataCheck &check, bool captured);
  /// The first failure among the checks whose elements have arrived, which are
  /// done with.
  Status look();

private:
  Status makeRoom();
  struct Pending {
    int64_t *slot;
    Predicate predicate;
    int64_t bound;
    std::string message;
    int64_t run;
    bool captured;
  };

  const Driver &driver;
  std::mutex mutex;
  int64_t runs = 0;
  std::deque<Pending> pending;
  std::vector<int64_t *> free; ///< slots of memory that the device writes to
};

} // namespace sextant::runtime::cuda

#endif // SEXTANT_RUNTIME_CUDA_PENDINGCHECKS_H

//===- Device.h - What a device does for a program --------------*- C++ -*-===//
//
// A struct of few operations. A device lives as long as the process; `state`
// is its own and is handed back at every call. Calls may come from several
// threads.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_DEVICE_H
#define SEXTANT_RUNTIME_DEVICE_H

#include "runtime/ArtifactReader.h"

namespace sextant::runtime {

/// A dense operator that a device has looked up, ready to be called.
struct ResolvedOperator {
  virtual ~ResolvedOperator() = default;
  /// Floating-point operations of a call with these tensors, for profiles; -1
  /// where nobody counts them.
  virtual int64_t countFlops(const Dense &call, std::span<const Tensor> tensors,
                             std::span<const Tensor> outputs) const {
    return -1;
  }
  /// Whether a call changes an argument in place, and whether its results may
  /// share the argument's memory.
  virtual bool writes(size_t argument) const { return false; }
  virtual bool shares(size_t argument) const { return false; }
};

struct Device {
  const char *name;
  void *state;

  /// A contiguous tensor; its memory is aligned to 64 bytes and undefined
  /// unless `zero`. The sizes have passed countElements.
  Result<Tensor> (*allocate)(void *state, DType dtype,
                             std::span<const int64_t> sizes, bool zero);

  /// How many threads `parallel` may use now.
  int64_t (*threads)(void *state);

  /// Calls work(context, i) for every i in [0, workers), on any threads, and
  /// returns when all are done.
  Status (*parallel)(void *state, int64_t workers,
                     void (*work)(void *context, int64_t worker),
                     void *context);

  /// Optional (null: the device has no dense operators): looks the operator up
  /// and checks its arguments, at load.
  Result<std::unique_ptr<ResolvedOperator>> (*resolve)(void *state,
                                                       const Dense &call);

  /// Optional, with `resolve`: calls the operator. Gives one tensor per output
  /// of `call`.
  Result<std::vector<Tensor>> (*call)(void *state,
                                      const ResolvedOperator &resolved,
                                      const Dense &call,
                                      std::span<const Tensor> tensors,
                                      std::span<const int64_t> integers);
};

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_DEVICE_H

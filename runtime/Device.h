//===- Device.h - What a device does for a program --------------*- C++ -*-===//
//
// A device is a struct of few operations, and the only one that touches the
// memory of tensors: their addresses may mean nothing to the host. A device
// lives as long as the process; `state` is its own and is handed back at every
// call. Calls may come from several threads. What a device is asked for happens
// in that order; the host waits for it where it is said.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_DEVICE_H
#define SEXTANT_RUNTIME_DEVICE_H

#include "runtime/DataCheck.h"

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
  /// Whether the sizes of a result depend on what the operands hold: the host
  /// waits until they are known.
  virtual bool waits() const { return false; }
};

/// A function of the host that runs the work items `begin` to `end` - 1 of a
/// launch, with scratch memory of its own (see exec.launch).
using HostFunction = void (*)(const int64_t *arguments, int64_t begin,
                              int64_t end, void *scratch);

/// The entry of a kernel among what a device has loaded.
struct DeviceFunction {
  void *entry;
};

/// Code that a device has loaded into its own memory, until this goes.
struct DeviceCode {
  virtual ~DeviceCode() = default;
  /// The entry of a name, or an error that names it.
  virtual Result<DeviceFunction> find(const std::string &kernel) const = 0;
};

/// A kernel of a loaded program: its code, and functions of the host that say
/// how large a launch is. Those read sizes, strides and scalars of the argument
/// block, but no memory of tensors, wherever the code runs.
struct Kernel {
  /// A function of the host, or one that the device has loaded; the kind is the
  /// device's.
  std::variant<HostFunction, DeviceFunction> code;
  int64_t (*items)(const int64_t *arguments);
  int64_t (*scratch)(const int64_t *arguments);
  /// FLOP where they depend on what tensors hold, which this one reads: only
  /// for memory of the host. Null where the launch says.
  int64_t (*flops)(const int64_t *arguments);
  /// Where code can fail: what went wrong in it since this was asked last.
  Status (*takeFailure)() = nullptr;
  /// On a GPU: threads of a block that runs one item at a time; null where a
  /// warp runs a range of items.
  int64_t (*threads)(const int64_t *arguments) = nullptr;
  /// And bytes of memory that the threads of a block share; null: none.
  int64_t (*shared)(const int64_t *arguments) = nullptr;
  /// On the host: how many items, from a multiple of that number on, share what
  /// they read where they are of one range; null: 1.
  int64_t (*together)(const int64_t *arguments) = nullptr;
};

/// What a device could do at best, as it says of itself.
struct DevicePeak {
  double flops; ///< of multiply-adds of f32, per second
  double bytes; ///< from its memory, per second
};

/// What a device keeps during one run of a function, such as scratch memory or
/// a stream; its deleter ends the run.
using Session = std::unique_ptr<void, void (*)(void *)>;

/// The operations of a device. One that is optional may be null.
struct Device {
  const char *name;
  void *state;

  /// Whether the host reads and writes tensors at their addresses.
  bool hasHostMemory;

  /// A contiguous tensor of undefined contents; its memory is aligned to 64
  /// bytes. The sizes have passed countElements.
  Result<Tensor> (*allocate)(void *state, DType dtype,
                             std::span<const int64_t> sizes);

  /// Optional (null: `allocate`): the same for a tensor that launches of a run
  /// alone use.
  Result<Tensor> (*allocateTemporary)(void *state, DType dtype,
                                      std::span<const int64_t> sizes);

  /// Sets memory of the device to zero. Here and below, `bytes` is positive.
  Status (*fillZero)(void *state, void *memory, int64_t bytes);

  /// Copies memory of the device to another place of it.
  Status (*copy)(void *state, void *to, const void *from, int64_t bytes);

  /// Copies memory of the host to the device, or back, and waits. Afterwards
  /// the host's memory may be changed, or read.
  Status (*copyIn)(void *state, void *to, const void *from, int64_t bytes);
  Status (*copyOut)(void *state, void *to, const void *from, int64_t bytes);

  /// Optional, both or none (null: kernels are functions of the host): whether
  /// the device runs the code of an object that is none of the host, and what
  /// brings it there.
  bool (*runs)(void *state, const Object &object);
  Result<std::unique_ptr<DeviceCode>> (*loadCode)(void *state,
                                                  const Object &object);

  /// Optional (null: the device keeps nothing): begins a run. The error may be
  /// that of a check of an earlier one.
  Result<Session> (*begin)(void *state);

  /// Optional (null: no run is): whether the run is captured, to be replayed,
  /// where nobody may wait.
  bool (*isCaptured)(void *session);

  /// Launches a kernel on an argument block, which is free again afterwards,
  /// and gives the number of its work items. `session` is what `begin` gave.
  Result<int64_t> (*launch)(void *state, void *session, const Kernel &kernel,
                            std::span<const int64_t> arguments);

  /// Optional (null: the host copies the element and waits for it): makes a
  /// check when its element is known, if later.
  Status (*defer)(void *state, void *session, const DataCheck &check);

  /// Optional, both or none (null: work is done when a call returns): a mark in
  /// the order of the device's work, and the nanoseconds from one to another,
  /// which waits.
  Result<std::shared_ptr<void>> (*mark)(void *state, void *session);
  Result<int64_t> (*getTime)(void *state, void *from, void *to);

  /// Optional (null: the device does not say).
  Result<DevicePeak> (*getPeak)(void *state);

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

/// A contiguous tensor of these bytes, fresh in the device's memory.
Result<Tensor> makeTensor(const Device &device, DType dtype,
                          std::span<const int64_t> sizes, const void *bytes);

/// Tensors of the host device as tensors of `device`, with the same strides,
/// and tensors of `device` where the host reads them. Nothing is copied if they
/// are that already.
Result<std::vector<Tensor>> copyToDevice(const Device &device,
                                         std::span<const Tensor> tensors);
Result<std::vector<Tensor>> copyToHost(const Device &device,
                                       std::span<const Tensor> tensors);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_DEVICE_H

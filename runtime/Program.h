//===- Program.h - A loaded artifact ----------------------------*- C++ -*-===//
//
// Loading is the second step (parse, initialise, execute): it brings code into
// memory and turns names into addresses. A program does not change after
// loading and may be run by several threads at once.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_PROGRAM_H
#define SEXTANT_RUNTIME_PROGRAM_H

#include "runtime/InPlace.h"
#include "runtime/SharedObject.h"

namespace sextant::runtime {

/// A loaded artifact, ready to run on one device.
class Program {
public:
  /// Reads, checks and loads an artifact, of a fat one the program for the
  /// device; `bytes` may go afterwards.
  static Result<std::unique_ptr<Program>> load(std::span<const uint8_t> bytes,
                                               const Device &device);
  /// Loads one that has been read.
  static Result<std::unique_ptr<Program>> load(Artifact artifact,
                                               const Device &device);
  /// Loads the one for the device of those that have been read, which programs
  /// on other devices share.
  static Result<std::unique_ptr<Program>>
  load(const std::shared_ptr<const std::vector<Artifact>> &artifacts,
       const Device &device);

  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;
  ~Program();

  const Artifact &getArtifact() const { return artifact; }
  const Device &getDevice() const { return device; }
  const Kernel &getKernel(uint32_t number) const { return kernels[number]; }
  /// Whether kernels are those of another machine, run by an emulator.
  bool isEmulated() const { return emulated; }
  /// The number of a function of the artifact, or an error that lists them.
  Result<size_t> find(std::string_view function) const;
  /// The operator of a dense instruction.
  const ResolvedOperator &getOperator(size_t function,
                                      size_t instruction) const {
    return *operators[function][instruction];
  }
  /// What a function changes in place.
  const Changes &getChanges(size_t function) const { return changes[function]; }
  /// Whether launches of a run alone use a tensor.
  bool isTemporary(size_t function, uint32_t tensor) const {
    return temporaries[function][tensor];
  }
  /// Data of the artifact in memory of the device, which no call changes.
  const Tensor &getConstant(uint32_t data) const { return constants[data]; }
  /// What an instruction is called in errors: its number, kernel or operator,
  /// and label.
  std::string describe(size_t function, size_t instruction) const;

private:
  Program(std::shared_ptr<const Artifact> owner, const Device &device)
      : owner(std::move(owner)), artifact(*this->owner), device(device) {}
  static Result<std::unique_ptr<Program>>
  loadShared(std::shared_ptr<const Artifact> artifact, const Device &device);
  Status loadObjects();
  Status loadKernels();
  Result<decltype(Kernel::code)> loadHostFunction(const KernelName &kernel);
  Result<decltype(Kernel::code)> loadDeviceFunction(const KernelName &kernel);
  Status checkLaunches() const;
  Status resolveOperators();
  Status loadConstants();

  std::shared_ptr<const Artifact> owner;
  const Artifact &artifact;
  const Device &device;
  /// Per object of the artifact: code of the host, and what the device took or
  /// refused.
  std::vector<std::optional<SharedObject>> objects;
  std::vector<std::optional<Result<std::unique_ptr<DeviceCode>>>> deviceCode;
  std::vector<Kernel> kernels;
  bool emulated = false;
  /// Per function and instruction; null where the instruction is not dense.
  std::vector<std::vector<std::unique_ptr<ResolvedOperator>>> operators;
  std::vector<Changes> changes; ///< per function
  /// Per function and tensor (Temporaries.h).
  std::vector<std::vector<bool>> temporaries;
  /// Per data of the artifact; empty where it is no constant of a function.
  std::vector<Tensor> constants;
};

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_PROGRAM_H

//===- Gpu.h - A GPU, and the code that it runs -----------------*- C++ -*-===//
//
// A GPU is known by the index that CUDA gives it. It runs machine code of its
// architecture and, by the driver's compiler, PTX of that and earlier ones.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_CUDA_GPU_H
#define SEXTANT_RUNTIME_CUDA_GPU_H

#include "runtime/Device.h"
#include "runtime/cuda/Driver.h"

namespace sextant::runtime::cuda {

/// "sm_80", "sm_90a": `generation` 8, `revision` 0; what ends in a letter runs
/// on that architecture alone.
struct Architecture {
  int generation = 0, revision = 0;
  bool exact = false;

  /// Nothing where the text is no architecture of this kind.
  static std::optional<Architecture> parse(std::string_view text);
};

/// A GPU with its primary context, which LibTorch uses too.
struct Gpu {
  const Driver *driver;
  int index;
  Context context;
  std::string name;
  Architecture architecture;
  int multiprocessors;
  int sharedBytes = 0; ///< that a block may have

  /// The GPU of an index, or an error that says how many there are.
  static Result<Gpu> open(const Driver &driver, int index);

  /// From the clocks and widths that the driver states.
  Result<DevicePeak> getPeak() const;

  bool runs(const Object &object) const;
  Result<std::unique_ptr<DeviceCode>> load(const Object &object) const;
};

} // namespace sextant::runtime::cuda

#endif // SEXTANT_RUNTIME_CUDA_GPU_H

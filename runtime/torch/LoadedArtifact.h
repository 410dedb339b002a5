//===- LoadedArtifact.h - An artifact on LibTorch's devices ----*- C++ -*-===//
//
// A program belongs to one device. An artifact is loaded on each device whose
// tensors it is given, at the first call with them.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_TORCH_LOADEDARTIFACT_H
#define SEXTANT_RUNTIME_TORCH_LOADEDARTIFACT_H

#include "runtime/Program.h"
#include "runtime/torch/TorchTensor.h"
#include <map>
#include <mutex>

namespace sextant::runtime {

/// An artifact and its programs; serves several threads.
class LoadedArtifact {
public:
  /// `bytes` is a contiguous tensor of u8, which is read once and may go
  /// afterwards. What is for the CPU is loaded there at once.
  static Result<std::shared_ptr<LoadedArtifact>>
  load(const torch::stable::Tensor &bytes);

  /// Its programs: several of a fat one, which agree in all that callers see.
  std::span<const Artifact> getArtifacts() const { return *artifacts; }
  const Artifact &getArtifact() const { return getArtifacts().front(); }
  /// The program on a device.
  Result<const Program *> on(TorchPlace place);

private:
  explicit LoadedArtifact(std::vector<Artifact> artifacts)
      : artifacts(std::make_shared<const std::vector<Artifact>>(
            std::move(artifacts))) {}

  std::shared_ptr<const std::vector<Artifact>> artifacts;
  /// Of what has a program for this CPU: found without a lock, which a child of
  /// a fork might have from a thread that it has not.
  std::unique_ptr<Program> hostProgram;
  std::mutex mutex;
  std::map<TorchPlace, std::unique_ptr<Program>> programs;
};

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_TORCH_LOADEDARTIFACT_H

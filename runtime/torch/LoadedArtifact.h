//===- LoadedArtifact.h - An artifact on the devices of LibTorch -*- C++
//-*-===//
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
  /// `bytes` is kept: a contiguous tensor of u8. What is for the CPU alone is
  /// loaded there at once.
  static Result<std::shared_ptr<LoadedArtifact>>
  load(const torch::stable::Tensor &bytes);

  const Artifact &getArtifact() const {
    return hostProgram ? hostProgram->getArtifact() : *artifact;
  }
  /// The program on a device.
  Result<const Program *> on(TorchPlace place);

private:
  explicit LoadedArtifact(torch::stable::Tensor bytes)
      : bytes(std::move(bytes)) {}

  torch::stable::Tensor bytes;
  std::optional<Artifact> artifact; ///< where there is no hostProgram
  /// Of an artifact for the CPU alone: found without a lock, which a child of a
  /// fork might have from a thread that it has not.
  std::unique_ptr<Program> hostProgram;
  std::mutex mutex;
  std::map<TorchPlace, std::unique_ptr<Program>> programs;
};

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_TORCH_LOADEDARTIFACT_H

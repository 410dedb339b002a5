//===- LoadedArtifact.cpp - An artifact on the devices of LibTorch --------===//

#include "runtime/torch/LoadedArtifact.h"
#include "runtime/torch/TorchCudaDevice.h"
#include "runtime/torch/TorchDevice.h"
#include <algorithm>

using namespace sextant::runtime;

static std::span<const uint8_t> getBytes(const Tensor &tensor) {
  return {static_cast<const uint8_t *>(tensor.data),
          static_cast<size_t>(tensor.elements())};
}

Result<std::shared_ptr<LoadedArtifact>>
LoadedArtifact::load(const torch::stable::Tensor &bytes) {
  Result<Tensor> buffer = fromTorch(bytes);
  if (!buffer)
    return buffer.error();
  if (buffer->dtype != DType::U8 || buffer->rank != 1 ||
      !buffer->isContiguous() || !getPlace(bytes).isHost())
    return makeError("an artifact is given as a contiguous tensor of uint8 "
                     "with one dimension, on the CPU");
  Result<Artifact> artifact = readArtifact(getBytes(*buffer));
  if (!artifact)
    return artifact.error();
  bool isForHost = std::all_of(
      artifact->kernels.begin(), artifact->kernels.end(),
      [](const KernelName &kernel) { return kernel.deviceObjects.empty(); });
  std::shared_ptr<LoadedArtifact> loaded(new LoadedArtifact(bytes));
  if (!isForHost) {
    loaded->artifact = std::move(*artifact);
    return loaded;
  }
  Result<std::unique_ptr<Program>> program =
      Program::load(std::move(*artifact), getTorchDevice());
  if (!program)
    return program.error();
  loaded->hostProgram = std::move(*program);
  return loaded;
}

Result<const Program *> LoadedArtifact::on(TorchPlace place) {
  if (place.isHost() && hostProgram)
    return hostProgram.get();
  std::lock_guard lock(mutex);
  std::unique_ptr<Program> &program = programs[place];
  if (program)
    return program.get();
  Result<const Device *> device =
      place.isHost() ? Result<const Device *>(&getTorchDevice())
                     : getTorchCudaDevice(place.index);
  if (!device)
    return device.error();
  Result<Tensor> buffer = fromTorch(bytes);
  if (!buffer)
    return buffer.error();
  Result<std::unique_ptr<Program>> made =
      Program::load(getBytes(*buffer), **device);
  if (!made)
    return made.error();
  program = std::move(*made);
  return program.get();
}

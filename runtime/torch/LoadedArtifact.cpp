//===- LoadedArtifact.cpp - An artifact on the devices of LibTorch --------===//

#include "runtime/torch/LoadedArtifact.h"
#include "runtime/ProgramChoice.h"
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
  Result<std::vector<Artifact>> artifacts = readArtifacts(getBytes(*buffer));
  if (!artifacts)
    return artifacts.error();
  std::shared_ptr<LoadedArtifact> loaded(
      new LoadedArtifact(std::move(*artifacts)));
  std::span<const Artifact> read = loaded->getArtifacts();
  if (std::none_of(read.begin(), read.end(), isForHost))
    return loaded;
  Result<std::unique_ptr<Program>> program =
      Program::load(loaded->artifacts, getTorchDevice());
  if (program)
    loaded->hostProgram = std::move(*program);
  // Where this CPU runs none of several, a call with its tensors says so.
  else if (read.size() == 1)
    return program.error();
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
  Result<std::unique_ptr<Program>> made = Program::load(artifacts, **device);
  if (!made)
    return made.error();
  program = std::move(*made);
  return program.get();
}

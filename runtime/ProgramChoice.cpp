//===- ProgramChoice.cpp - Which program a device runs --------------------===//
//
// What code is for is known without loading it.
//
//===----------------------------------------------------------------------===//

#include "runtime/ProgramChoice.h"
#include "runtime/CpuFeatures.h"
#include <algorithm>

using namespace sextant;
using namespace sextant::runtime;

std::string runtime::describe(const Object &object) {
  switch (object.kind) {
  case ObjectKind::SharedObject:
    return "an ELF shared object for '" + object.architecture + "'";
  case ObjectKind::Cubin:
    return "machine code for '" + object.architecture + "'";
  case ObjectKind::Ptx:
    return "PTX for '" + object.architecture + "'";
  }
  return "of the unknown kind " +
         std::to_string(static_cast<int>(object.kind)) + " for '" +
         object.architecture + "'";
}

bool runtime::isForHost(const Artifact &artifact) {
  return std::all_of(
      artifact.kernels.begin(), artifact.kernels.end(),
      [](const KernelName &kernel) { return kernel.deviceObjects.empty(); });
}

/// Why a device does not run a program's kernels; empty if it does.
static std::string findObstacle(const Artifact &artifact,
                                const Device &device) {
  for (const Object &object : artifact.objects) {
    if (object.kind != ObjectKind::SharedObject)
      continue;
    if (object.architecture != hostArchitecture)
      return describe(object);
    if (Status status = checkCpuFeatures(object.features); !status)
      return status.error().message();
  }
  for (const KernelName &kernel : artifact.kernels) {
    auto runs = [&](uint32_t number) {
      return device.runs && device.runs(device.state, artifact.objects[number]);
    };
    if (device.runs ? std::none_of(kernel.deviceObjects.begin(),
                                   kernel.deviceObjects.end(), runs)
                    : !kernel.deviceObjects.empty())
      return kernel.deviceObjects.empty()
                 ? "code of the host"
                 : describe(artifact.objects[kernel.deviceObjects.front()]);
  }
  return "";
}

Result<size_t> runtime::chooseProgram(std::span<const Artifact> artifacts,
                                      const Device &device) {
  if (artifacts.size() == 1)
    return size_t(0);
  std::string seen;
  for (size_t number = 0; number < artifacts.size(); ++number) {
    std::string obstacle = findObstacle(artifacts[number], device);
    if (obstacle.empty())
      return number;
    seen += (seen.empty() ? "'" : "; '") + artifacts[number].target +
            "': " + obstacle;
  }
  return makeError("the device '", device.name,
                   "' runs none of the artifact's "
                   "programs (",
                   seen, "): compile the model for this device, too");
}

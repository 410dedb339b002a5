//===- Program.cpp - Loads an artifact ------------------------------------===//
//
// Loading goes from objects to kernels, launches and operators. Each step
// relies on the one before, and each error names what is at fault.
//
//===----------------------------------------------------------------------===//

#include "runtime/Program.h"
#include "runtime/CpuFeatures.h"
#include "runtime/LaunchHash.h"
#include "runtime/ProgramChoice.h"
#include "runtime/Temporaries.h"
#include "runtime/emulator/Emulator.h"
#include <mutex>

using namespace sextant;
using namespace sextant::runtime;

Status Program::loadObjects() {
  deviceCode.resize(artifact.objects.size());
  for (const Object &object : artifact.objects) {
    if (object.kind == ObjectKind::Cubin || object.kind == ObjectKind::Ptx) {
      objects.emplace_back(); // loaded where a kernel takes it
      continue;
    }
    if (object.kind != ObjectKind::SharedObject ||
        object.architecture != hostArchitecture)
      return makeError(
          "object ", objects.size(), " of the artifact is ",
          runtime::describe(object),
          ", but this runtime loads ELF shared objects for '", hostArchitecture,
          "': compile the model for this machine, or update the runtime");
    if (Status status = checkCpuFeatures(object.features); !status)
      return status;
    Result<SharedObject> loaded = SharedObject::load(object.code);
    if (!loaded)
      return loaded.error();
    objects.emplace_back(std::move(*loaded));
  }
  return {};
}

Result<decltype(Kernel::code)>
Program::loadHostFunction(const KernelName &kernel) {
  const SharedObject &object = *objects[kernel.object];
  if (!kernel.deviceObjects.empty() && !object.findIfAny(kernel.name))
    return makeError(
        "kernel '", kernel.name, "' is ",
        runtime::describe(artifact.objects[kernel.deviceObjects.front()]),
        ", but the device '", device.name,
        "' runs functions of the host: give it tensors of such a GPU, or "
        "compile the model for a target of this machine");
  Result<void *> address = object.find(kernel.name);
  if (!address)
    return address.error();
  return decltype(Kernel::code)(reinterpret_cast<HostFunction>(*address));
}

/// Code of the first object that the device runs and that its driver takes:
/// one that is older than the assembler refuses machine code, but compiles PTX.
/// It says so when it is given the code, or when it is asked for a kernel.
Result<decltype(Kernel::code)>
Program::loadDeviceFunction(const KernelName &kernel) {
  std::string seen, refused;
  for (uint32_t number : kernel.deviceObjects) {
    const Object &object = artifact.objects[number];
    if (!device.runs(device.state, object)) {
      seen += (seen.empty() ? "" : " and ") + runtime::describe(object);
      continue;
    }
    auto &code = deviceCode[number];
    if (!code)
      code = device.loadCode(device.state, object);
    Result<DeviceFunction> found =
        *code ? (**code)->find(kernel.name) : code->error();
    if (found)
      return decltype(Kernel::code)(*found);
    refused += (refused.empty() ? "object " : "; object ") +
               std::to_string(number) + " of the artifact, " +
               runtime::describe(object) + ": " + found.error().message();
  }
  if (!refused.empty())
    return makeError(refused);
  return makeError("kernel '", kernel.name, "' is ",
                   seen.empty() ? "code of the host" : seen,
                   ", which the device '", device.name,
                   "' does not run: the program was compiled for '",
                   artifact.target, "', compile it for this device");
}

Status Program::loadKernels() {
  for (const KernelName &kernel : artifact.kernels) {
    const SharedObject &object = *objects[kernel.object];
    bool isEmulated = emulator::bind(object);
    emulated |= isEmulated;
    Result<decltype(Kernel::code)> code =
        device.runs ? loadDeviceFunction(kernel) : loadHostFunction(kernel);
    if (!code)
      return code.error();
    void *addresses[2];
    const char *suffixes[2] = {"_items", "_scratch"};
    for (int i = 0; i < 2; ++i) {
      Result<void *> address = object.find(kernel.name + suffixes[i]);
      if (!address)
        return address.error();
      addresses[i] = *address;
    }
    auto findIfAny = [&](const char *suffix) {
      return reinterpret_cast<decltype(Kernel::flops)>(
          object.findIfAny(kernel.name + suffix));
    };
    kernels.push_back(
        {*code, reinterpret_cast<decltype(Kernel::items)>(addresses[0]),
         reinterpret_cast<decltype(Kernel::scratch)>(addresses[1]),
         findIfAny("_flops"), isEmulated ? emulator::takeFailure : nullptr,
         findIfAny("_threads"), findIfAny("_shared"), findIfAny("_together")});
  }
  return {};
}

Status Program::checkLaunches() const {
  for (size_t f = 0; f < artifact.functions.size(); ++f)
    for (const LaunchSymbol &launch :
         findLaunchSymbols(artifact, artifact.functions[f])) {
      uint32_t object = artifact.kernels[launch.kernel].object;
      if (!objects[object]->findIfAny(launch.symbol))
        return makeError("the artifact is damaged: function '",
                         artifact.functions[f].name, "', ",
                         describe(f, launch.instruction),
                         ": the kernel was not compiled for these operands");
    }
  return {};
}

Status Program::resolveOperators() {
  operators.resize(artifact.functions.size());
  for (size_t f = 0; f < artifact.functions.size(); ++f) {
    const Function &function = artifact.functions[f];
    operators[f].resize(function.instructions.size());
    for (size_t i = 0; i < function.instructions.size(); ++i) {
      const auto *dense = std::get_if<Dense>(&function.instructions[i].body);
      if (!dense)
        continue;
      std::string where = "function '" + function.name + "', " + describe(f, i);
      if (!device.resolve)
        return makeError(where, ": the device '", device.name,
                         "' has no dense operators, but the program calls ",
                         dense->op, "; run it from Python");
      Result<std::unique_ptr<ResolvedOperator>> resolved =
          device.resolve(device.state, *dense);
      if (!resolved)
        return resolved.error().in(where);
      operators[f][i] = std::move(*resolved);
    }
    temporaries.push_back(findTemporaries(function));
    changes.push_back(
        findChanges(function, [&](size_t i) -> const ResolvedOperator & {
          return getOperator(f, i);
        }));
  }
  return {};
}

Status Program::loadConstants() {
  constants.resize(artifact.data.size());
  for (const Function &function : artifact.functions)
    for (const Instruction &instruction : function.instructions) {
      const auto *constant = std::get_if<Constant>(&instruction.body);
      if (!constant || constants[constant->data].owner)
        continue;
      const Data &data = artifact.data[constant->data];
      Result<Tensor> tensor = makeTensor(device, data.type.dtype,
                                         data.type.dims, data.bytes.data());
      if (!tensor)
        return tensor.error().in("constant " + std::to_string(constant->data) +
                                 " of function '" + function.name + "'");
      constants[constant->data] = std::move(*tensor);
    }
  return {};
}

/// Where work goes on when a call returns, what is under way may read the
/// constants, on any stream, and so may each replay of a CUDA graph that has
/// captured a call: they live as long as the process, as code does there.
Program::~Program() {
  if (!device.mark) // work is done when a call returns
    return;
  static std::mutex mutex;
  static auto *kept = new std::vector<Tensor>; // never destroyed
  std::lock_guard lock(mutex);
  for (Tensor &constant : constants)
    if (constant.owner)
      kept->push_back(std::move(constant));
}

Result<std::unique_ptr<Program>> Program::load(std::span<const uint8_t> bytes,
                                               const Device &device) {
  Result<std::vector<Artifact>> artifacts = readArtifacts(bytes);
  if (!artifacts)
    return artifacts.error();
  Result<size_t> chosen = chooseProgram(*artifacts, device);
  if (!chosen)
    return chosen.error();
  return load(std::move((*artifacts)[*chosen]), device);
}

Result<std::unique_ptr<Program>> Program::load(Artifact artifact,
                                               const Device &device) {
  return loadShared(std::make_shared<const Artifact>(std::move(artifact)),
                    device);
}

Result<std::unique_ptr<Program>>
Program::load(const std::shared_ptr<const std::vector<Artifact>> &artifacts,
              const Device &device) {
  Result<size_t> chosen = chooseProgram(*artifacts, device);
  if (!chosen)
    return chosen.error();
  return loadShared({artifacts, &(*artifacts)[*chosen]}, device);
}

Result<std::unique_ptr<Program>>
Program::loadShared(std::shared_ptr<const Artifact> artifact,
                    const Device &device) {
  std::unique_ptr<Program> program(new Program(std::move(artifact), device));
  if (Status status = program->loadObjects(); !status)
    return status.error();
  if (Status status = program->loadKernels(); !status)
    return status.error();
  if (Status status = program->checkLaunches(); !status)
    return status.error();
  if (Status status = program->resolveOperators(); !status)
    return status.error();
  if (Status status = program->loadConstants(); !status)
    return status.error();
  return program;
}

std::string Program::describe(size_t function, size_t instruction) const {
  const Instruction &given =
      artifact.functions[function].instructions[instruction];
  std::string text = "instruction " + std::to_string(instruction);
  if (const auto *launch = std::get_if<Launch>(&given.body))
    text += " (kernel " + artifact.kernels[launch->kernel].name + ")";
  else if (const auto *dense = std::get_if<Dense>(&given.body))
    text += " (" + dense->op + ")";
  if (!given.label.empty())
    text += " at " + given.label;
  return text;
}

Result<size_t> Program::find(std::string_view function) const {
  std::string names;
  for (size_t i = 0; i < artifact.functions.size(); ++i) {
    if (artifact.functions[i].name == function)
      return i;
    names += (i ? ", '" : "'") + artifact.functions[i].name + "'";
  }
  return makeError("the program has no function '", std::string(function),
                   "'; it has ", names.empty() ? "none" : names);
}

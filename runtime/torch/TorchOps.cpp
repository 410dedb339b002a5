//===- TorchOps.cpp - torch.ops.sextant -----------------------------------===//
//
// These operators are the door from Python: they load an artifact, run its
// functions and say what it is. Programs are known by handles, which are never
// used again. An error becomes a RuntimeError with the runtime's message.
//
//===----------------------------------------------------------------------===//

#include "runtime/Executor.h"
#include "runtime/Initialize.h"
#include "runtime/Json.h"
#include "runtime/Manifest.h"
#include "runtime/Profile.h"
#include "runtime/torch/DenseCall.h"
#include "runtime/torch/LoadedArtifact.h"
#include "runtime/torch/Schema.h"
#include "runtime/torch/TorchDevice.h"
#include <limits>
#include <pthread.h>
#include <torch/csrc/stable/library.h>

namespace {

/// A string argument. LibTorch's own conversion to std::string allocates a
/// string and never deletes it: 32 bytes a call, and what the text takes
/// beside.
struct Text {
  std::string value;
};

} // namespace

/// Takes a string argument out of the word that the dispatcher passes, and
/// frees it.
template <> struct torch::stable::detail::ToImpl<Text> {
  static Text call(StableIValue word, uint64_t, bool) {
    auto handle = to<StringHandle>(word);
    size_t length;
    const char *data;
    STABLE_TORCH_ERROR_CODE_CHECK(torch_string_length(handle, &length));
    STABLE_TORCH_ERROR_CODE_CHECK(torch_string_c_str(handle, &data));
    Text text{std::string(data, length)};
    STABLE_TORCH_ERROR_CODE_CHECK(torch_delete_string(handle));
    return text;
  }
};

using namespace sextant::runtime;
using StableTensor = torch::stable::Tensor;
using Artifacts = std::map<int64_t, std::shared_ptr<LoadedArtifact>>;

[[noreturn]] static void raise(const Error &error) {
  throw std::runtime_error(error.message());
}

//===----------------------------------------------------------------------===//
// Handles
//===----------------------------------------------------------------------===//

static std::mutex artifactsMutex;
static int64_t nextHandle = 1;

static Artifacts &getArtifacts() {
  // Never destroyed: threads may outlive static objects.
  static auto *artifacts = new Artifacts;
  return *artifacts;
}

static std::shared_ptr<LoadedArtifact> getLoaded(int64_t handle) {
  std::lock_guard lock(artifactsMutex);
  auto found = getArtifacts().find(handle);
  if (found == getArtifacts().end())
    raise(makeError("there is no loaded program ", handle));
  return found->second;
}

static int64_t load(StableTensor bytes) {
  Result<std::shared_ptr<LoadedArtifact>> loaded = LoadedArtifact::load(bytes);
  if (!loaded)
    raise(loaded.error());
  std::lock_guard lock(artifactsMutex);
  getArtifacts()[nextHandle] = std::move(*loaded);
  return nextHandle++;
}

/// Runs that are under way keep their programs.
static void unload(int64_t handle) {
  std::shared_ptr<LoadedArtifact> loaded = getLoaded(handle);
  std::lock_guard lock(artifactsMutex); // released before the artifact
  getArtifacts().erase(handle);
}

/// A child of a fork has the mutex as it was, but not the thread that held it.
[[maybe_unused]] static const int forkHandlers = pthread_atfork(
    [] { artifactsMutex.lock(); }, [] { artifactsMutex.unlock(); },
    [] { artifactsMutex.unlock(); });

//===----------------------------------------------------------------------===//
// Tensors that are made here
//===----------------------------------------------------------------------===//

/// In memory of the host, where initial values are made.
static Tensor allocateTensor(DType dtype, std::span<const int64_t> sizes) {
  if (sizes.size() > maxRank || countElements(dtype, sizes) < 0)
    raise(makeError("a tensor cannot have the shape ", formatShape(sizes)));
  const Device &device = getTorchDevice();
  Result<Tensor> tensor = device.allocate(device.state, dtype, sizes);
  if (!tensor)
    raise(tensor.error());
  return std::move(*tensor);
}

static StableTensor makeVector(DType dtype, size_t count, const void *data) {
  int64_t sizes[] = {static_cast<int64_t>(count)};
  Result<Tensor> tensor = makeTensor(getTorchDevice(), dtype, sizes, data);
  if (!tensor)
    raise(tensor.error());
  return toTorch(*tensor);
}

/// A text as its bytes: LibTorch copies a string that an operator gives back
/// and deletes none of the two.
static StableTensor makeText(const std::string &text) {
  return makeVector(DType::U8, text.size(), text.data());
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

namespace {

/// No gradients are recorded inside a program.
class NoGrad {
public:
  NoGrad() : before(aoti_torch_grad_mode_is_enabled()) {
    aoti_torch_grad_mode_set_enabled(false);
  }
  ~NoGrad() { aoti_torch_grad_mode_set_enabled(before); }

private:
  bool before;
};

} // namespace

static size_t findFunction(const Program &program, const std::string &name) {
  Result<size_t> number = program.find(name);
  if (!number)
    raise(number.error());
  return *number;
}

/// The program of the device that the inputs are on; without any, of the CPU.
static const Program &getProgram(LoadedArtifact &loaded,
                                 const std::vector<StableTensor> &given) {
  Result<const Program *> program =
      loaded.on(given.empty() ? TorchPlace() : getPlace(given[0]));
  if (!program)
    raise(program.error());
  return **program;
}

static std::vector<StableTensor> runWith(const Program &program, size_t number,
                                         const std::vector<StableTensor> &given,
                                         Trace &trace) {
  NoGrad guard;
  const Function &function = program.getArtifact().functions[number];
  auto describe = [&](size_t i) {
    return i < function.arguments.size()
               ? "argument '" + function.arguments[i].name + "'"
               : "argument " + std::to_string(i);
  };
  std::vector<Tensor> inputs;
  inputs.reserve(given.size());
  for (size_t i = 0; i < given.size(); ++i) {
    Result<Tensor> input = fromTorch(given[i]);
    if (!input)
      raise(input.error().in(describe(i)));
    TorchPlace place = getPlace(given[i]), first = getPlace(given[0]);
    if (place != first)
      raise(makeError(describe(i), " is on ", place.describe(), ", but ",
                      describe(0), " is on ", first.describe(),
                      ": move one of them with .to()"));
    inputs.push_back(std::move(*input));
  }
  Result<std::vector<Tensor>> results = execute(program, number, inputs, trace);
  if (!results)
    raise(results.error());
  std::vector<StableTensor> outputs;
  outputs.reserve(results->size());
  for (const Tensor &result : *results)
    outputs.push_back(toTorch(result));
  return outputs;
}

static std::vector<StableTensor> run(int64_t handle, Text function,
                                     std::vector<StableTensor> inputs) {
  std::shared_ptr<LoadedArtifact> loaded = getLoaded(handle);
  const Program &program = getProgram(*loaded, inputs);
  Trace nothing;
  return runWith(program, findFunction(program, function.value), inputs,
                 nothing);
}

static std::tuple<std::vector<StableTensor>, StableTensor>
profile(int64_t handle, Text function, std::vector<StableTensor> inputs) {
  std::shared_ptr<LoadedArtifact> loaded = getLoaded(handle);
  const Program &program = getProgram(*loaded, inputs);
  size_t number = findFunction(program, function.value);
  Profile trace(program.getArtifact());
  std::vector<StableTensor> outputs = runWith(program, number, inputs, trace);
  return {std::move(outputs),
          makeText(trace.format(program.getArtifact().functions[number]))};
}

//===----------------------------------------------------------------------===//
// Asking
//===----------------------------------------------------------------------===//

static StableTensor manifest(int64_t handle) {
  return makeText(formatManifest(getLoaded(handle)->getArtifacts()));
}

/// Which arguments a function changes in place, by number. Programs on several
/// devices agree in it.
static StableTensor changed(int64_t handle, Text function, StableTensor like) {
  std::shared_ptr<LoadedArtifact> loaded = getLoaded(handle);
  const Program &program = getProgram(*loaded, {like});
  std::vector<int64_t> numbers;
  for (const ChangedArgument &argument :
       program.getChanges(findFunction(program, function.value)).arguments)
    numbers.push_back(static_cast<int64_t>(argument.argument));
  return makeVector(DType::I64, numbers.size(), numbers.data());
}

/// Those that a program may call, or those of them that a GPU calls then.
static StableTensor operators(bool onGpu) {
  JsonWriter json;
  json.beginArray();
  for (const std::string &text : getSchemaTexts())
    if (!onGpu || !findGpuOperator(text.substr(0, text.find('('))))
      json.value(std::string_view(text));
  return makeText(json.endArray().text());
}

static StableTensor products() {
  return makeText(std::string(nameProductLibrary()));
}

//===----------------------------------------------------------------------===//
// Initial values
//===----------------------------------------------------------------------===//

static StableTensor initialize(int64_t handle, Text name, int64_t seed) {
  std::shared_ptr<LoadedArtifact> loaded = getLoaded(handle);
  const Artifact &artifact = loaded->getArtifact();
  for (const Parameter &parameter : artifact.parameters) {
    if (parameter.name != name.value)
      continue;
    Tensor tensor = allocateTensor(parameter.type.dtype, parameter.type.dims);
    if (Status status = initializeParameter(
            artifact, parameter, static_cast<uint64_t>(seed), tensor);
        !status)
      raise(status.error());
    return toTorch(tensor);
  }
  raise(makeError("the program has no parameter '", name.value, "'"));
}

static StableTensor sample(Text distribution, double first, double second,
                           std::vector<int64_t> sizes, Text name,
                           int64_t seed) {
  using sextant::artifact::Init;
  double infinity = std::numeric_limits<double>::infinity();
  Distribution values{Init::Constant, first, second, -infinity, infinity};
  if (distribution.value == "normal")
    values.kind = Init::Normal;
  else if (distribution.value == "uniform")
    values.kind = Init::Uniform;
  else if (distribution.value != "constant")
    raise(makeError("there is no distribution '", distribution.value,
                    "': constant, normal and uniform are"));
  Tensor tensor = allocateTensor(DType::F32, sizes);
  if (Status status =
          fillTensor(tensor, values, name.value, static_cast<uint64_t>(seed));
      !status)
    raise(status.error());
  return toTorch(tensor);
}

// Texts are given as tensors of bytes (makeText).
STABLE_TORCH_LIBRARY(sextant, library) {
  library.def("load(Tensor bytes) -> int");
  library.def("unload(int handle) -> ()");
  library.def("run(int handle, str function, Tensor[] inputs) -> Tensor[]");
  library.def("profile(int handle, str function, Tensor[] inputs) -> "
              "(Tensor[], Tensor)");
  library.def("manifest(int handle) -> Tensor");
  library.def("changed(int handle, str function, Tensor like) -> Tensor");
  library.def("operators(bool on_gpu=False) -> Tensor");
  library.def("products() -> Tensor");
  library.def("initialize(int handle, str name, int seed) -> Tensor");
  library.def("sample(str distribution, float first, float second, "
              "int[] sizes, str name, int seed) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(sextant, CompositeExplicitAutograd, library) {
  library.impl("load", TORCH_BOX(&load));
  library.impl("unload", TORCH_BOX(&unload));
  library.impl("run", TORCH_BOX(&run));
  library.impl("profile", TORCH_BOX(&profile));
  library.impl("manifest", TORCH_BOX(&manifest));
  library.impl("changed", TORCH_BOX(&changed));
  library.impl("operators", TORCH_BOX(&operators));
  library.impl("products", TORCH_BOX(&products));
  library.impl("initialize", TORCH_BOX(&initialize));
  library.impl("sample", TORCH_BOX(&sample));
}

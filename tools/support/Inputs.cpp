//===- Inputs.cpp - What a function is run on -----------------------------===//
//
// Sizes of dynamic dimensions are found first, then each argument is read,
// initialised or made up.
//
//===----------------------------------------------------------------------===//

#include "tools/support/Inputs.h"
#include "runtime/Initialize.h"
#include "runtime/cpu/HostDevice.h"
#include "tools/support/Npy.h"
#include "tools/support/Values.h"
#include <limits>
#include <map>

using namespace sextant;
using namespace sextant::runtime;
using Assignments = std::map<std::string, std::string>;

/// "name=value" entries; every name must be one of `known`.
static Result<Assignments> parse(const std::vector<std::string> &texts,
                                 const std::vector<std::string> &known,
                                 const char *what) {
  Assignments result;
  for (const std::string &text : texts) {
    size_t equals = text.find('=');
    if (equals == std::string::npos)
      return makeError("'", text, "' is not of the form name=value");
    std::string name = text.substr(0, equals), names;
    bool found = false;
    for (const std::string &candidate : known) {
      found |= candidate == name;
      names += (names.empty() ? "" : ", ") + candidate;
    }
    if (!found)
      return makeError("there is no ", what, " '", name, "'; there are ",
                       names.empty() ? "none" : names);
    result[name] = text.substr(equals + 1);
  }
  return result;
}

static std::string getDimName(const Function &function, size_t argument,
                              size_t dim) {
  int32_t name = function.arguments[argument].dims[dim];
  if (name >= 0)
    return function.dimNames[static_cast<size_t>(name)];
  return function.arguments[argument].name + "." + std::to_string(dim);
}

static std::vector<std::string> listDims(const Function &function) {
  std::vector<std::string> names = function.dimNames;
  for (size_t i = 0; i < function.arguments.size(); ++i)
    for (size_t dim = 0; dim < function.arguments[i].dims.size(); ++dim)
      if (function.arguments[i].dims[dim] < 0 &&
          function.tensors[i].dims[dim] == -1)
        names.push_back(getDimName(function, i, dim));
  return names;
}

static Result<int64_t> parseSize(const std::string &name,
                                 const std::string &text) {
  char *end = nullptr;
  errno = 0;
  int64_t size = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end || errno || size < 0)
    return makeError("'", text, "' is not a size for dimension '", name, "'");
  return size;
}

/// Counts along the dimension before the last: positions of (1, length, axes).
static std::vector<double> count(std::span<const int64_t> shape,
                                 int64_t elements) {
  size_t along = shape.size() >= 2 ? shape.size() - 2 : 0;
  int64_t inner = 1;
  for (size_t dim = along + 1; dim < shape.size(); ++dim)
    inner *= shape[dim];
  std::vector<double> values(static_cast<size_t>(elements));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = shape.empty() ? 0.0
                              : static_cast<double>(static_cast<int64_t>(i) /
                                                    inner % shape[along]);
  return values;
}

static Result<Tensor> makeUp(const Artifact &artifact, const std::string &name,
                             DType dtype, const std::vector<int64_t> &shape,
                             uint64_t seed) {
  Result<Tensor> tensor = allocateOnHost(dtype, shape);
  if (!tensor)
    return tensor;
  for (const Parameter &parameter : artifact.parameters)
    if (parameter.name == name && parameter.type.dtype == dtype &&
        parameter.type.dims == shape &&
        (parameter.init != artifact::Init::Given || parameter.data)) {
      if (Status status =
              initializeParameter(artifact, parameter, seed, *tensor);
          !status)
        return status.error();
      return tensor;
    }
  if (dtype != DType::F32 && dtype != DType::F64 && dtype != DType::BF16 &&
      dtype != DType::F16)
    return tools::makeTensor(dtype, shape, count(shape, tensor->elements()));
  double infinity = std::numeric_limits<double>::infinity();
  Distribution normal{artifact::Init::Normal, 0.0, 1.0, -infinity, infinity};
  if (Status status = fillTensor(*tensor, normal, name, seed); !status)
    return status.error();
  return tensor;
}

Result<std::vector<Tensor>> tools::makeInputs(const Artifact &artifact,
                                              const Function &function,
                                              const InputOptions &options) {
  std::vector<std::string> names;
  for (const Argument &argument : function.arguments)
    names.push_back(argument.name);
  Result<Assignments> files = parse(options.files, names, "argument");
  if (!files)
    return files.error();
  Result<Assignments> dims =
      parse(options.dims, listDims(function), "dynamic dimension");
  if (!dims)
    return dims.error();

  std::vector<Tensor> inputs;
  for (size_t i = 0; i < function.arguments.size(); ++i) {
    const std::string &name = function.arguments[i].name;
    const TensorType &type = function.tensors[i];
    if (auto file = files->find(name); file != files->end()) {
      Result<Tensor> tensor = readNpy(file->second);
      bool isNarrow = type.dtype == DType::BF16 || type.dtype == DType::F16;
      if (tensor && tensor->dtype == DType::F32 && isNarrow)
        tensor = makeTensor(type.dtype, tensor->shape(), getValues(*tensor));
      if (!tensor)
        return tensor.error();
      inputs.push_back(std::move(*tensor));
      continue;
    }
    std::vector<int64_t> shape = type.dims;
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      if (shape[dim] != -1)
        continue;
      std::string dimName = getDimName(function, i, dim);
      auto given = dims->find(dimName);
      if (given == dims->end())
        return makeError("argument '", name, "' needs a file (--input ", name,
                         "=FILE.npy) or a size (--dim ", dimName, "=N)");
      Result<int64_t> size = parseSize(dimName, given->second);
      if (!size)
        return size.error();
      shape[dim] = *size;
    }
    Result<Tensor> tensor =
        makeUp(artifact, name, type.dtype, shape, options.seed);
    if (!tensor)
      return tensor.error().in("argument '" + name + "'");
    inputs.push_back(std::move(*tensor));
  }
  return inputs;
}

Result<size_t> tools::chooseFunction(const Artifact &artifact,
                                     const std::string &name) {
  std::string names;
  for (size_t i = 0; i < artifact.functions.size(); ++i) {
    const std::string &candidate = artifact.functions[i].name;
    if (candidate == name)
      return i;
    names += (i ? ", " : "") + candidate;
  }
  if (name.empty() && artifact.functions.size() == 1)
    return 0;
  return makeError(name.empty() ? "choose a function with --function"
                                : "there is no function '" + name + "'",
                   "; there are ", names.empty() ? "none" : names);
}

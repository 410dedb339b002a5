//===- InputCheck.cpp - Whether inputs fit a function ---------------------===//
//
// The inputs of a call are compared with the declared arguments, one after the
// other; the first size of a named dimension is what later ones must equal.
//
//===----------------------------------------------------------------------===//

#include "runtime/InputCheck.h"

using namespace sextant::runtime;

static std::string quote(const Function &function, size_t argument) {
  return "'" + function.arguments[argument].name + "'";
}

static Status checkType(const std::string &name, const TensorType &type,
                        const Tensor &tensor) {
  if (tensor.dtype != type.dtype)
    return makeError("argument ", name, " must be ", getName(type.dtype),
                     " but is ", getName(tensor.dtype));
  if (tensor.rank != type.dims.size())
    return makeError("argument ", name, " must have ", type.dims.size(),
                     " dimensions, ", formatShape(type.dims),
                     ", but has the shape ", formatShape(tensor.shape()));
  for (uint32_t dim = 0; dim < tensor.rank; ++dim)
    if (type.dims[dim] != -1 && type.dims[dim] != tensor.sizes[dim])
      return makeError("argument ", name, " must have the size ",
                       type.dims[dim], " in dimension ", dim,
                       " but has the shape ", formatShape(tensor.shape()));
  return {};
}

Status sextant::runtime::checkInputs(const Function &function,
                                     std::span<const Tensor> inputs) {
  if (inputs.size() != function.arguments.size())
    return makeError("'", function.name, "' takes ", function.arguments.size(),
                     " arguments but got ", inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (Status status =
            checkType(quote(function, i), function.tensors[i], inputs[i]);
        !status)
      return status;

  // The first argument with a dimension of a name fixes its size.
  struct First {
    size_t argument;
    uint32_t dim;
  };
  std::vector<std::optional<First>> firsts(function.dimNames.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (uint32_t dim = 0; dim < inputs[i].rank; ++dim) {
      int32_t name = function.arguments[i].dims[dim];
      if (name < 0)
        continue;
      std::optional<First> &first = firsts[static_cast<size_t>(name)];
      if (!first) {
        first = First{i, dim};
        continue;
      }
      int64_t expected = inputs[first->argument].sizes[first->dim];
      if (inputs[i].sizes[dim] != expected)
        return makeError("dimension ", dim, " (",
                         function.dimNames[static_cast<size_t>(name)],
                         ") of argument ", quote(function, i), " is ",
                         inputs[i].sizes[dim], " but that of ",
                         quote(function, first->argument), " is ", expected);
    }
  }
  return {};
}

//===- OperatorCall.cpp - Calls through LibTorch's dispatcher -------------===//
//
// Arguments are turned into the words that the dispatcher takes.
//
//===----------------------------------------------------------------------===//

#include "runtime/torch/OperatorCall.h"
#include <map>
#include <torch/csrc/stable/c/shim.h>
#include <torch/csrc/stable/library.h>

using namespace sextant::runtime;
namespace stable = torch::stable::detail;
using StableTensor = torch::stable::Tensor;

CallArgument CallArgument::of(StableTensor tensor) {
  CallArgument argument;
  argument.kind = ArgumentKind::Tensor;
  argument.tensors = {std::move(tensor)};
  return argument;
}

CallArgument CallArgument::ofList(std::vector<StableTensor> tensors) {
  CallArgument argument;
  argument.kind = ArgumentKind::Tensors;
  argument.tensors = std::move(tensors);
  return argument;
}

CallArgument CallArgument::ofList(std::vector<int64_t> numbers) {
  CallArgument argument;
  argument.kind = ArgumentKind::Ints;
  argument.numbers = std::move(numbers);
  return argument;
}

CallArgument CallArgument::of(ArgumentKind kind, int64_t number) {
  CallArgument argument;
  argument.kind = kind;
  argument.number = number;
  return argument;
}

static StableIValue makeBools(const std::vector<int64_t> &numbers) {
  auto flags = std::make_unique<bool[]>(numbers.size());
  std::copy(numbers.begin(), numbers.end(), flags.get());
  return stable::from(
      torch::headeronly::HeaderOnlyArrayRef<bool>(flags.get(), numbers.size()));
}

/// One word of the dispatcher's stack, without regard to optionality.
static StableIValue makeWord(SchemaType type, const CallArgument &argument) {
  switch (type) {
  case SchemaType::Tensor:
    return stable::from(argument.tensors[0]);
  case SchemaType::Tensors:
    return stable::from(argument.tensors);
  case SchemaType::OptionalTensors:
    return stable::from(std::vector<std::optional<StableTensor>>(
        argument.tensors.begin(), argument.tensors.end()));
  case SchemaType::Int:
    return stable::from(argument.number);
  case SchemaType::Ints:
    return stable::from(argument.numbers);
  case SchemaType::Bools:
    return makeBools(argument.numbers);
  case SchemaType::Float:
    return stable::from(argument.real);
  case SchemaType::Bool:
    return stable::from(argument.number != 0);
  case SchemaType::String:
    return stable::from(std::string(argument.text));
  case SchemaType::DType:
    return stable::from(getTorchDType(static_cast<DType>(argument.number)));
  case SchemaType::MemoryFormat:
    return stable::from(aoti_torch_memory_format_contiguous_format());
  case SchemaType::Scalar:
  case SchemaType::Generator:
  case SchemaType::Device:
  case SchemaType::Other:
    break;
  }
  throw std::runtime_error("an argument that the dispatcher does not take");
}

static StableIValue makeWord(TorchPlace place) {
  using torch::headeronly::DeviceType;
  auto type = stable::to<DeviceType>(stable::from(place.type));
  return stable::from(torch::stable::Device(type, place.index));
}

/// An optional argument is a pointer to its word, which the callee deletes.
static StableIValue makeWord(const SchemaArgument &expected,
                             const CallArgument &argument, TorchPlace place) {
  if (!expected.optional)
    return makeWord(expected.type, argument);
  if (expected.type == SchemaType::Device)
    return stable::from(new StableIValue(makeWord(place)));
  if (argument.kind == ArgumentKind::None)
    return stable::from(std::nullopt);
  return stable::from(new StableIValue(makeWord(expected.type, argument)));
}

std::vector<StableTensor> sextant::runtime::callOperator(
    const Schema &schema, const CallArguments &arguments, TorchPlace place) {
  std::vector<StableIValue> stack;
  stack.reserve(std::max(arguments.size(), schema.results) + 1);
  for (size_t i = 0; i < arguments.size(); ++i)
    stack.push_back(makeWord(schema.arguments[i], arguments[i], place));
  stack.resize(std::max({stack.size(), schema.results, size_t(1)}));
  checkTorch(torch_call_dispatcher(schema.name.c_str(), schema.overload.c_str(),
                                   stack.data(), TORCH_ABI_VERSION),
             schema.name.c_str());
  if (schema.givesList)
    return stable::to<std::vector<StableTensor>>(stack[0]);
  std::vector<StableTensor> results;
  for (size_t i = 0; i < schema.results; ++i)
    results.push_back(stable::to<StableTensor>(stack[i]));
  return results;
}

/// Read once: calls by name are made in each step. By threads, since a lock
/// that one of them held would stay locked in a process that another one forks.
static const Schema &getSchema(const char *op) {
  thread_local std::map<std::string, Schema> known;
  auto found = known.find(op);
  if (found == known.end()) {
    Result<Schema> schema = findSchema(op);
    if (!schema)
      throw std::runtime_error(schema.error().message());
    found = known.emplace(op, std::move(*schema)).first;
  }
  return found->second;
}

std::vector<StableTensor> sextant::runtime::callByName(const char *op,
                                                       CallArguments arguments,
                                                       TorchPlace place) {
  const Schema &schema = getSchema(op);
  arguments.resize(schema.arguments.size());
  return callOperator(schema, arguments, place);
}

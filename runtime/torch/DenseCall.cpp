//===- DenseCall.cpp - Calls ATen operators -------------------------------===//
//
// A call's arguments are matched with the operator's schema once, at load.
//
//===----------------------------------------------------------------------===//

#include "runtime/torch/DenseCall.h"

using namespace sextant::runtime;
using StableTensor = torch::stable::Tensor;

namespace {

/// An ATen operator that a program calls, with its schema.
struct TorchOperator : ResolvedOperator {
  Schema schema;
  StandIn standIn = nullptr;
  /// Arguments that the call leaves to the schema.
  std::vector<DenseArgument> defaults;

  int64_t countFlops(const Dense &call, std::span<const Tensor> tensors,
                     std::span<const Tensor> outputs) const override;
  bool writes(size_t argument) const override {
    return schema.arguments[argument].written;
  }
  bool shares(size_t argument) const override {
    return schema.arguments[argument].shared;
  }
  bool waits() const override;
};

} // namespace

/// Matrix products: a multiply-add per element of the result and of the
/// dimension that is summed over, the last of the first operand. The time of
/// other operators is that of their bytes.
int64_t TorchOperator::countFlops(const Dense &call,
                                  std::span<const Tensor> tensors,
                                  std::span<const Tensor> outputs) const {
  static constexpr std::string_view products[] = {"aten::linear", "aten::mm",
                                                  "aten::bmm", "aten::matmul"};
  if (std::find(std::begin(products), std::end(products), call.op) ==
          std::end(products) ||
      outputs.empty())
    return -1;
  const Tensor &first = tensors[static_cast<size_t>(call.arguments[0].number)];
  if (first.rank == 0)
    return -1;
  return 2 * outputs[0].elements() * first.sizes[first.rank - 1];
}

/// Of those that PyTorch tags as `dynamic_output_shape`, programs call one.
bool TorchOperator::waits() const { return schema.name == "aten::_unique2"; }

//===----------------------------------------------------------------------===//
// At load
//===----------------------------------------------------------------------===//

static const char *getName(SchemaType type) {
  switch (type) {
  case SchemaType::Tensor:
    return "a tensor";
  case SchemaType::Tensors:
  case SchemaType::OptionalTensors:
    return "a list of tensors";
  case SchemaType::Int:
    return "an integer";
  case SchemaType::Ints:
    return "a list of integers";
  case SchemaType::Float:
    return "a float";
  case SchemaType::Bool:
    return "a bool";
  case SchemaType::Bools:
    return "a list of bools";
  case SchemaType::String:
    return "a string";
  case SchemaType::DType:
    return "a dtype";
  case SchemaType::Scalar:
    return "a number";
  case SchemaType::Generator:
    return "three tensors (seed, step and place)";
  case SchemaType::MemoryFormat:
  case SchemaType::Device:
  case SchemaType::Other:
    return "nothing";
  }
  return "nothing";
}

static bool accepts(const SchemaArgument &expected, ArgumentKind kind) {
  // Without a generator results would depend on what was drawn before.
  if (expected.type == SchemaType::Generator)
    return kind == ArgumentKind::Tensors;
  if (kind == ArgumentKind::None)
    return expected.optional || expected.type == SchemaType::MemoryFormat;
  bool integer = kind == ArgumentKind::Int || kind == ArgumentKind::Integer;
  bool integers = kind == ArgumentKind::Ints || kind == ArgumentKind::Integers;
  switch (expected.type) {
  case SchemaType::Tensor:
    return kind == ArgumentKind::Tensor;
  case SchemaType::Tensors:
  case SchemaType::OptionalTensors:
    return kind == ArgumentKind::Tensors;
  case SchemaType::Int:
    return integer;
  case SchemaType::Ints:
  case SchemaType::Bools:
    return integers;
  case SchemaType::Float:
    return kind == ArgumentKind::Float;
  case SchemaType::Bool:
    return kind == ArgumentKind::Bool;
  case SchemaType::String:
    return kind == ArgumentKind::String;
  case SchemaType::DType:
    return kind == ArgumentKind::DType;
  case SchemaType::Scalar:
    return integer || kind == ArgumentKind::Float;
  case SchemaType::MemoryFormat:
  case SchemaType::Generator:
  case SchemaType::Device:
  case SchemaType::Other:
    return false;
  }
  return false;
}

/// The default of an argument that a call leaves out.
static Result<DenseArgument> makeDefault(const SchemaArgument &argument) {
  DenseArgument result{ArgumentKind::None, 0, {}, 0.0, ""};
  if (!argument.fallback || argument.type == SchemaType::Generator)
    return makeError("the argument ", argument.name, " is missing");
  const std::string &text = *argument.fallback;
  if (text == "None" || argument.type == SchemaType::MemoryFormat)
    return result;
  switch (argument.type) {
  case SchemaType::Int:
    result.kind = ArgumentKind::Int;
    result.number = std::strtoll(text.c_str(), nullptr, 10);
    return result;
  case SchemaType::Float:
  case SchemaType::Scalar:
    result.kind = ArgumentKind::Float;
    result.real = std::strtod(text.c_str(), nullptr);
    return result;
  case SchemaType::Bool:
    result.kind = ArgumentKind::Bool;
    result.number = text == "True";
    return result;
  case SchemaType::String:
    result.kind = ArgumentKind::String;
    result.text = text.substr(1, text.size() - 2);
    return result;
  case SchemaType::Ints:
    if (text == "[]") {
      result.kind = ArgumentKind::Ints;
      return result;
    }
    break;
  default:
    break;
  }
  return makeError("the argument ", argument.name,
                   " must be given (its default is ", text, ")");
}

Result<std::unique_ptr<ResolvedOperator>>
sextant::runtime::resolveDense(const Dense &call, StandIn standIn) try {
  auto resolved = std::make_unique<TorchOperator>();
  Result<Schema> schema = findSchema(call.op);
  if (!schema)
    return schema.error();
  resolved->schema = std::move(*schema);
  const auto &expected = resolved->schema.arguments;
  if (call.arguments.size() > expected.size())
    return makeError("it takes ", expected.size(), " arguments but got ",
                     call.arguments.size());
  for (size_t i = 0; i < call.arguments.size(); ++i)
    if (!accepts(expected[i], call.arguments[i].kind))
      return makeError("argument ", i, " (", expected[i].name, ") must be ",
                       ::getName(expected[i].type));
  for (size_t i = call.arguments.size(); i < expected.size(); ++i) {
    Result<DenseArgument> value = makeDefault(expected[i]);
    if (!value)
      return value.error();
    resolved->defaults.push_back(std::move(*value));
  }
  if (!resolved->schema.givesList &&
      call.outputs.size() > resolved->schema.results)
    return makeError("it gives ", resolved->schema.results,
                     " results, the program wants ", call.outputs.size());
  resolved->standIn = standIn ? standIn : findScalarOperator(call.op);
  if (resolved->schema.takes(SchemaType::Scalar) && !resolved->standIn)
    return makeError("operators that take a Scalar are those of "
                     "runtime/torch/ScalarOperators.cpp");
  if (resolved->schema.takes(SchemaType::Generator)) {
    resolved->standIn = findRandomOperator(call.op);
    if (!resolved->standIn)
      return makeError("operators that take a generator are those of "
                       "runtime/torch/RandomOperators.cpp");
  }
  if (!resolved->standIn)
    resolved->standIn = findProductOperator(call.op);
  if (!resolved->standIn)
    resolved->standIn = findNormOperator(call.op);
  return std::unique_ptr<ResolvedOperator>(std::move(resolved));
} catch (const std::exception &error) {
  return makeError(error.what());
}

//===----------------------------------------------------------------------===//
// At run time
//===----------------------------------------------------------------------===//

static CallArgument evaluate(const DenseArgument &argument,
                             std::span<const Tensor> tensors,
                             std::span<const int64_t> integers) {
  CallArgument result;
  result.kind = argument.kind;
  result.number = argument.number;
  result.real = argument.real;
  switch (argument.kind) {
  case ArgumentKind::Tensor:
    result.tensors = {toTorch(tensors[static_cast<size_t>(argument.number)])};
    break;
  case ArgumentKind::Tensors:
    for (int64_t tensor : argument.numbers)
      result.tensors.push_back(toTorch(tensors[static_cast<size_t>(tensor)]));
    break;
  case ArgumentKind::Integer:
    result.kind = ArgumentKind::Int;
    result.number = integers[static_cast<size_t>(argument.number)];
    break;
  case ArgumentKind::Integers:
    result.kind = ArgumentKind::Ints;
    for (int64_t integer : argument.numbers)
      result.numbers.push_back(integers[static_cast<size_t>(integer)]);
    break;
  case ArgumentKind::Ints:
    result.numbers = argument.numbers;
    break;
  case ArgumentKind::String:
    result.text = argument.text;
    break;
  default:
    break;
  }
  return result;
}

/// Operators that change several lists of tensors (fused optimizers) go through
/// the memory of each place of the lists with one index: ATen does not look at
/// shapes and strides there.
static Status checkLists(const Schema &schema, const Dense &call,
                         std::span<const Tensor> tensors) {
  const std::vector<int64_t> *first = nullptr;
  const char *firstName = nullptr;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const std::vector<int64_t> &list = call.arguments[i].numbers;
    const std::string &name = schema.arguments[i].name;
    if (schema.arguments[i].type != SchemaType::Tensors ||
        !schema.arguments[i].written || list.empty())
      continue;
    if (!first) {
      first = &list;
      firstName = name.c_str();
      continue;
    }
    if (list.size() != first->size())
      return makeError(name, " has ", list.size(), " tensors but ", firstName,
                       " has ", first->size());
    for (size_t place = 0; place < list.size(); ++place) {
      const Tensor &tensor = tensors[static_cast<size_t>(list[place])];
      const Tensor &expected = tensors[static_cast<size_t>((*first)[place])];
      std::string which = "tensor " + std::to_string(place) + " of ";
      if (tensor.dtype != expected.dtype ||
          !std::equal(tensor.shape().begin(), tensor.shape().end(),
                      expected.shape().begin(), expected.shape().end()))
        return makeError(which, name, " is ", getName(tensor.dtype), " ",
                         formatShape(tensor.shape()), " but that of ",
                         firstName, " is ", getName(expected.dtype), " ",
                         formatShape(expected.shape()));
      for (const Tensor *each : {&tensor, &expected})
        if (!each->isContiguous())
          return makeError(which, each == &tensor ? name : firstName,
                           " is not contiguous");
    }
  }
  return {};
}

/// The argument that a call writes to beside its operands (`out`) if it is not
/// contiguous, else null.
static CallArgument *findStridedOut(const Schema &schema,
                                    CallArguments &arguments) {
  for (size_t i = 1; i < arguments.size(); ++i)
    if (schema.arguments[i].written &&
        schema.arguments[i].type == SchemaType::Tensor &&
        !arguments[i].tensors[0].is_contiguous())
      return &arguments[i];
  return nullptr;
}

/// Softmaxes write to `out` as if it were contiguous, whatever its strides are:
/// they get a contiguous one, which is copied.
static std::vector<StableTensor>
callWithOut(const Schema &schema, CallArguments &arguments, TorchPlace place) {
  CallArgument *out = findStridedOut(schema, arguments);
  if (!out)
    return callOperator(schema, arguments, place);
  CallArgument strided = *out;
  out->tensors = callByName("aten::contiguous", {strided}, place);
  std::vector<StableTensor> results = callOperator(schema, arguments, place);
  callByName("aten::copy_",
             {strided, *out, CallArgument::of(ArgumentKind::Bool, 0)}, place);
  return results;
}

/// The tensor of the argument of this name, or null.
static const Tensor *findTensor(const Schema &schema, const Dense &call,
                                std::span<const Tensor> tensors,
                                std::string_view name) {
  for (size_t i = 0; i < call.arguments.size(); ++i)
    if (schema.arguments[i].name == name &&
        call.arguments[i].kind == ArgumentKind::Tensor)
      return &tensors[static_cast<size_t>(call.arguments[i].number)];
  return nullptr;
}

/// Of a call on the host that failed: which of the indices into the rows of its
/// weight there is no row for, which LibTorch does not say. Empty if there is
/// none.
static std::string describeWrongIndex(const Schema &schema, const Dense &call,
                                      std::span<const Tensor> tensors) {
  const Tensor *weight = findTensor(schema, call, tensors, "weight");
  const Tensor *indices = findTensor(schema, call, tensors, "indices");
  if (!weight || !indices || weight->rank == 0 ||
      (indices->dtype != DType::I64 && indices->dtype != DType::I32))
    return "";
  int64_t rows = weight->sizes[0];
  for (int64_t i = 0, end = indices->elements(); i < end; ++i) {
    int64_t offset = 0, rest = i;
    for (uint32_t dim = indices->rank; dim-- > 0; rest /= indices->sizes[dim])
      offset += rest % indices->sizes[dim] * indices->strides[dim];
    int64_t index = indices->dtype == DType::I64
                        ? static_cast<const int64_t *>(indices->data)[offset]
                        : static_cast<const int32_t *>(indices->data)[offset];
    if (index < 0 || index >= rows)
      return makeError("indices hold ", index, ", but weight has ", rows,
                       " rows, 0 to ", rows - 1)
          .message();
  }
  return "";
}

Result<std::vector<Tensor>>
sextant::runtime::callDense(TorchPlace place, const ResolvedOperator &resolved,
                            const Dense &call, std::span<const Tensor> tensors,
                            std::span<const int64_t> integers) try {
  const auto &op = static_cast<const TorchOperator &>(resolved);
  if (Status status = checkLists(op.schema, call, tensors); !status)
    return status.error();
  CallArguments arguments;
  arguments.reserve(op.schema.arguments.size());
  for (const DenseArgument &argument : call.arguments)
    arguments.push_back(evaluate(argument, tensors, integers));
  for (const DenseArgument &argument : op.defaults)
    arguments.push_back(evaluate(argument, tensors, integers));
  std::vector<StableTensor> results =
      op.standIn ? op.standIn(arguments, place)
                 : callWithOut(op.schema, arguments, place);
  if (results.size() < call.outputs.size())
    return makeError("it gives ", results.size(),
                     " results, the program wants ", call.outputs.size());
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    // An address of another place would end the process in a kernel.
    if (TorchPlace at = getPlace(results[i]); at != place)
      return makeError("its result ", i, " is on ", at.describe(),
                       " but the program runs on ", place.describe());
    Result<Tensor> output = fromTorch(results[i]);
    if (!output)
      return output.error();
    outputs.push_back(std::move(*output));
  }
  return outputs;
} catch (const std::exception &error) {
  const Schema &schema = static_cast<const TorchOperator &>(resolved).schema;
  std::string wrong =
      place.isHost() ? describeWrongIndex(schema, call, tensors) : "";
  return makeError(wrong.empty() ? error.what() : wrong);
}

//===- ArtifactCheck.cpp - The one semantic check of a program ------------===//
//
// The check follows each function's registers through its instructions. After
// this the executor indexes without looking: tensors are live where they are
// used, integers are written, sizes match the dynamic dimensions of a type.
//
//===----------------------------------------------------------------------===//

#include "runtime/ArtifactCheck.h"

using namespace sextant;
using namespace sextant::runtime;

namespace {

/// What is known about the registers before an instruction.
class FunctionChecker {
public:
  FunctionChecker(const Artifact &artifact, const Function &function)
      : artifact(artifact), function(function) {}

  Status check();

private:
  enum class State : uint8_t { Empty, Live, Released };

  Status read(uint32_t tensor) const;
  Status readAll(const Registers &tensors) const;
  Status write(uint32_t tensor);
  Status readInteger(uint32_t integer) const;
  Status readIntegers(const Registers &all) const;
  Status writeInteger(uint32_t integer);
  Status checkSizes(uint32_t tensor, const Registers &sizes) const;
  Status checkArgument(const DenseArgument &argument) const;

  Status visit(const Dim &op);
  Status visit(const Integer &op);
  Status visit(const Alloc &op);
  Status visit(const Constant &op);
  Status visit(const Launch &op);
  Status visit(const Dense &op);
  Status visit(const View &op);
  Status visit(const Release &op);
  Status visit(const Check &op);
  Status visit(const Return &op);
  Status visit(const CheckData &op);
  Status visit(const Distance &op);

  const Artifact &artifact;
  const Function &function;
  std::vector<State> tensors;
  std::vector<bool> integers;
};

} // namespace

/// Runs checks in order and returns the first failure.
#define SEXTANT_CHECK(call)                                                    \
  if (Status status = (call); !status)                                         \
  return status

static Status checkType(const TensorType &type) {
  if (getByteSize(type.dtype) == 0)
    return makeError("there is no dtype ", static_cast<int>(type.dtype));
  if (type.dims.size() > maxRank)
    return makeError("a tensor of rank ", type.dims.size(),
                     " is more than this runtime's ", maxRank);
  for (int64_t dim : type.dims)
    if (dim < -1)
      return makeError("a tensor has the dimension ", dim);
  return {};
}

//===----------------------------------------------------------------------===//
// Registers
//===----------------------------------------------------------------------===//

Status FunctionChecker::read(uint32_t tensor) const {
  if (tensor >= tensors.size())
    return makeError("there is no tensor register ", tensor);
  if (tensors[tensor] == State::Released)
    return makeError("tensor register ", tensor, " is used after its release");
  if (tensors[tensor] == State::Empty)
    return makeError("tensor register ", tensor, " is used before it is set");
  return {};
}

Status FunctionChecker::readAll(const Registers &all) const {
  for (uint32_t tensor : all)
    SEXTANT_CHECK(read(tensor));
  return {};
}

Status FunctionChecker::write(uint32_t tensor) {
  if (tensor >= tensors.size())
    return makeError("there is no tensor register ", tensor);
  if (tensors[tensor] != State::Empty)
    return makeError("tensor register ", tensor, " is set twice");
  tensors[tensor] = State::Live;
  return {};
}

Status FunctionChecker::readInteger(uint32_t integer) const {
  if (integer >= integers.size())
    return makeError("there is no integer register ", integer);
  if (!integers[integer])
    return makeError("integer register ", integer, " is used before it is set");
  return {};
}

Status FunctionChecker::readIntegers(const Registers &all) const {
  for (uint32_t integer : all)
    SEXTANT_CHECK(readInteger(integer));
  return {};
}

Status FunctionChecker::writeInteger(uint32_t integer) {
  if (integer >= integers.size())
    return makeError("there is no integer register ", integer);
  if (integers[integer])
    return makeError("integer register ", integer, " is set twice");
  integers[integer] = true;
  return {};
}

/// One size per dynamic dimension of the register's type.
Status FunctionChecker::checkSizes(uint32_t tensor,
                                   const Registers &sizes) const {
  SEXTANT_CHECK(readIntegers(sizes));
  size_t dynamic = 0;
  for (int64_t dim : function.tensors[tensor].dims)
    dynamic += dim == -1;
  if (sizes.size() != dynamic)
    return makeError("tensor register ", tensor, " has ", dynamic,
                     " dynamic dimensions but ", sizes.size(), " sizes");
  return {};
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

Status FunctionChecker::visit(const Dim &op) {
  SEXTANT_CHECK(read(op.tensor));
  if (op.axis >= function.tensors[op.tensor].dims.size())
    return makeError("tensor register ", op.tensor, " has no dimension ",
                     op.axis);
  return writeInteger(op.result);
}

static Status checkPredicate(Predicate predicate) {
  if (predicate > Predicate::MAX)
    return makeError("there is no predicate ", static_cast<int>(predicate));
  return {};
}

Status FunctionChecker::visit(const CheckData &op) {
  SEXTANT_CHECK(checkPredicate(op.predicate));
  SEXTANT_CHECK(read(op.tensor));
  const TensorType &type = function.tensors[op.tensor];
  if (type.dtype != DType::I64 || type.dims.size() != 1)
    return makeError("tensor register ", op.tensor, " is no vector of i64");
  if (type.dims[0] <= static_cast<int64_t>(op.number))
    return makeError("tensor register ", op.tensor, " has no element ",
                     op.number);
  return readInteger(op.bound);
}

Status FunctionChecker::visit(const Distance &op) {
  SEXTANT_CHECK(read(op.tensor));
  for (uint32_t axis : op.axes)
    if (axis >= function.tensors[op.tensor].dims.size())
      return makeError("tensor register ", op.tensor, " has no dimension ",
                       axis);
  return writeInteger(op.result);
}

Status FunctionChecker::visit(const Integer &op) {
  if (op.kind > IntegerKind::MAX)
    return makeError("there is no integer operation ",
                     static_cast<int>(op.kind));
  SEXTANT_CHECK(readInteger(op.left));
  SEXTANT_CHECK(readInteger(op.right));
  return writeInteger(op.result);
}

Status FunctionChecker::visit(const Alloc &op) {
  SEXTANT_CHECK(write(op.result));
  return checkSizes(op.result, op.sizes);
}

Status FunctionChecker::visit(const Constant &op) {
  SEXTANT_CHECK(write(op.result));
  if (op.data >= artifact.data.size())
    return makeError("there is no data ", op.data);
  const TensorType &type = artifact.data[op.data].type;
  const TensorType &expected = function.tensors[op.result];
  if (type.dtype != expected.dtype || type.dims != expected.dims)
    return makeError("data ", op.data, " is not of the type of register ",
                     op.result);
  return {};
}

Status FunctionChecker::visit(const Launch &op) {
  if (op.kernel >= artifact.kernels.size())
    return makeError("there is no kernel ", op.kernel);
  SEXTANT_CHECK(readAll(op.reads));
  SEXTANT_CHECK(readAll(op.writes));
  SEXTANT_CHECK(readIntegers(op.scalars));
  if (op.flops)
    SEXTANT_CHECK(readInteger(*op.flops));
  if (op.bytes)
    SEXTANT_CHECK(readInteger(*op.bytes));
  return {};
}

Status FunctionChecker::checkArgument(const DenseArgument &argument) const {
  auto number = static_cast<uint64_t>(argument.number);
  switch (argument.kind) {
  case ArgumentKind::None:
  case ArgumentKind::Int:
  case ArgumentKind::Ints:
  case ArgumentKind::Float:
  case ArgumentKind::Bool:
  case ArgumentKind::String:
    return {};
  case ArgumentKind::Tensor:
    return read(number > UINT32_MAX ? UINT32_MAX
                                    : static_cast<uint32_t>(number));
  case ArgumentKind::Integer:
    return readInteger(number > UINT32_MAX ? UINT32_MAX
                                           : static_cast<uint32_t>(number));
  case ArgumentKind::Tensors:
  case ArgumentKind::Integers:
    for (int64_t element : argument.numbers) {
      uint32_t index = element < 0 || element > UINT32_MAX
                           ? UINT32_MAX
                           : static_cast<uint32_t>(element);
      SEXTANT_CHECK(argument.kind == ArgumentKind::Tensors
                        ? read(index)
                        : readInteger(index));
    }
    return {};
  case ArgumentKind::DType:
    if (argument.number < 0 ||
        argument.number > static_cast<int64_t>(DType::MAX))
      return makeError("there is no dtype ", argument.number);
    return {};
  }
  return makeError("there is no kind of argument ",
                   static_cast<int>(argument.kind));
}

Status FunctionChecker::visit(const Dense &op) {
  for (const DenseArgument &argument : op.arguments)
    SEXTANT_CHECK(checkArgument(argument));
  for (uint32_t output : op.outputs)
    SEXTANT_CHECK(write(output));
  return {};
}

Status FunctionChecker::visit(const View &op) {
  SEXTANT_CHECK(read(op.source));
  SEXTANT_CHECK(write(op.result));
  const TensorType &source = function.tensors[op.source];
  if (source.dtype != function.tensors[op.result].dtype)
    return makeError("a view of tensor register ", op.source,
                     " has another dtype");
  if (!op.permutation.empty()) {
    if (op.permutation.size() != source.dims.size())
      return makeError("a permutation of ", op.permutation.size(),
                       " dimensions of a tensor of rank ", source.dims.size());
    uint32_t seen = 0;
    for (uint32_t dim : op.permutation) {
      if (dim >= source.dims.size() || (seen >> dim & 1))
        return makeError("a permutation has the dimension ", dim,
                         " twice or out of range");
      seen |= 1u << dim;
    }
  }
  return checkSizes(op.result, op.sizes);
}

Status FunctionChecker::visit(const Release &op) {
  for (uint32_t tensor : op.tensors) {
    SEXTANT_CHECK(read(tensor));
    tensors[tensor] = State::Released;
  }
  return {};
}

Status FunctionChecker::visit(const Check &op) {
  SEXTANT_CHECK(checkPredicate(op.predicate));
  SEXTANT_CHECK(readInteger(op.left));
  return readInteger(op.right);
}

Status FunctionChecker::visit(const Return &op) {
  if (op.tensors.size() != function.results.size())
    return makeError("it returns ", op.tensors.size(), " of ",
                     function.results.size(), " results");
  return readAll(op.tensors);
}

//===----------------------------------------------------------------------===//
// Functions and the rest
//===----------------------------------------------------------------------===//

Status FunctionChecker::check() {
  for (const TensorType &type : function.tensors)
    SEXTANT_CHECK(checkType(type));
  if (function.arguments.size() > function.tensors.size())
    return makeError("it has more arguments than tensor registers");
  for (size_t i = 0; i < function.arguments.size(); ++i) {
    const Argument &argument = function.arguments[i];
    if (argument.dims.size() != function.tensors[i].dims.size())
      return makeError("argument '", argument.name, "' has ",
                       argument.dims.size(), " named dimensions but rank ",
                       function.tensors[i].dims.size());
    for (int32_t dim : argument.dims)
      if (dim < -1 || dim >= static_cast<int64_t>(function.dimNames.size()))
        return makeError("argument '", argument.name, "' names the dimension ",
                         dim, " out of range");
  }
  if (function.instructions.empty())
    return makeError("it has no instructions");
  // Every register but the constants is the result of some instruction.
  if (function.integers < function.constants.size() ||
      function.integers >
          function.constants.size() + function.instructions.size())
    return makeError("it has ", function.integers, " integer registers");
  tensors.assign(function.tensors.size(), State::Empty);
  std::fill_n(tensors.begin(), function.arguments.size(), State::Live);
  integers.assign(function.integers, false);
  std::fill_n(integers.begin(), function.constants.size(), true);

  for (size_t i = 0; i < function.instructions.size(); ++i) {
    const Instruction &instruction = function.instructions[i];
    bool last = i + 1 == function.instructions.size();
    if (std::holds_alternative<Return>(instruction.body) != last)
      return makeError(last ? "it does not end with a return"
                            : "it has a return in its middle");
    if (Status status = std::visit([&](const auto &op) { return visit(op); },
                                   instruction.body);
        !status)
      return status.error().in("instruction " + std::to_string(i));
  }
  return {};
}

static Status checkData(const Data &data) {
  SEXTANT_CHECK(checkType(data.type));
  int64_t count = countElements(data.type.dtype, data.type.dims);
  if (count < 0)
    return makeError("data has the shape ", formatShape(data.type.dims));
  int64_t bytes = count * getByteSize(data.type.dtype);
  if (static_cast<uint64_t>(bytes) != data.bytes.size())
    return makeError("data of shape ", formatShape(data.type.dims), " has ",
                     data.bytes.size(), " bytes instead of ", bytes);
  return {};
}

static Status checkParameter(const Artifact &artifact,
                             const Parameter &parameter) {
  SEXTANT_CHECK(checkType(parameter.type));
  if (countElements(parameter.type.dtype, parameter.type.dims) < 0)
    return makeError("its shape is ", formatShape(parameter.type.dims));
  if (parameter.init > artifact::Init::MAX)
    return makeError("there is no distribution ",
                     static_cast<int>(parameter.init));
  size_t numbers = parameter.init == artifact::Init::Given      ? 0
                   : parameter.init == artifact::Init::Constant ? 1
                                                                : 2;
  if (parameter.initNumbers.size() != numbers)
    return makeError("its distribution has ", parameter.initNumbers.size(),
                     " numbers instead of ", numbers);
  if (!parameter.data)
    return {};
  if (*parameter.data >= artifact.data.size())
    return makeError("there is no data ", *parameter.data);
  const TensorType &type = artifact.data[*parameter.data].type;
  if (type.dtype != parameter.type.dtype || type.dims != parameter.type.dims)
    return makeError("its data has another type");
  return {};
}

/// Sizes of launches come from the host; other code is a device's. Of which
/// kind an object is may be unknown here: loading says so.
static Status checkKernel(const Artifact &artifact, const KernelName &kernel) {
  auto isOfDevice = [&](uint32_t object) {
    ObjectKind kind = artifact.objects[object].kind;
    return kind == ObjectKind::Cubin || kind == ObjectKind::Ptx;
  };
  if (kernel.object >= artifact.objects.size())
    return makeError("there is no object ", kernel.object);
  if (isOfDevice(kernel.object))
    return makeError("object ", kernel.object, " holds no code of the host");
  for (uint32_t object : kernel.deviceObjects) {
    if (object >= artifact.objects.size())
      return makeError("there is no object ", object);
    if (!isOfDevice(object))
      return makeError("object ", object, " holds no code of a device");
  }
  return {};
}

Status runtime::checkArtifact(const Artifact &artifact) {
  auto damaged = [](const std::string &where, const Status &status) {
    return status.error().in("the artifact is damaged: " + where);
  };
  for (const KernelName &kernel : artifact.kernels)
    if (Status status = checkKernel(artifact, kernel); !status)
      return damaged("kernel '" + kernel.name + "'", status);
  for (const Data &data : artifact.data)
    if (Status status = checkData(data); !status)
      return damaged("data", status);
  for (const Parameter &parameter : artifact.parameters)
    if (Status status = checkParameter(artifact, parameter); !status)
      return damaged("parameter '" + parameter.name + "'", status);
  for (const Function &function : artifact.functions)
    if (Status status = FunctionChecker(artifact, function).check(); !status)
      return damaged("function '" + function.name + "'", status);
  return {};
}

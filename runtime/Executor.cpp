//===- Executor.cpp - The loop over a program's instructions --------------===//
//
// ArtifactCheck.cpp has checked every number once; here only sizes are checked,
// which depend on the inputs. A register's tensor always has the type that the
// program declares for it, so that kernels may rely on static sizes.
//
//===----------------------------------------------------------------------===//

#include "runtime/Executor.h"
#include "runtime/InputCheck.h"
#include "runtime/View.h"
#include "runtime/emulator/Emulator.h"
#include "runtime/emulator/TensorMemory.h"
#include <algorithm>
#include <cstdlib>

using namespace sextant;
using namespace sextant::runtime;

namespace {

/// The registers of one execution.
class Execution {
public:
  Execution(const Program &program, size_t number,
            std::span<const Tensor> inputs, Session session)
      : program(program), number(number),
        function(program.getArtifact().functions[number]),
        device(program.getDevice()), tensors(function.tensors.size()),
        integers(function.integers), session(std::move(session)) {
    std::copy(inputs.begin(), inputs.end(), tensors.begin());
    std::copy(function.constants.begin(), function.constants.end(),
              integers.begin());
    if (program.isEmulated() && emulator::checksTensors())
      memory.emplace();
  }
  Execution(const Execution &) = delete;
  Execution &operator=(const Execution &) = delete;

  Result<std::vector<Tensor>> run(Trace &trace);

private:
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

  void appendArgument(const Tensor &tensor);
  Result<int64_t> launchChecked(const Launch &op, const Kernel &kernel);
  std::string describeArguments(const Dense &op) const;
  std::vector<int64_t> getShape(uint32_t tensor, const Registers &sizes) const;
  Status checkType(uint32_t tensor, const Tensor &value) const;

  const Program &program;
  size_t number;
  const Function &function;
  const Device &device;
  std::vector<Tensor> tensors;
  std::vector<int64_t> integers;
  Session session;
  /// What emulated kernels are held to, if somebody asked for that.
  std::optional<emulator::TensorMemory> memory;
  std::vector<int64_t> arguments; ///< the argument block of a launch
  std::vector<Tensor> results;
  size_t instruction = 0;
  Cost cost;
};

} // namespace

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

Status Execution::visit(const Dim &op) {
  integers[op.result] = tensors[op.tensor].sizes[op.axis];
  return {};
}

Status Execution::visit(const Distance &op) {
  const Tensor &tensor = tensors[op.tensor];
  int64_t &all = integers[op.result] = 0;
  if (tensor.elements() == 0)
    return {};
  for (uint32_t axis : op.axes) {
    int64_t distance = 0;
    if (__builtin_mul_overflow(tensor.sizes[axis] - 1,
                               std::abs(tensor.strides[axis]), &distance) ||
        __builtin_add_overflow(all, distance, &all))
      return makeError("the elements of a tensor of shape ",
                       formatShape(tensor.shape()),
                       " lie farther apart than memory reaches");
  }
  return {};
}

Status Execution::visit(const CheckData &op) {
  const Tensor &tensor = tensors[op.tensor];
  const int64_t *element =
      static_cast<const int64_t *>(tensor.data) + op.number * tensor.strides[0];
  if (device.defer)
    return device.defer(device.state, session.get(),
                        {element, op.predicate, integers[op.bound],
                         "'" + function.name + "': " + op.message});
  int64_t value = 0;
  if (Status status =
          device.copyOut(device.state, &value, element, sizeof(value));
      !status)
    return status;
  return compare(value, op.predicate, integers[op.bound], op.message);
}

static int64_t floorDivide(int64_t left, int64_t right) {
  int64_t quotient = left / right;
  return quotient - (left % right != 0 && (left < 0) != (right < 0));
}

Status Execution::visit(const Integer &op) {
  int64_t left = integers[op.left], right = integers[op.right];
  int64_t &result = integers[op.result];
  bool overflow = false;
  switch (op.kind) {
  case IntegerKind::Add:
    overflow = __builtin_add_overflow(left, right, &result);
    break;
  case IntegerKind::Subtract:
    overflow = __builtin_sub_overflow(left, right, &result);
    break;
  case IntegerKind::Multiply:
    overflow = __builtin_mul_overflow(left, right, &result);
    break;
  case IntegerKind::Divide:
  case IntegerKind::FloorDivide:
  case IntegerKind::CeilDivide:
  case IntegerKind::Remainder:
    if (right == 0)
      return makeError("division of ", left, " by zero");
    if (left == INT64_MIN && right == -1) {
      overflow = true;
      break;
    }
    result = op.kind == IntegerKind::Divide        ? left / right
             : op.kind == IntegerKind::Remainder   ? left % right
             : op.kind == IntegerKind::FloorDivide ? floorDivide(left, right)
                                                   : -floorDivide(-left, right);
    break;
  case IntegerKind::Minimum:
    result = std::min(left, right);
    break;
  case IntegerKind::Maximum:
    result = std::max(left, right);
    break;
  }
  if (overflow)
    return makeError("an integer computed from ", left, " and ", right,
                     " does not fit 64 bits");
  return {};
}

Status Execution::visit(const Check &op) {
  return compare(integers[op.left], op.predicate, integers[op.right],
                 op.message);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

std::vector<int64_t> Execution::getShape(uint32_t tensor,
                                         const Registers &sizes) const {
  std::vector<int64_t> shape = function.tensors[tensor].dims;
  size_t next = 0;
  for (int64_t &dim : shape)
    if (dim == -1)
      dim = integers[sizes[next++]];
  return shape;
}

/// A register's tensor must have the declared type.
Status Execution::checkType(uint32_t tensor, const Tensor &value) const {
  const TensorType &type = function.tensors[tensor];
  bool fits = value.dtype == type.dtype && value.rank == type.dims.size();
  for (uint32_t dim = 0; fits && dim < value.rank; ++dim)
    fits = type.dims[dim] == -1 || type.dims[dim] == value.sizes[dim];
  if (fits)
    return {};
  return makeError("its result should be ", getName(type.dtype), " ",
                   formatShape(type.dims), " but is ", getName(value.dtype),
                   " ", formatShape(value.shape()));
}

Status Execution::visit(const Alloc &op) {
  std::vector<int64_t> shape = getShape(op.result, op.sizes);
  DType dtype = function.tensors[op.result].dtype;
  if (countElements(dtype, shape) < 0)
    return makeError("a tensor cannot have the shape ", formatShape(shape));
  bool isTemporary =
      device.allocateTemporary && program.isTemporary(number, op.result);
  Result<Tensor> tensor =
      isTemporary ? device.allocateTemporary(device.state, dtype, shape)
                  : device.allocate(device.state, dtype, shape);
  if (!tensor)
    return tensor.error();
  int64_t bytes = op.zero ? tensor->elements() * getByteSize(dtype) : 0;
  if (bytes > 0)
    if (Status status = device.fillZero(device.state, tensor->data, bytes);
        !status)
      return status;
  if (memory && !op.zero)
    memory->addFresh(*tensor);
  else if (memory)
    memory->setWritten(*tensor);
  tensors[op.result] = std::move(*tensor);
  return {};
}

Status Execution::visit(const Constant &op) {
  const Tensor &shared = program.getConstant(op.data);
  if (!program.getChanges(number).constants[op.result]) {
    tensors[op.result] = shared;
    if (memory)
      memory->setWritten(shared);
    return {};
  }
  Result<Tensor> own =
      device.allocate(device.state, shared.dtype, shared.shape());
  if (!own)
    return own.error();
  tensors[op.result] = std::move(*own);
  if (memory)
    memory->setWritten(tensors[op.result]);
  int64_t bytes = shared.elements() * getByteSize(shared.dtype);
  return bytes == 0 ? Status()
                    : device.copy(device.state, tensors[op.result].data,
                                  shared.data, bytes);
}

Status Execution::visit(const View &op) {
  std::vector<int64_t> shape = getShape(op.result, op.sizes);
  Result<Tensor> view = makeView(tensors[op.source], op.permutation, shape);
  if (!view)
    return view.error();
  tensors[op.result] = std::move(*view);
  return {};
}

Status Execution::visit(const Release &op) {
  for (uint32_t tensor : op.tensors)
    tensors[tensor] = Tensor();
  return {};
}

Status Execution::visit(const Return &op) {
  for (uint32_t tensor : op.tensors) {
    if (memory)
      if (Status status = memory->checkResult(function.results[results.size()],
                                              tensors[tensor]);
          !status)
        return status;
    results.push_back(tensors[tensor]);
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

void Execution::appendArgument(const Tensor &tensor) {
  arguments.push_back(reinterpret_cast<int64_t>(tensor.data));
  arguments.insert(arguments.end(), tensor.sizes, tensor.sizes + tensor.rank);
  arguments.insert(arguments.end(), tensor.strides,
                   tensor.strides + tensor.rank);
}

/// Tells the emulator what the kernel may access.
Result<int64_t> Execution::launchChecked(const Launch &op,
                                         const Kernel &kernel) {
  std::vector<emulator::Operand> operands;
  for (const Registers *list : {&op.reads, &op.writes})
    for (uint32_t number : *list) {
      const Tensor &tensor = tensors[number];
      std::string name = "operand " + std::to_string(operands.size()) + " (";
      if (number < function.arguments.size())
        name += "'" + function.arguments[number].name + "', ";
      name += std::string(getName(tensor.dtype)) + " " +
              formatShape(tensor.shape()) + ")";
      operands.emplace_back(std::move(name), tensor, list == &op.writes);
    }
  emulator::LaunchMemory scope(*memory, arguments.data(), std::move(operands));
  return device.launch(device.state, session.get(), kernel, arguments);
}

Status Execution::visit(const Launch &op) {
  arguments.clear();
  int64_t bytes = 0;
  for (const Registers *list : {&op.reads, &op.writes})
    for (uint32_t tensor : *list) {
      appendArgument(tensors[tensor]);
      bytes += tensors[tensor].elements() * getByteSize(tensors[tensor].dtype);
    }
  for (uint32_t integer : op.scalars)
    arguments.push_back(integers[integer]);
  cost.flops = op.flops ? integers[*op.flops] : -1;
  cost.bytes = op.bytes ? integers[*op.bytes] : bytes;
  const Kernel &kernel = program.getKernel(op.kernel);
  Result<int64_t> items =
      memory ? launchChecked(op, kernel)
             : device.launch(device.state, session.get(), kernel, arguments);
  if (!items)
    return items.error();
  cost.items = *items;
  return {};
}

//===----------------------------------------------------------------------===//
// Dense operators
//===----------------------------------------------------------------------===//

/// " (of 'tokens')": operands of a call that the caller gave. Nothing where
/// they come in lists, as an optimizer's: those are long, and the operator says
/// which place of which list.
std::string Execution::describeArguments(const Dense &op) const {
  std::string names;
  for (const DenseArgument &argument : op.arguments) {
    if (argument.kind == ArgumentKind::Tensors)
      return "";
    auto number = static_cast<size_t>(argument.number);
    if (argument.kind == ArgumentKind::Tensor &&
        number < function.arguments.size())
      names += (names.empty() ? " (of '" : ", '") +
               function.arguments[number].name + "'";
  }
  return names.empty() ? names : names + ")";
}

Status Execution::visit(const Dense &op) {
  const ResolvedOperator &resolved = program.getOperator(number, instruction);
  // A call that waits would end the capture, and the error would be of another.
  if (resolved.waits() && device.isCaptured && device.isCaptured(session.get()))
    return makeError("the sizes of its results depend on data, which is waited "
                     "for, so no CUDA graph can capture it: call '",
                     function.name, "' outside of captures");
  Result<std::vector<Tensor>> outputs =
      device.call(device.state, resolved, op, tensors, integers);
  if (!outputs)
    return makeError(outputs.error().message(), describeArguments(op));
  if (outputs->size() != op.outputs.size())
    return makeError("it gives ", outputs->size(), " results instead of ",
                     op.outputs.size());
  cost.flops = resolved.countFlops(op, tensors, *outputs);
  int64_t bytes = 0;
  for (size_t i = 0; i < op.arguments.size(); ++i) {
    const DenseArgument &argument = op.arguments[i];
    auto add = [&](int64_t tensor) {
      const Tensor &operand = tensors[static_cast<size_t>(tensor)];
      if (memory && resolved.writes(i))
        memory->setWritten(operand);
      bytes += operand.elements() * getByteSize(operand.dtype);
    };
    if (argument.kind == ArgumentKind::Tensor)
      add(argument.number);
    if (argument.kind == ArgumentKind::Tensors)
      for (int64_t tensor : argument.numbers)
        add(tensor);
  }
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    Tensor &output = (*outputs)[i];
    if (Status status = checkType(op.outputs[i], output); !status)
      return status;
    bytes += output.elements() * getByteSize(output.dtype);
    if (memory)
      memory->setWritten(output);
    tensors[op.outputs[i]] = std::move(output);
  }
  cost.bytes = bytes;
  return {};
}

//===----------------------------------------------------------------------===//
// The loop
//===----------------------------------------------------------------------===//

Result<std::vector<Tensor>> Execution::run(Trace &trace) {
  trace.start(device, session.get());
  for (instruction = 0; instruction < function.instructions.size();
       ++instruction) {
    const Instruction &current = function.instructions[instruction];
    trace.begin(function, instruction);
    cost = Cost();
    Status status =
        std::visit([&](const auto &op) { return visit(op); }, current.body);
    if (!status && (std::holds_alternative<Check>(current.body) ||
                    (std::holds_alternative<CheckData>(current.body) &&
                     device.hasHostMemory)))
      return status.error().in("'" + function.name + "'");
    if (!status)
      return status.error().in("'" + function.name + "', " +
                               program.describe(number, instruction));
    trace.end(function, instruction, cost);
    const auto *launch = std::get_if<Launch>(&current.body);
    if (launch && trace.countsWork() && program.getDevice().hasHostMemory)
      if (auto flops = program.getKernel(launch->kernel).flops)
        trace.count(flops(arguments.data()));
  }
  if (Status status = trace.finish(); !status)
    return status.error().in("'" + function.name + "'");
  return std::move(results);
}

Result<std::vector<Tensor>> runtime::execute(const Program &program,
                                             size_t number,
                                             std::span<const Tensor> inputs,
                                             Trace &trace) {
  const Function &function = program.getArtifact().functions[number];
  if (Status status = checkInputs(function, inputs); !status)
    return status.error();
  if (Status status = checkChangedArguments(
          function, program.getChanges(number).arguments, inputs,
          [&](size_t instruction) {
            return program.describe(number, instruction);
          });
      !status)
    return status.error().in("'" + function.name + "'");
  const Device &device = program.getDevice();
  Result<Session> session = device.begin ? device.begin(device.state)
                                         : Session(nullptr, [](void *) {});
  if (!session)
    return session.error();
  return Execution(program, number, inputs, std::move(*session)).run(trace);
}

//===- InPlace.cpp - What a function changes ------------------------------===//
//
// Which arguments and constants change is found once, at load, by following
// which registers may share memory. The memory of arguments is compared at
// every call.
//
//===----------------------------------------------------------------------===//

#include "runtime/InPlace.h"
#include <algorithm>

using namespace sextant::runtime;

//===----------------------------------------------------------------------===//
// At load: what changes, and by which instruction
//===----------------------------------------------------------------------===//

namespace {

/// Follows which registers may share memory with which arguments and constants,
/// all known by their registers.
class ChangeFinder {
public:
  ChangeFinder(const Function &function,
               const std::function<const ResolvedOperator &(size_t)> &get)
      : function(function), getOperator(get), origins(function.tensors.size()),
        first(function.tensors.size()) {
    for (uint32_t i = 0; i < function.arguments.size(); ++i)
      origins[i] = {i};
  }

  Changes find();

private:
  void change(uint32_t tensor) {
    for (uint32_t origin : origins[tensor])
      if (!first[origin])
        first[origin] = instruction;
  }
  void visit(const Dense &op);

  const Function &function;
  const std::function<const ResolvedOperator &(size_t)> &getOperator;
  std::vector<std::vector<uint32_t>> origins; ///< of a register
  std::vector<std::optional<size_t>> first;   ///< of an origin: instruction
  size_t instruction = 0;
};

} // namespace

void ChangeFinder::visit(const Dense &op) {
  const ResolvedOperator &resolved = getOperator(instruction);
  std::vector<uint32_t> shared;
  for (size_t i = 0; i < op.arguments.size(); ++i) {
    const DenseArgument &argument = op.arguments[i];
    std::vector<int64_t> tensors;
    if (argument.kind == ArgumentKind::Tensor)
      tensors = {argument.number};
    else if (argument.kind == ArgumentKind::Tensors)
      tensors = argument.numbers;
    for (int64_t number : tensors) {
      auto tensor = static_cast<uint32_t>(number);
      if (resolved.writes(i))
        change(tensor);
      if (resolved.shares(i))
        shared.insert(shared.end(), origins[tensor].begin(),
                      origins[tensor].end());
    }
  }
  std::sort(shared.begin(), shared.end());
  shared.erase(std::unique(shared.begin(), shared.end()), shared.end());
  for (uint32_t output : op.outputs)
    origins[output] = shared;
}

Changes ChangeFinder::find() {
  std::vector<bool> constants(first.size());
  for (; instruction < function.instructions.size(); ++instruction) {
    const auto &body = function.instructions[instruction].body;
    if (const auto *launch = std::get_if<Launch>(&body)) {
      for (uint32_t tensor : launch->writes)
        change(tensor);
    } else if (const auto *view = std::get_if<View>(&body)) {
      origins[view->result] = origins[view->source];
    } else if (const auto *dense = std::get_if<Dense>(&body)) {
      visit(*dense);
    } else if (const auto *constant = std::get_if<Constant>(&body)) {
      origins[constant->result] = {constant->result};
    } else if (const auto *last = std::get_if<Return>(&body)) {
      for (uint32_t tensor : last->tensors)
        for (uint32_t origin : origins[tensor])
          constants[origin] = true;
    }
  }
  Changes changes;
  for (size_t argument = 0; argument < function.arguments.size(); ++argument)
    if (first[argument])
      changes.arguments.push_back({argument, *first[argument]});
  for (size_t origin = 0; origin < first.size(); ++origin)
    constants[origin] = constants[origin] || first[origin];
  changes.constants = std::move(constants);
  return changes;
}

Changes sextant::runtime::findChanges(
    const Function &function,
    const std::function<const ResolvedOperator &(size_t)> &getOperator) {
  return ChangeFinder(function, getOperator).find();
}

//===----------------------------------------------------------------------===//
// At the door
//===----------------------------------------------------------------------===//

namespace {

/// The memory between an argument's first and last element.
struct Extent {
  uintptr_t begin, end;
  size_t argument;
  bool changed;
};

} // namespace

static std::optional<Extent> getExtent(const Tensor &tensor, size_t argument) {
  auto [low, high] = getReach(tensor);
  if (low == high)
    return std::nullopt;
  auto data = reinterpret_cast<uintptr_t>(tensor.data);
  int64_t bytes = getByteSize(tensor.dtype);
  return Extent{data + static_cast<uintptr_t>(low * bytes),
                data + static_cast<uintptr_t>(high * bytes), argument, false};
}

Status sextant::runtime::checkChangedArguments(
    const Function &function, std::span<const ChangedArgument> changed,
    std::span<const Tensor> inputs,
    const std::function<std::string(size_t)> &describe) {
  if (changed.empty())
    return {};
  auto quote = [&](size_t argument) {
    return "'" + function.arguments[argument].name + "'";
  };
  std::vector<Extent> extents;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (std::optional<Extent> extent = getExtent(inputs[i], i))
      extents.push_back(*extent);
  std::vector<std::optional<size_t>> changes(inputs.size());
  for (const ChangedArgument &change : changed) {
    const Tensor &input = inputs[change.argument];
    if (!input.isContiguous())
      return makeError("argument ", quote(change.argument),
                       " is changed in place, by ",
                       describe(change.instruction),
                       ", so it must be contiguous, but has the shape ",
                       formatShape(input.shape()), " and the strides ",
                       formatShape({input.strides, input.rank}),
                       ": pass a contiguous() one and keep it");
    changes[change.argument] = change.instruction;
  }
  for (Extent &extent : extents)
    extent.changed = changes[extent.argument].has_value();

  // In the order of their beginnings, whatever overlaps is met before the
  // farthest end so far.
  std::sort(extents.begin(), extents.end(),
            [](const Extent &a, const Extent &b) { return a.begin < b.begin; });
  const Extent *farthest = nullptr, *farthestChanged = nullptr;
  for (const Extent &extent : extents) {
    const Extent *other = extent.changed ? farthest : farthestChanged;
    if (other && extent.begin < other->end) {
      size_t written = extent.changed ? extent.argument : other->argument;
      size_t second = extent.changed ? other->argument : extent.argument;
      return makeError("argument ", quote(written), " is changed in place, by ",
                       describe(*changes[written]),
                       ", but shares memory with argument ", quote(second),
                       ": pass a clone() of one of them");
    }
    if (!farthest || extent.end > farthest->end)
      farthest = &extent;
    if (extent.changed &&
        (!farthestChanged || extent.end > farthestChanged->end))
      farthestChanged = &extent;
  }
  return {};
}

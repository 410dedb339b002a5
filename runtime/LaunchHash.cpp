//===- LaunchHash.cpp - What a launch was compiled for --------------------===//
//
// A function's instructions are followed in order. A size is hashed by how it
// was made, not by its value, which is known at a call only.
//
//===----------------------------------------------------------------------===//

#include "runtime/LaunchHash.h"
#include "runtime/ArtifactFormat.h"
#include <cstdio>

using namespace sextant::runtime;

namespace {

/// Follows sizes through the instructions of a function: each integer and each
/// dimension becomes a hash of how it was made.
class LaunchHasher {
public:
  LaunchHasher(const Artifact &artifact, const Function &function)
      : artifact(artifact), function(function), sizes(function.tensors.size()),
        integers(function.integers) {}

  std::vector<LaunchSymbol> find();

private:
  /// What a hash stands for.
  enum class Kind : uint64_t {
    Constant,
    Static,
    Named,
    Argument,
    Integer,
    Output,
    Tensor,
    Launch,
    Distance
  };

  static uint64_t mix(Kind kind, std::initializer_list<uint64_t> parts) {
    uint64_t words[8] = {static_cast<uint64_t>(kind)};
    std::copy(parts.begin(), parts.end(), words + 1);
    return computeChecksum({reinterpret_cast<const uint8_t *>(words),
                            (1 + parts.size()) * sizeof(uint64_t)});
  }
  static uint64_t fixed(int64_t size) {
    return mix(Kind::Static, {static_cast<uint64_t>(size)});
  }

  void setArgument(size_t number);
  /// The sizes of a register: static ones, and `dynamic` for the others.
  void setSizes(uint32_t tensor, const Registers &dynamic);
  void visit(const Dim &op) { integers[op.result] = sizes[op.tensor][op.axis]; }
  void visit(const Integer &op) {
    integers[op.result] =
        mix(Kind::Integer, {static_cast<uint64_t>(op.kind), integers[op.left],
                            integers[op.right]});
  }
  void visit(const Alloc &op) {
    setSizes(op.result, op.sizes);
    zeroed = mix(Kind::Tensor, {zeroed, op.result, op.zero});
  }
  void visit(const Constant &op) { setSizes(op.result, {}); }
  void visit(const View &op) { setSizes(op.result, op.sizes); }
  void visit(const Dense &op);
  void visit(const Launch &op);
  void visit(const Release &) {}
  void visit(const Check &) {}
  void visit(const CheckData &) {}
  void visit(const Distance &op) {
    uint64_t &result = integers[op.result];
    result = mix(Kind::Distance, {op.tensor});
    for (uint32_t axis : op.axes)
      result = mix(Kind::Distance, {result, axis});
  }
  void visit(const Return &) {}

  const Artifact &artifact;
  const Function &function;
  std::vector<std::vector<uint64_t>> sizes; ///< of a register, per dimension
  std::vector<uint64_t> integers;
  uint64_t zeroed = 0;   ///< which buffers began as zeros
  uint64_t previous = 0; ///< of the launch before
  size_t instruction = 0;
  std::vector<LaunchSymbol> symbols;
};

} // namespace

void LaunchHasher::setArgument(size_t number) {
  const std::vector<int64_t> &dims = function.tensors[number].dims;
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    int32_t name = function.arguments[number].dims[dim];
    sizes[number].push_back(
        dims[dim] != -1 ? fixed(dims[dim])
        : name >= 0     ? mix(Kind::Named, {static_cast<uint64_t>(name)})
                        : mix(Kind::Argument, {number, dim}));
  }
}

void LaunchHasher::setSizes(uint32_t tensor, const Registers &dynamic) {
  size_t next = 0;
  for (int64_t dim : function.tensors[tensor].dims)
    sizes[tensor].push_back(dim == -1 ? integers[dynamic[next++]] : fixed(dim));
}

void LaunchHasher::visit(const Dense &op) {
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    uint32_t output = op.outputs[i];
    for (int64_t dim : function.tensors[output].dims)
      sizes[output].push_back(
          dim == -1 ? mix(Kind::Output, {instruction, i, sizes[output].size()})
                    : fixed(dim));
  }
}

void LaunchHasher::visit(const Launch &op) {
  const std::string &kernel = artifact.kernels[op.kernel].name;
  previous = mix(
      Kind::Launch,
      {previous, zeroed, op.reads.size(), op.writes.size(), op.scalars.size(),
       computeChecksum(
           {reinterpret_cast<const uint8_t *>(kernel.data()), kernel.size()})});
  for (const Registers *list : {&op.reads, &op.writes})
    for (uint32_t tensor : *list) {
      auto dtype = static_cast<uint64_t>(function.tensors[tensor].dtype);
      previous =
          mix(Kind::Tensor, {previous, tensor, dtype, sizes[tensor].size()});
      for (uint64_t size : sizes[tensor])
        previous = mix(Kind::Tensor, {previous, size});
    }
  for (uint32_t scalar : op.scalars)
    previous = mix(Kind::Integer, {previous, integers[scalar]});
  char text[24];
  std::snprintf(text, sizeof(text), "%016llx",
                static_cast<unsigned long long>(previous));
  symbols.push_back({instruction, op.kernel, kernel + "_launch_" + text});
}

std::vector<LaunchSymbol> LaunchHasher::find() {
  for (size_t i = 0; i < function.constants.size(); ++i)
    integers[i] =
        mix(Kind::Constant, {static_cast<uint64_t>(function.constants[i])});
  for (size_t i = 0; i < function.arguments.size(); ++i)
    setArgument(i);
  for (; instruction < function.instructions.size(); ++instruction)
    std::visit([&](const auto &op) { visit(op); },
               function.instructions[instruction].body);
  return std::move(symbols);
}

std::vector<LaunchSymbol>
sextant::runtime::findLaunchSymbols(const Artifact &artifact,
                                    const Function &function) {
  return LaunchHasher(artifact, function).find();
}

//===- ArtifactReader.h - From bytes to a checked program -------*- C++ -*-===//
//
// The first of three steps (parse, initialise, execute). What comes out has
// been checked once: every index is in range, every register is written before
// it is read and not read after its release, every shape has its sizes. The
// executor relies on it.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_ARTIFACTREADER_H
#define SEXTANT_RUNTIME_ARTIFACTREADER_H

#include "runtime/Result.h"
#include "runtime/Tensor.h"
#include <optional>
#include <variant>
#include <vector>

namespace sextant::runtime {

using artifact::ArgumentKind;
using artifact::IntegerKind;
using artifact::ObjectKind;
using artifact::Predicate;

/// Numbers of registers.
using Registers = std::vector<uint32_t>;

struct TensorType {
  DType dtype = DType::F32;
  std::vector<int64_t> dims; ///< -1 is dynamic
};

//===----------------------------------------------------------------------===//
// Instructions: as in Artifact.fbs
//===----------------------------------------------------------------------===//

struct Dim {
  uint32_t tensor, axis, result;
};
struct Integer {
  IntegerKind kind;
  uint32_t left, right, result;
};
struct Alloc {
  uint32_t result;
  Registers sizes;
  bool zero;
};
struct Constant {
  uint32_t result, data;
};
struct Launch {
  uint32_t kernel;
  Registers reads, writes, scalars;
  std::optional<uint32_t> flops, bytes;
};
struct DenseArgument {
  ArgumentKind kind;
  int64_t number;
  std::vector<int64_t> numbers;
  double real;
  std::string text;
};
struct Dense {
  std::string op;
  std::vector<DenseArgument> arguments;
  Registers outputs;
};
struct View {
  uint32_t source, result;
  Registers permutation, sizes;
};
struct Release {
  Registers tensors;
};
struct Check {
  uint32_t left;
  Predicate predicate;
  uint32_t right;
  std::string message;
};
struct Return {
  Registers tensors;
};
struct Element {
  uint32_t tensor, number, result;
};

struct Instruction {
  std::variant<Dim, Integer, Alloc, Constant, Launch, Dense, View, Release,
               Check, Return, Element>
      body;
  std::string label;
};

//===----------------------------------------------------------------------===//
// Functions, parameters, the artifact
//===----------------------------------------------------------------------===//

struct Argument {
  std::string name;
  std::vector<int32_t> dims; ///< per dimension: an index of dimNames, or -1
};

struct Function {
  std::string name;
  std::vector<Argument> arguments;
  std::vector<std::string> dimNames;
  std::vector<std::string> results;
  std::vector<TensorType> tensors;
  std::vector<int64_t> constants;
  uint32_t integers = 0;
  std::vector<Instruction> instructions;
};

struct Data {
  TensorType type;
  std::span<const uint8_t> bytes; ///< into the artifact's buffer
};

struct Parameter {
  std::string name;
  TensorType type;
  artifact::Init init;
  std::vector<double> initNumbers;
  std::optional<uint32_t> data;
  bool frozen, shared;
  std::optional<double> floor, ceiling;
  std::vector<std::pair<std::string, std::string>> settings;
};

struct Object {
  ObjectKind kind;
  std::string architecture;
  std::vector<std::string> features;
  std::span<const uint8_t> code; ///< into the artifact's buffer
};

struct KernelName {
  std::string name;
  uint32_t object;
};

struct Artifact {
  std::unique_ptr<uint8_t[], void (*)(void *)> buffer{nullptr, nullptr};
  std::string compiler, target;
  std::vector<Object> objects;
  std::vector<KernelName> kernels;
  std::vector<Function> functions;
  std::vector<Parameter> parameters;
  std::vector<Data> data;
};

/// Reads a whole `.sxt` file: checksum, then parseProgram.
Result<Artifact> readArtifact(std::span<const uint8_t> bytes);

/// Reads the FlatBuffer inside (what a fuzzer feeds, past the checksum).
Result<Artifact> parseProgram(std::span<const uint8_t> bytes);

/// The semantic check of what was read; part of parseProgram.
Status checkArtifact(const Artifact &artifact);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_ARTIFACTREADER_H

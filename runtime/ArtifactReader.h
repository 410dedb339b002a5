//===- ArtifactReader.h - From bytes to a checked program -------*- C++ -*-===//
//
// Reading is the first of three steps (parse, initialise, execute). Its result
// has been checked once: every index is in range, every register is written
// before it is read and not read after its release, every shape has its sizes.
// The executor relies on it.
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

/// The type of a register, of a parameter or of data.
struct TensorType {
  DType dtype = DType::F32;
  std::vector<int64_t> dims; ///< -1 is dynamic
};

//===----------------------------------------------------------------------===//
// Instructions: as in Artifact.fbs
//===----------------------------------------------------------------------===//

/// The size of a tensor along an axis becomes an integer.
struct Dim {
  uint32_t tensor, axis, result;
};
/// Arithmetic on two integers.
struct Integer {
  IntegerKind kind;
  uint32_t left, right, result;
};
/// Allocates a tensor; one size per dynamic dimension.
struct Alloc {
  uint32_t result;
  Registers sizes;
  bool zero;
};
/// Copies a tensor of the data pool.
struct Constant {
  uint32_t result, data;
};
/// Runs a kernel over its work items.
struct Launch {
  uint32_t kernel;
  Registers reads, writes, scalars;
  std::optional<uint32_t> flops, bytes;
};
/// One argument of a dense operator; `kind` says which field counts.
struct DenseArgument {
  ArgumentKind kind;
  int64_t number;
  std::vector<int64_t> numbers;
  double real;
  std::string text;
};
/// Calls a dense operator.
struct Dense {
  std::string op;
  std::vector<DenseArgument> arguments;
  Registers outputs;
};
/// Gives a tensor's memory another shape.
struct View {
  uint32_t source, result;
  Registers permutation, sizes;
};
/// Drops tensors after their last use.
struct Release {
  Registers tensors;
};
/// Stops the program unless two integers are related.
struct Check {
  uint32_t left;
  Predicate predicate;
  uint32_t right;
  std::string message;
};
/// Ends the function with its results.
struct Return {
  Registers tensors;
};
/// Compares an element of a vector of i64 with an integer, when it is known.
struct CheckData {
  uint32_t tensor, number;
  Predicate predicate;
  uint32_t bound;
  std::string message;
};
/// How far apart a tensor's elements lie along some dimensions becomes an
/// integer.
struct Distance {
  uint32_t tensor;
  std::vector<uint32_t> axes;
  uint32_t result;
};

/// One step of a function; the label says where it comes from, for profiles.
struct Instruction {
  std::variant<Dim, Integer, Alloc, Constant, Launch, Dense, View, Release,
               Check, Return, CheckData, Distance>
      body;
  std::string label;
};

//===----------------------------------------------------------------------===//
// Functions, parameters, the artifact
//===----------------------------------------------------------------------===//

/// What a function states of an argument.
struct Argument {
  std::string name;
  std::vector<int32_t> dims; ///< per dimension: an index of dimNames, or -1
};

/// A list of instructions with its registers.
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

/// A constant tensor.
struct Data {
  TensorType type;
  std::span<const uint8_t> bytes; ///< into the artifact's buffer
};

/// An entry of the manifest: a parameter, its initial values and its bounds.
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

/// Compiled code, and what it runs on.
struct Object {
  ObjectKind kind;
  std::string architecture;
  std::vector<std::string> features;
  std::span<const uint8_t> code; ///< into the artifact's buffer
};

/// A kernel by its symbol, and the objects that hold it: one of the host, and
/// those with code of devices, best first.
struct KernelName {
  std::string name;
  uint32_t object;
  std::vector<uint32_t> deviceObjects;
};

/// A whole artifact; spans in it point into its buffer.
struct Artifact {
  std::unique_ptr<uint8_t[], void (*)(void *)> buffer{nullptr, nullptr};
  std::string compiler, target;
  std::vector<Object> objects;
  std::vector<KernelName> kernels;
  std::vector<Function> functions;
  std::vector<Parameter> parameters;
  std::vector<Data> data;
};

/// Whether a text is UTF-8, as errors and manifests that name it have to be:
/// each first byte is followed by as many others as it says. No zero ends it
/// early.
bool isUtf8(std::string_view text);

/// What stands before the checksum of a `.sxt` file, which it matches.
Result<std::span<const uint8_t>> openFile(std::span<const uint8_t> bytes);

/// Reads a whole `.sxt` file of one program: checksum, then parseProgram.
Result<Artifact> readArtifact(std::span<const uint8_t> bytes);

/// Reads the FlatBuffer inside (what a fuzzer feeds, past the checksum).
Result<Artifact> parseProgram(std::span<const uint8_t> bytes);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_ARTIFACTREADER_H

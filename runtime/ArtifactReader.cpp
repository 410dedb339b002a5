//===- ArtifactReader.cpp - From bytes to structs -------------------------===//
//
// FlatBuffers' verifier makes sure that every offset lies inside the buffer;
// this file copies tables into structs. What the structs mean is checked in
// ArtifactCheck.cpp.
//
//===----------------------------------------------------------------------===//

#include "runtime/ArtifactReader.h"
#include "runtime/ArtifactFormat.h"
#include <bit>
#include <cstdlib>
#include <cstring>

using namespace sextant;
using namespace sextant::runtime;

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

static std::string readText(const flatbuffers::String *text) {
  return text ? text->str() : std::string();
}

/// By memcpy: the verifier lets numbers through that are not aligned.
template <typename T>
static std::vector<T> readNumbers(const flatbuffers::Vector<T> *numbers) {
  static_assert(std::endian::native == std::endian::little);
  if (!numbers || numbers->size() == 0)
    return {};
  std::vector<T> result(numbers->size());
  std::memcpy(result.data(), numbers->Data(), result.size() * sizeof(T));
  return result;
}

template <typename Out, typename Table, typename Read>
static std::vector<Out>
readTables(const flatbuffers::Vector<flatbuffers::Offset<Table>> *tables,
           Read read) {
  std::vector<Out> result;
  if (!tables)
    return result;
  result.reserve(tables->size());
  for (const Table *table : *tables)
    result.push_back(read(*table));
  return result;
}

template <typename T>
static std::optional<T> readOptional(flatbuffers::Optional<T> value) {
  return value.has_value() ? std::optional<T>(*value) : std::nullopt;
}

static TensorType readType(const artifact::TensorType &type) {
  return {type.dtype(), readNumbers(type.dims())};
}

static std::span<const uint8_t>
readBytes(const flatbuffers::Vector<uint8_t> *bytes) {
  return {bytes->data(), bytes->size()};
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

static DenseArgument readArgument(const artifact::DenseArgument &argument) {
  return {argument.kind(), argument.number(), readNumbers(argument.numbers()),
          argument.real(), readText(argument.text())};
}

/// Sets `known` to false for a kind of instruction that this runtime lacks.
static Instruction readInstruction(const artifact::Instruction &table,
                                   bool &known) {
  Instruction result;
  result.label = readText(table.label());
  switch (table.body_type()) {
  case artifact::Body::Dim: {
    const auto *op = table.body_as_Dim();
    result.body = Dim{op->tensor(), op->axis(), op->result()};
    return result;
  }
  case artifact::Body::Element: {
    const auto *op = table.body_as_Element();
    result.body = Element{op->tensor(), op->number(), op->result()};
    return result;
  }
  case artifact::Body::Integer: {
    const auto *op = table.body_as_Integer();
    result.body = Integer{op->kind(), op->left(), op->right(), op->result()};
    return result;
  }
  case artifact::Body::Alloc: {
    const auto *op = table.body_as_Alloc();
    result.body = Alloc{op->result(), readNumbers(op->sizes()), op->zero()};
    return result;
  }
  case artifact::Body::Constant: {
    const auto *op = table.body_as_Constant();
    result.body = Constant{op->result(), op->data()};
    return result;
  }
  case artifact::Body::Launch: {
    const auto *op = table.body_as_Launch();
    result.body = Launch{op->kernel(),
                         readNumbers(op->reads()),
                         readNumbers(op->writes()),
                         readNumbers(op->scalars()),
                         readOptional(op->flops()),
                         readOptional(op->bytes())};
    return result;
  }
  case artifact::Body::Dense: {
    const auto *op = table.body_as_Dense();
    result.body =
        Dense{readText(op->op()),
              readTables<DenseArgument>(op->arguments(), readArgument),
              readNumbers(op->outputs())};
    return result;
  }
  case artifact::Body::View: {
    const auto *op = table.body_as_View();
    result.body =
        View{op->source(), op->result(), readNumbers(op->permutation()),
             readNumbers(op->sizes())};
    return result;
  }
  case artifact::Body::Release:
    result.body = Release{readNumbers(table.body_as_Release()->tensors())};
    return result;
  case artifact::Body::Check: {
    const auto *op = table.body_as_Check();
    result.body = Check{op->left(), op->predicate(), op->right(),
                        readText(op->message())};
    return result;
  }
  case artifact::Body::Return:
    result.body = Return{readNumbers(table.body_as_Return()->tensors())};
    return result;
  case artifact::Body::NONE:
    break;
  }
  known = false;
  return result;
}

//===----------------------------------------------------------------------===//
// The artifact
//===----------------------------------------------------------------------===//

static Function readFunction(const artifact::Function &table, bool &known) {
  Function result;
  result.name = readText(table.name());
  result.arguments = readTables<Argument>(
      table.arguments(), [](const artifact::Argument &argument) {
        return Argument{readText(argument.name()),
                        readNumbers(argument.dims())};
      });
  auto text = [](const flatbuffers::String &name) { return name.str(); };
  result.dimNames = readTables<std::string>(table.dim_names(), text);
  result.results = readTables<std::string>(table.results(), text);
  result.tensors = readTables<TensorType>(table.tensors(), readType);
  result.constants = readNumbers(table.constants());
  result.integers = table.integers();
  result.instructions = readTables<Instruction>(
      table.instructions(), [&](const artifact::Instruction &instruction) {
        return readInstruction(instruction, known);
      });
  return result;
}

static Parameter readParameter(const artifact::Parameter &table) {
  Parameter result;
  result.name = readText(table.name());
  result.type = readType(*table.type());
  result.init = table.init();
  result.initNumbers = readNumbers(table.init_numbers());
  result.data = readOptional(table.data());
  result.frozen = table.frozen();
  result.shared = table.shared();
  result.floor = readOptional(table.floor());
  result.ceiling = readOptional(table.ceiling());
  result.settings = readTables<std::pair<std::string, std::string>>(
      table.settings(), [](const artifact::Setting &setting) {
        return std::pair(readText(setting.name()), readText(setting.value()));
      });
  return result;
}

Result<Artifact> runtime::parseProgram(std::span<const uint8_t> bytes) {
  if (bytes.size() < 8 || !artifact::ArtifactBufferHasIdentifier(bytes.data()))
    return makeError("this is not a Sextant artifact (no identifier SXT1)");
  Artifact result;
  // FlatBuffers reads in place: the copy is aligned and lives with the result.
  size_t room = (bytes.size() + 63) / 64 * 64;
  result.buffer = {static_cast<uint8_t *>(std::aligned_alloc(64, room)),
                   std::free};
  if (!result.buffer)
    return makeError("aligned_alloc: no memory for an artifact of ",
                     bytes.size(), " bytes");
  std::memcpy(result.buffer.get(), bytes.data(), bytes.size());
  flatbuffers::Verifier verifier(result.buffer.get(), bytes.size());
  if (!artifact::VerifyArtifactBuffer(verifier))
    return makeError("the artifact is damaged: FlatBuffers' verifier rejects "
                     "its ",
                     bytes.size(), " bytes");

  const artifact::Artifact &table = *artifact::GetArtifact(result.buffer.get());
  result.compiler = readText(table.compiler());
  if (table.format() != artifactFormat)
    return makeError("the artifact has format ", table.format(), " (made by ",
                     result.compiler, "); this runtime reads format ",
                     artifactFormat, ": compile it again");
  result.target = readText(table.target());
  result.objects =
      readTables<Object>(table.objects(), [](const artifact::Object &object) {
        return Object{
            readTables<std::string>(
                object.features(),
                [](const flatbuffers::String &name) { return name.str(); }),
            readBytes(object.code())};
      });
  result.kernels = readTables<KernelName>(
      table.kernels(), [](const artifact::Kernel &kernel) {
        return KernelName{readText(kernel.name()), kernel.object()};
      });
  bool known = true;
  result.functions = readTables<Function>(
      table.functions(), [&](const artifact::Function &function) {
        return readFunction(function, known);
      });
  if (!known)
    return makeError("the artifact has an instruction of a kind that this "
                     "runtime does not know");
  result.parameters = readTables<Parameter>(table.parameters(), readParameter);
  result.data = readTables<Data>(table.data(), [](const artifact::Data &data) {
    return Data{readType(*data.type()), readBytes(data.bytes())};
  });
  if (Status status = checkArtifact(result); !status)
    return status.error();
  return result;
}

Result<Artifact> runtime::readArtifact(std::span<const uint8_t> bytes) {
  if (bytes.size() < checksumBytes + 8 ||
      !artifact::ArtifactBufferHasIdentifier(bytes.data()))
    return makeError("this is not a Sextant artifact (no identifier SXT1)");
  std::span<const uint8_t> body = bytes.first(bytes.size() - checksumBytes);
  uint64_t expected;
  std::memcpy(&expected, body.data() + body.size(), checksumBytes);
  if (computeChecksum(body) != expected)
    return makeError("the artifact is damaged or cut short: the checksum of "
                     "its ",
                     bytes.size(), " bytes does not match");
  return parseProgram(body);
}

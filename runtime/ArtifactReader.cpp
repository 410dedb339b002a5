//===- ArtifactReader.cpp - From bytes to structs -------------------------===//
//
// FlatBuffers' verifier makes sure that every offset lies inside the buffer;
// this file copies tables into structs. What the structs mean is checked in
// ArtifactCheck.cpp.
//
//===----------------------------------------------------------------------===//

#include "runtime/ArtifactReader.h"
#include "runtime/ArtifactCheck.h"
#include "runtime/ArtifactFormat.h"
#include <bit>
#include <cstdlib>
#include <cstring>

using namespace sextant;
using namespace sextant::runtime;

namespace {

/// Copies tables into structs. Offsets of a damaged file may lead to one table
/// from many places, so what is copied is counted: a file of our own stands for
/// a few times its size, and one that stands for far more is refused.
class Reader {
public:
  explicit Reader(size_t fileBytes) : left(64 * fileBytes + (1 << 20)) {}

  Artifact read(const artifact::Artifact &table);
  bool sawUnknownInstruction() const { return unknown; }
  bool isSpent() const { return spent; }
  bool sawForeignText() const { return foreign; }

private:
  /// Whether `count` more elements of `size` bytes may be copied.
  bool take(size_t count, size_t size) {
    spent |= count > left / size;
    left -= spent ? left : count * size;
    return !spent;
  }

  std::string readText(const flatbuffers::String *text);
  template <typename T>
  std::vector<T> readNumbers(const flatbuffers::Vector<T> *numbers);
  template <typename Out, typename Table, typename Read>
  std::vector<Out>
  readTables(const flatbuffers::Vector<flatbuffers::Offset<Table>> *tables,
             Read read);
  std::vector<std::string> readTexts(
      const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>> *);
  TensorType readType(const artifact::TensorType &type);
  Instruction readInstruction(const artifact::Instruction &table);
  Dense readDense(const artifact::Dense &table);
  Function readFunction(const artifact::Function &table);
  Parameter readParameter(const artifact::Parameter &table);

  size_t left;
  bool spent = false, unknown = false, foreign = false;
};

} // namespace

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

bool runtime::isUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    auto first = static_cast<unsigned char>(text[i]);
    size_t length = first < 0x80                     ? 1
                    : first >= 0xc2 && first < 0xe0  ? 2
                    : first >= 0xe0 && first < 0xf0  ? 3
                    : first >= 0xf0 && first <= 0xf4 ? 4
                                                     : 0;
    if (first == 0 || length == 0 || length > text.size() - i)
      return false;
    uint32_t point = length == 1 ? first : first & (0x7f >> length);
    for (size_t k = 1; k < length; ++k) {
      auto next = static_cast<unsigned char>(text[i + k]);
      if ((next & 0xc0) != 0x80)
        return false;
      point = point << 6 | (next & 0x3f);
    }
    static constexpr uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (point < least[length] || point > 0x10ffff ||
        (point >= 0xd800 && point < 0xe000))
      return false;
    i += length;
  }
  return true;
}

std::string Reader::readText(const flatbuffers::String *text) {
  if (!text || !take(text->size(), 1))
    return {};
  std::string result = text->str();
  foreign |= !isUtf8(result);
  return result;
}

/// By memcpy: the verifier lets numbers through that are not aligned.
template <typename T>
std::vector<T> Reader::readNumbers(const flatbuffers::Vector<T> *numbers) {
  static_assert(std::endian::native == std::endian::little);
  if (!numbers || numbers->size() == 0 || !take(numbers->size(), sizeof(T)))
    return {};
  std::vector<T> result(numbers->size());
  std::memcpy(result.data(), numbers->Data(), result.size() * sizeof(T));
  return result;
}

template <typename Out, typename Table, typename Read>
std::vector<Out> Reader::readTables(
    const flatbuffers::Vector<flatbuffers::Offset<Table>> *tables, Read read) {
  std::vector<Out> result;
  if (!tables || !take(tables->size(), sizeof(Out)))
    return result;
  result.reserve(tables->size());
  for (const Table *table : *tables) {
    if (spent)
      break;
    result.push_back(read(*table));
  }
  return result;
}

std::vector<std::string> Reader::readTexts(
    const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>
        *texts) {
  return readTables<std::string>(
      texts, [&](const flatbuffers::String &text) { return readText(&text); });
}

template <typename T>
static std::optional<T> readOptional(flatbuffers::Optional<T> value) {
  return value.has_value() ? std::optional<T>(*value) : std::nullopt;
}

TensorType Reader::readType(const artifact::TensorType &type) {
  return {type.dtype(), readNumbers(type.dims())};
}

static std::span<const uint8_t>
readBytes(const flatbuffers::Vector<uint8_t> *bytes) {
  return {bytes->data(), bytes->size()};
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

Dense Reader::readDense(const artifact::Dense &table) {
  auto readArgument = [&](const artifact::DenseArgument &argument) {
    return DenseArgument{argument.kind(), argument.number(),
                         readNumbers(argument.numbers()), argument.real(),
                         readText(argument.text())};
  };
  return {readText(table.op()),
          readTables<DenseArgument>(table.arguments(), readArgument),
          readNumbers(table.outputs())};
}

Instruction Reader::readInstruction(const artifact::Instruction &table) {
  Instruction result;
  result.label = readText(table.label());
  switch (table.body_type()) {
  case artifact::Body::Dim: {
    const auto *op = table.body_as_Dim();
    result.body = Dim{op->tensor(), op->axis(), op->result()};
    return result;
  }
  case artifact::Body::CheckData: {
    const auto *op = table.body_as_CheckData();
    result.body = CheckData{op->tensor(), op->number(), op->predicate(),
                            op->bound(), readText(op->message())};
    return result;
  }
  case artifact::Body::Distance: {
    const auto *op = table.body_as_Distance();
    result.body = Distance{op->tensor(), readNumbers(op->axes()), op->result()};
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
  case artifact::Body::Dense:
    result.body = readDense(*table.body_as_Dense());
    return result;
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
  unknown = true;
  return result;
}

//===----------------------------------------------------------------------===//
// The artifact
//===----------------------------------------------------------------------===//

Function Reader::readFunction(const artifact::Function &table) {
  Function result;
  result.name = readText(table.name());
  result.arguments = readTables<Argument>(
      table.arguments(), [&](const artifact::Argument &argument) {
        return Argument{readText(argument.name()),
                        readNumbers(argument.dims())};
      });
  result.dimNames = readTexts(table.dim_names());
  result.results = readTexts(table.results());
  result.tensors = readTables<TensorType>(
      table.tensors(),
      [&](const artifact::TensorType &type) { return readType(type); });
  result.constants = readNumbers(table.constants());
  result.integers = table.integers();
  result.instructions = readTables<Instruction>(
      table.instructions(), [&](const artifact::Instruction &instruction) {
        return readInstruction(instruction);
      });
  return result;
}

Parameter Reader::readParameter(const artifact::Parameter &table) {
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
      table.settings(), [&](const artifact::Setting &setting) {
        return std::pair(readText(setting.name()), readText(setting.value()));
      });
  return result;
}

Artifact Reader::read(const artifact::Artifact &table) {
  Artifact result;
  result.compiler = readText(table.compiler());
  result.target = readText(table.target());
  result.objects =
      readTables<Object>(table.objects(), [&](const artifact::Object &object) {
        return Object{object.kind(), readText(object.architecture()),
                      readTexts(object.features()), readBytes(object.code())};
      });
  result.kernels = readTables<KernelName>(
      table.kernels(), [&](const artifact::Kernel &kernel) {
        return KernelName{readText(kernel.name()), kernel.object(),
                          readNumbers(kernel.device_objects())};
      });
  result.functions = readTables<Function>(
      table.functions(), [&](const artifact::Function &function) {
        return readFunction(function);
      });
  result.parameters = readTables<Parameter>(
      table.parameters(), [&](const artifact::Parameter &parameter) {
        return readParameter(parameter);
      });
  result.data = readTables<Data>(table.data(), [&](const artifact::Data &data) {
    return Data{readType(*data.type()), readBytes(data.bytes())};
  });
  return result;
}

//===----------------------------------------------------------------------===//
// The verifier's work
//===----------------------------------------------------------------------===//

namespace {

/// The verifier goes through a list of texts again for every table that has it.
/// Counts the texts of all tables with lists, each once and before anything is
/// verified: more than the file has room for means that tables share a list.
class TextCounter {
public:
  explicit TextCounter(std::span<const uint8_t> bytes)
      : verifier(bytes.data(), bytes.size(), getLimits(bytes.size())) {}

  static flatbuffers::Verifier::Options getLimits(size_t fileBytes) {
    flatbuffers::Verifier::Options limits;
    // A table takes at least four bytes; no two places share one.
    limits.max_tables = static_cast<flatbuffers::uoffset_t>(fileBytes / 4);
    return limits;
  }

  size_t count(const uint8_t *bytes) {
    using artifact::Artifact, artifact::Function, artifact::Object;
    if (verifier.VerifyOffset(0) == 0)
      return 0; // the verifier will say so
    const auto &root = *flatbuffers::GetRoot<flatbuffers::Table>(bytes);
    if (!root.VerifyTableStart(verifier))
      return 0;
    return count(root, Artifact::VT_OBJECTS, {Object::VT_FEATURES}) +
           count(root, Artifact::VT_FUNCTIONS,
                 {Function::VT_DIM_NAMES, Function::VT_RESULTS});
  }

private:
  using Offsets = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::Table>>;

  const Offsets *getList(const flatbuffers::Table &table, uint16_t field) {
    if (!table.VerifyOffset(verifier, field))
      return nullptr;
    const auto *list = table.GetPointer<const Offsets *>(field);
    return verifier.VerifyVector(list) ? list : nullptr;
  }

  size_t count(const flatbuffers::Table &root, uint16_t tables,
               std::initializer_list<uint16_t> fields) {
    size_t texts = 0;
    const Offsets *list = getList(root, tables);
    for (uint32_t i = 0; list && i < list->size(); ++i) {
      const flatbuffers::Table &table = *list->Get(i);
      if (!table.VerifyTableStart(verifier))
        return texts;
      for (uint16_t field : fields)
        if (const Offsets *inner = getList(table, field))
          texts += inner->size();
      verifier.EndTable();
    }
    return texts;
  }

  flatbuffers::Verifier verifier;
};

} // namespace

Result<Artifact> runtime::parseProgram(std::span<const uint8_t> bytes) {
  if (bytes.size() < 8 || !artifact::ArtifactBufferHasIdentifier(bytes.data()))
    return makeError("this is not a Sextant artifact (no identifier SXT1)");
  if (bytes.size() >= FLATBUFFERS_MAX_BUFFER_SIZE)
    return makeError("an artifact of ", bytes.size(),
                     " bytes is longer than the format allows");
  Artifact result;
  // FlatBuffers reads in place: the copy is aligned and lives with the result.
  size_t room = (bytes.size() + 63) / 64 * 64;
  result.buffer = {static_cast<uint8_t *>(std::aligned_alloc(64, room)),
                   std::free};
  if (!result.buffer)
    return makeError("aligned_alloc: no memory for an artifact of ",
                     bytes.size(), " bytes");
  std::memcpy(result.buffer.get(), bytes.data(), bytes.size());
  std::span<const uint8_t> aligned(result.buffer.get(), bytes.size());
  auto damaged = [&](const char *reason) {
    return makeError("the artifact is damaged: ", reason, " its ", bytes.size(),
                     " bytes");
  };
  if (TextCounter(aligned).count(aligned.data()) > bytes.size() / 4)
    return damaged("lists of texts take more room than");
  flatbuffers::Verifier verifier(aligned.data(), aligned.size(),
                                 TextCounter::getLimits(aligned.size()));
  if (!artifact::VerifyArtifactBuffer(verifier))
    return damaged("FlatBuffers' verifier rejects");

  const artifact::Artifact &table = *artifact::GetArtifact(result.buffer.get());
  if (table.format() != artifactFormat)
    return makeError("the artifact has format ", table.format(), " (made by ",
                     table.compiler() && isUtf8(table.compiler()->str())
                         ? table.compiler()->str()
                         : "somebody else",
                     "); this runtime reads format ", artifactFormat,
                     ": compile it again");
  Reader reader(bytes.size());
  auto buffer = std::move(result.buffer);
  result = reader.read(table);
  result.buffer = std::move(buffer);
  if (reader.isSpent())
    return damaged("its tables stand for far more than");
  if (reader.sawForeignText())
    return damaged("a name that is no text of UTF-8 is among");
  if (reader.sawUnknownInstruction())
    return makeError("the artifact has an instruction of a kind that this "
                     "runtime does not know");
  if (Status status = checkArtifact(result); !status)
    return status.error();
  return result;
}

Result<std::span<const uint8_t>>
runtime::openFile(std::span<const uint8_t> bytes) {
  if (bytes.size() < checksumBytes + 8 || !hasArtifactIdentifier(bytes))
    return makeError("this is not a Sextant artifact (no identifier ",
                     std::string(programIdentifier), " or ",
                     std::string(fatIdentifier), ")");
  std::span<const uint8_t> body = bytes.first(bytes.size() - checksumBytes);
  uint64_t expected;
  std::memcpy(&expected, body.data() + body.size(), checksumBytes);
  if (computeChecksum(body) != expected)
    return makeError("the artifact is damaged or cut short: the checksum of "
                     "its ",
                     bytes.size(), " bytes does not match");
  return body;
}

Result<Artifact> runtime::readArtifact(std::span<const uint8_t> bytes) {
  Result<std::span<const uint8_t>> body = openFile(bytes);
  if (!body)
    return body.error();
  return parseProgram(*body);
}

//===- FatArtifact.cpp - Several programs as one file ---------------------===//
//
// Each artifact is cut where it holds bytes that another one holds, too: what
// is common becomes one blob, what is between becomes blobs of its own.
//
//===----------------------------------------------------------------------===//

#include "codegen/Artifact/FatArtifact.h"
#include "codegen/Artifact/Artifact.h"
#include "runtime/ArtifactFormat.h"
#include "runtime/ArtifactReader.h"
#include "runtime/FatArtifact_generated.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace sextant;
using namespace sextant::codegen;

/// Shorter bytes are not worth a blob.
static constexpr size_t leastShared = 256;

namespace {

/// An artifact that is read, and the places of its bytes that may be shared.
struct Program {
  llvm::StringRef bytes;
  std::string target;
  std::vector<llvm::StringRef> pieces; ///< in order, apart from each other
};

/// Gives each blob its number; equal ones have one.
class Blobs {
public:
  explicit Blobs(flatbuffers::FlatBufferBuilder &builder) : builder(builder) {}

  uint32_t add(llvm::StringRef bytes) {
    auto number = static_cast<uint32_t>(entries.size());
    auto [entry, isNew] = numbers.try_emplace(bytes, number);
    if (isNew) {
      auto vector = builder.CreateVector(
          reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
      entries.push_back(artifact::CreateBlob(builder, vector));
    }
    return entry->second;
  }

  const std::vector<flatbuffers::Offset<artifact::Blob>> &getEntries() const {
    return entries;
  }

private:
  flatbuffers::FlatBufferBuilder &builder;
  llvm::StringMap<uint32_t> numbers;
  std::vector<flatbuffers::Offset<artifact::Blob>> entries;
};

} // namespace

static llvm::Expected<Program> readProgram(llvm::StringRef bytes) {
  auto read = runtime::readArtifact(
      {reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()});
  if (!read)
    return llvm::createStringError("cannot read an artifact back: " +
                                   read.error().message());
  Program program{bytes, read->target, {}};
  // The reader copies the bytes: places in the copy are places in the file.
  auto add = [&](std::span<const uint8_t> span) {
    if (span.size() >= leastShared)
      program.pieces.push_back(
          bytes.substr(span.data() - read->buffer.get(), span.size()));
  };
  for (const runtime::Data &data : read->data)
    add(data.bytes);
  for (const runtime::Object &object : read->objects)
    add(object.code);
  llvm::sort(program.pieces, [](llvm::StringRef a, llvm::StringRef b) {
    return a.data() < b.data();
  });
  return program;
}

/// The blobs that an artifact is made of; `counts` says in how many artifacts
/// bytes are.
static std::vector<uint32_t> cut(const Program &program,
                                 const llvm::StringMap<unsigned> &counts,
                                 Blobs &blobs) {
  std::vector<uint32_t> numbers;
  const char *done = program.bytes.begin();
  auto addOwn = [&](const char *end) {
    if (end != done)
      numbers.push_back(blobs.add({done, static_cast<size_t>(end - done)}));
  };
  for (llvm::StringRef piece : program.pieces) {
    // Two tables of an artifact may lie on the same bytes.
    if (piece.begin() < done || counts.lookup(piece) < 2)
      continue;
    addOwn(piece.begin());
    numbers.push_back(blobs.add(piece));
    done = piece.end();
  }
  addOwn(program.bytes.end());
  return numbers;
}

llvm::Expected<std::string>
codegen::packPrograms(llvm::ArrayRef<std::string> artifacts) {
  std::vector<Program> programs;
  llvm::StringMap<unsigned> counts;
  for (const std::string &bytes : artifacts) {
    llvm::Expected<Program> program = readProgram(bytes);
    if (!program)
      return program.takeError();
    for (llvm::StringRef piece : program->pieces)
      ++counts[piece];
    programs.push_back(std::move(*program));
  }
  flatbuffers::FlatBufferBuilder builder(1 << 16);
  Blobs blobs(builder);
  std::vector<flatbuffers::Offset<artifact::FatPart>> parts;
  for (const Program &program : programs) {
    auto numbers = builder.CreateVector(cut(program, counts, blobs));
    auto target = builder.CreateString(program.target);
    parts.push_back(artifact::CreateFatPart(builder, target, numbers));
  }
  auto compiler = builder.CreateString(getCompilerVersion());
  auto blobsOffset = builder.CreateVector(blobs.getEntries());
  auto partsOffset = builder.CreateVector(parts);
  artifact::FinishFatArtifactBuffer(
      builder, artifact::CreateFatArtifact(builder, runtime::fatFormat,
                                           compiler, blobsOffset, partsOffset));
  return sealBytes(builder);
}

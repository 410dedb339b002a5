//===- FatArtifact.cpp - From one file to several programs ----------------===//
//
// Blobs are put together to files, and each of these is read as any other.
//
//===----------------------------------------------------------------------===//

#include "runtime/FatArtifact.h"
#include "runtime/ArtifactFormat.h"
#include "runtime/FatArtifact_generated.h"
#include <cstring>

using namespace sextant;
using namespace sextant::runtime;

/// What stands for far more than its size is refused: blobs of a damaged file
/// may be named many times.
static size_t getMostBytes(size_t fileBytes) {
  return 64 * fileBytes + (1 << 20);
}

static Result<FatPart> joinBlobs(const artifact::FatArtifact &table,
                                 const artifact::FatPart &part, size_t &left) {
  FatPart result;
  result.target = part.target()->str();
  if (!isUtf8(result.target))
    return makeError("the target of a part is no text of UTF-8");
  for (uint32_t number : *part.blobs()) {
    if (number >= table.blobs()->size())
      return makeError("blob ", number, " of the part '", result.target,
                       "' is not among the ", table.blobs()->size());
    const flatbuffers::Vector<uint8_t> &bytes =
        *table.blobs()->Get(number)->bytes();
    // A blob counts as one byte more, so that empty ones end, too.
    if (bytes.size() + 1 > left)
      return makeError("its parts stand for far more than its bytes");
    left -= bytes.size() + 1;
    result.bytes.insert(result.bytes.end(), bytes.begin(), bytes.end());
  }
  return result;
}

Result<std::vector<FatPart>>
runtime::parseParts(std::span<const uint8_t> bytes) {
  if (!isFat(bytes))
    return makeError("this is not a fat artifact (no identifier ",
                     std::string(fatIdentifier), ")");
  if (bytes.size() >= FLATBUFFERS_MAX_BUFFER_SIZE)
    return makeError("an artifact of ", bytes.size(),
                     " bytes is longer than the format allows");
  // FlatBuffers reads in place, numbers of 4 bytes at most.
  std::vector<uint32_t> aligned((bytes.size() + 3) / 4);
  std::memcpy(aligned.data(), bytes.data(), bytes.size());
  flatbuffers::Verifier verifier(
      reinterpret_cast<const uint8_t *>(aligned.data()), bytes.size());
  if (!artifact::VerifyFatArtifactBuffer(verifier))
    return makeError("the artifact is damaged: FlatBuffers' verifier rejects "
                     "its ",
                     bytes.size(), " bytes");
  const artifact::FatArtifact &table =
      *artifact::GetFatArtifact(aligned.data());
  if (table.format() != fatFormat)
    return makeError("the artifact of several programs has format ",
                     table.format(), "; this runtime reads format ", fatFormat,
                     ": compile it again");
  if (table.parts()->size() == 0)
    return makeError("the artifact is damaged: it has no parts");
  size_t left = getMostBytes(bytes.size());
  std::vector<FatPart> parts;
  for (const artifact::FatPart *part : *table.parts()) {
    Result<FatPart> joined = joinBlobs(table, *part, left);
    if (!joined)
      return joined.error().in("the artifact is damaged");
    parts.push_back(std::move(*joined));
  }
  return parts;
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

static bool isSame(const TensorType &a, const TensorType &b) {
  return a.dtype == b.dtype && a.dims == b.dims;
}

static bool isSame(const Function &a, const Function &b) {
  if (a.name != b.name || a.arguments.size() != b.arguments.size() ||
      a.results != b.results)
    return false;
  for (size_t i = 0; i < a.arguments.size(); ++i)
    if (a.arguments[i].name != b.arguments[i].name ||
        !isSame(a.tensors[i], b.tensors[i]))
      return false;
  return true;
}

static bool isSame(const Parameter &a, const Parameter &b) {
  return a.name == b.name && isSame(a.type, b.type);
}

template <typename T>
static bool areSame(const std::vector<T> &a, const std::vector<T> &b) {
  if (a.size() != b.size())
    return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!isSame(a[i], b[i]))
      return false;
  return true;
}

Result<std::vector<Artifact>>
runtime::readArtifacts(std::span<const uint8_t> bytes) {
  Result<std::span<const uint8_t>> body = openFile(bytes);
  if (!body)
    return body.error();
  std::vector<Artifact> artifacts;
  if (!isFat(bytes)) {
    Result<Artifact> artifact = parseProgram(*body);
    if (!artifact)
      return artifact.error();
    artifacts.push_back(std::move(*artifact));
    return artifacts;
  }
  Result<std::vector<FatPart>> parts = parseParts(*body);
  if (!parts)
    return parts.error();
  for (const FatPart &part : *parts) {
    std::string place = "part '" + part.target + "' of the artifact";
    Result<Artifact> artifact = readArtifact(part.bytes);
    if (!artifact)
      return artifact.error().in(place);
    if (artifact->target != part.target)
      return makeError(place, ": the artifact is damaged: the program is for '",
                       artifact->target, "'");
    if (!artifacts.empty() &&
        !(areSame(artifacts[0].functions, artifact->functions) &&
          areSame(artifacts[0].parameters, artifact->parameters)))
      return makeError(place,
                       ": the artifact is damaged: the functions or "
                       "parameters are others than those of '",
                       artifacts[0].target, "'");
    artifacts.push_back(std::move(*artifact));
  }
  return artifacts;
}

std::string runtime::joinTargets(std::span<const Artifact> artifacts) {
  std::string targets;
  for (const Artifact &artifact : artifacts)
    targets += (targets.empty() ? "" : ",") + artifact.target;
  return targets;
}

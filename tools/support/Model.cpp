//===- Model.cpp - A program from an artifact or from a model -------------===//
//
// A file whose bytes begin as an artifact's is loaded; any other is compiled as
// a model.
//
//===----------------------------------------------------------------------===//

#include "tools/support/Model.h"
#include "runtime/ProgramChoice.h"
#include "runtime/cpu/HostDevice.h"
#include "runtime/cuda/CudaDevice.h"
#include "tools/support/InputFile.h"
#include "tools/support/ParsedModel.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace sextant;
using runtime::makeError;
using runtime::Program;
using runtime::Result;

/// The target that runs definitions literally.
static constexpr const char *referenceTarget = "reference";

static Result<std::string> compile(const std::string &text,
                                   const std::string &path,
                                   const codegen::CompileOptions &options) {
  tools::ParsedModel model(text, path);
  if (!model.get())
    return makeError(path, " cannot be parsed");
  llvm::Expected<std::string> bytes =
      codegen::compileToArtifact(model.get(), options);
  if (!bytes)
    return makeError(llvm::toString(bytes.takeError()));
  return std::move(*bytes);
}

/// Loads the program for a device; of a fat artifact it says which that is.
static Result<std::unique_ptr<Program>>
loadOn(const runtime::Device &device,
       std::vector<runtime::Artifact> artifacts) {
  bool isFat = artifacts.size() > 1;
  std::string targets = runtime::joinTargets(artifacts);
  Result<size_t> chosen = runtime::chooseProgram(artifacts, device);
  if (!chosen)
    return chosen.error();
  runtime::Artifact &artifact = artifacts[*chosen];
  if (isFat)
    llvm::errs() << "note: of '" << targets << "' this machine runs '"
                 << artifact.target << "'\n";
  return Program::load(std::move(artifact), device);
}

/// On the first GPU if it has code of one, else on the host. A fat artifact
/// with code of both is one for machines without a GPU, too.
static Result<std::unique_ptr<Program>> load(llvm::StringRef bytes) {
  Result<std::vector<runtime::Artifact>> artifacts = runtime::readArtifacts(
      {reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()});
  if (!artifacts)
    return artifacts.error();
  if (llvm::all_of(*artifacts, runtime::isForHost))
    return loadOn(runtime::getHostDevice(), std::move(*artifacts));
  bool isForBoth = llvm::any_of(*artifacts, runtime::isForHost);
  Result<const runtime::Device *> gpu = runtime::cuda::getCudaDevice(0);
  if (gpu)
    return loadOn(**gpu, std::move(*artifacts));
  if (!isForBoth)
    return gpu.error();
  return loadOn(runtime::getHostDevice(), std::move(*artifacts));
}

Result<runtime::Artifact> tools::readGpuProgram(llvm::StringRef bytes,
                                                llvm::StringRef target) {
  Result<std::vector<runtime::Artifact>> artifacts = runtime::readArtifacts(
      {reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()});
  if (!artifacts)
    return artifacts.error();
  std::string targets = runtime::joinTargets(*artifacts);
  if (target != "cpu" && !target.contains(',')) {
    llvm::erase_if(*artifacts, [&](const runtime::Artifact &artifact) {
      return artifact.target != target;
    });
    if (artifacts->empty())
      return makeError("its programs are for '", targets, "', none for '",
                       target.str(), "'");
  } else if (artifacts->size() > 1) {
    llvm::erase_if(*artifacts, runtime::isForHost);
  }
  if (artifacts->size() != 1)
    return makeError("of the programs for '", targets, "' ",
                     artifacts->empty()
                         ? "none is for a GPU"
                         : "several are for a GPU: name one with --target");
  return std::move(artifacts->front());
}

Result<std::string> tools::readProgram(const std::string &path,
                                       const codegen::CompileOptions &options) {
  Result<std::string> file = readInputFile(path);
  if (!file || isArtifact(*file) || path.ends_with(".sxt"))
    return file;
  if (file->find('\0') != std::string::npos && !isBytecode(*file))
    return makeError(path, " is neither a model (text of MLIR, or bytecode) "
                           "nor an artifact (a .sxt file)");
  return compile(*file, path, options);
}

Result<std::unique_ptr<Program>>
tools::loadModel(const std::string &path,
                 const codegen::CompileOptions &options) {
  Result<std::string> bytes = readProgram(path, options);
  if (!bytes)
    return bytes.error();
  Result<std::unique_ptr<Program>> program = load(*bytes);
  if (!program)
    return program.error().in(path);
  return program;
}

/// The reference computes in f32 and f64 only: a model of bf16 or f16 is
/// checked with the same model of f32. Element types stand at the end of a
/// tensor type.
static std::string widenElements(std::string text) {
  for (llvm::StringRef narrow : {"bf16>", "f16>"})
    for (size_t at = text.find(narrow); at != std::string::npos;
         at = text.find(narrow, at))
      text.replace(at, narrow.size(), "f32>");
  return text;
}

/// A model as text, which a file of bytecode becomes.
static Result<std::string> getText(std::string bytes, const std::string &path) {
  if (!tools::isBytecode(bytes))
    return bytes;
  tools::ParsedModel model(bytes, path);
  if (!model.get())
    return makeError(path, " cannot be parsed");
  std::string text;
  llvm::raw_string_ostream stream(text);
  model.get()->print(stream);
  return text;
}

/// Compiled code does not say what it computes. The definition is in an
/// artifact if it was compiled for the reference, too.
static Result<std::unique_ptr<Program>> loadReferenceOf(llvm::StringRef bytes) {
  Result<std::vector<runtime::Artifact>> artifacts = runtime::readArtifacts(
      {reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()});
  if (!artifacts)
    return artifacts.error();
  auto found = llvm::find_if(*artifacts, [](const runtime::Artifact &artifact) {
    return artifact.target == referenceTarget;
  });
  if (found == artifacts->end()) {
    std::string targets = runtime::joinTargets(*artifacts);
    return makeError(
        "it is compiled for '", targets,
        "' and does not hold the definition: name the model that it was "
        "compiled from with --model MODEL.mlir, or compile that with --target=",
        targets, ",", referenceTarget);
  }
  return Program::load(std::move(*found), runtime::getHostDevice());
}

Result<std::unique_ptr<Program>>
tools::loadReference(const std::string &path, codegen::CompileOptions options) {
  Result<std::string> file = readInputFile(path);
  if (!file)
    return file.error();
  if (isArtifact(*file)) {
    Result<std::unique_ptr<Program>> program = loadReferenceOf(*file);
    if (!program)
      return program.error().in(path);
    return program;
  }
  Result<std::string> text = getText(std::move(*file), path);
  if (!text)
    return text.error();
  options.target = referenceTarget;
  Result<std::string> bytes = compile(widenElements(*text), path, options);
  if (!bytes)
    return bytes.error().in("the reference");
  Result<std::unique_ptr<Program>> program = load(*bytes);
  if (!program)
    return program.error().in("the reference");
  return program;
}

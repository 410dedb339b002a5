//===- Model.cpp - A program from an artifact or from a model -------------===//
//
// A file whose bytes begin as an artifact's is loaded; any other is compiled as
// a model.
//
//===----------------------------------------------------------------------===//

#include "tools/support/Model.h"
#include "mlir/IR/MLIRContext.h"
#include "passes/Encoding/ParseText.h"
#include "runtime/cpu/HostDevice.h"
#include "runtime/cuda/CudaDevice.h"
#include "tools/support/InputFile.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace sextant;
using runtime::makeError;
using runtime::Program;
using runtime::Result;

static Result<std::string> compile(const std::string &text,
                                   const std::string &path,
                                   const codegen::CompileOptions &options) {
  DialectRegistry registry;
  codegen::registerCompilerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBuffer(text, path),
                             llvm::SMLoc());
  SourceMgrDiagnosticHandler handler(sources, &context);
  OwningOpRef<ModuleOp> module = passes::parseText(sources, &context);
  if (!module)
    return makeError(path, " cannot be parsed");
  llvm::Expected<std::string> bytes =
      codegen::compileToArtifact(*module, options);
  if (!bytes)
    return makeError(llvm::toString(bytes.takeError()));
  return std::move(*bytes);
}

/// On the first GPU if it has code of one, else on the host.
static Result<std::unique_ptr<Program>> load(llvm::StringRef bytes) {
  Result<runtime::Artifact> artifact = runtime::readArtifact(
      {reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()});
  if (!artifact)
    return artifact.error();
  bool isForGpu = llvm::any_of(artifact->kernels, [](const auto &kernel) {
    return !kernel.deviceObjects.empty();
  });
  Result<const runtime::Device *> device =
      isForGpu ? runtime::cuda::getCudaDevice(0)
               : Result<const runtime::Device *>(&runtime::getHostDevice());
  if (!device)
    return device.error();
  return Program::load(std::move(*artifact), **device);
}

Result<std::string> tools::readProgram(const std::string &path,
                                       const codegen::CompileOptions &options) {
  Result<std::string> file = readInputFile(path);
  if (!file || isArtifact(*file) || path.ends_with(".sxt"))
    return file;
  if (file->find('\0') != std::string::npos)
    return makeError(path, " is neither a model (text of MLIR) nor an "
                           "artifact (a .sxt file)");
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

Result<std::unique_ptr<Program>>
tools::loadReference(const std::string &path, codegen::CompileOptions options) {
  Result<std::string> file = readInputFile(path);
  if (!file)
    return file.error();
  options.target = "reference";
  Result<std::string> bytes = compile(widenElements(*file), path, options);
  if (!bytes)
    return bytes.error().in("the reference");
  Result<std::unique_ptr<Program>> program = load(*bytes);
  if (!program)
    return program.error().in("the reference");
  return program;
}

//===- Model.cpp - A program from an artifact or from a model -------------===//

#include "tools/support/Model.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "runtime/cpu/HostDevice.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace sextant;
using runtime::makeError;
using runtime::Program;
using runtime::Result;
using Bytes = std::unique_ptr<llvm::MemoryBuffer>;

static Result<Bytes> readFile(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(path);
  if (!buffer)
    return makeError(path, ": ", buffer.getError().message());
  return std::move(*buffer);
}

static Result<std::string> compile(Bytes text,
                                   const codegen::CompileOptions &options) {
  DialectRegistry registry;
  codegen::registerCompilerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  llvm::SourceMgr sources;
  std::string name = text->getBufferIdentifier().str();
  sources.AddNewSourceBuffer(std::move(text), llvm::SMLoc());
  SourceMgrDiagnosticHandler handler(sources, &context);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, &context);
  if (!module)
    return makeError(name, " cannot be parsed");
  llvm::Expected<std::string> bytes =
      codegen::compileToArtifact(*module, options);
  if (!bytes)
    return makeError(llvm::toString(bytes.takeError()));
  return std::move(*bytes);
}

static Result<std::unique_ptr<Program>> load(llvm::StringRef bytes) {
  return Program::load(
      {reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()},
      runtime::getHostDevice());
}

bool tools::isArtifact(const std::string &path) {
  return path.ends_with(".sxt");
}

Result<std::unique_ptr<Program>>
tools::loadModel(const std::string &path,
                 const codegen::CompileOptions &options) {
  Result<Bytes> file = readFile(path);
  if (!file)
    return file.error();
  if (isArtifact(path)) {
    Result<std::unique_ptr<Program>> program = load((*file)->getBuffer());
    if (!program)
      return program.error().in(path);
    return program;
  }
  Result<std::string> bytes = compile(std::move(*file), options);
  if (!bytes)
    return bytes.error();
  return load(*bytes);
}

/// The reference computes in f32 and f64 only: a model of bf16 is checked with
/// the same model of f32. Element types stand at the end of a tensor type.
static std::string replaceBF16(llvm::StringRef text) {
  std::string result;
  for (;;) {
    auto [before, after] = text.split("bf16>");
    result += before;
    if (before.size() == text.size())
      return result;
    result += "f32>";
    text = after;
  }
}

Result<std::unique_ptr<Program>>
tools::loadReference(const std::string &path, codegen::CompileOptions options) {
  Result<Bytes> file = readFile(path);
  if (!file)
    return file.error();
  options.target = "reference";
  std::string text = replaceBF16((*file)->getBuffer());
  Result<std::string> bytes =
      compile(llvm::MemoryBuffer::getMemBufferCopy(text, path), options);
  if (!bytes)
    return bytes.error().in("the reference");
  return load(*bytes);
}

//===- sextant-compile.cpp - Compiles a model to an artifact
//----------------===//
//
// Exit codes: 0 done, 1 the input is at fault, 2 the command line is.
//
//===----------------------------------------------------------------------===//

#include "codegen/Compile.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;
using namespace sextant::codegen;
namespace cl = llvm::cl;

static cl::OptionCategory category("Options of sextant-compile");
static cl::opt<std::string> inputFile(cl::Positional, cl::init("-"),
                                      cl::desc("<model.mlir>"),
                                      cl::cat(category));
static cl::opt<std::string> outputFile("o", cl::init("-"),
                                       cl::value_desc("file"),
                                       cl::desc("Where to write (- is stdout)"),
                                       cl::cat(category));
static cl::opt<std::string> targetName(
    "target", cl::init("cpu"), cl::value_desc("name"),
    cl::desc("reference, cpu, cpu:avx2, cpu:avx512 or cpu:avx512bf16"),
    cl::cat(category));
static cl::opt<std::string>
    searchPath("search-path", cl::value_desc("folders"),
               cl::desc("Folders of encodings, separated by colons"),
               cl::cat(category));
static cl::opt<bool> noCache("no-cache",
                             cl::desc("Neither read nor fill the disk cache"),
                             cl::cat(category));
static cl::opt<CompileStage> emit(
    "emit", cl::init(CompileStage::Artifact), cl::desc("What to write"),
    cl::values(clEnumValN(CompileStage::Pos, "pos", "fused and hoisted sites"),
               clEnumValN(CompileStage::Exec, "exec", "launches and kernels"),
               clEnumValN(CompileStage::Kernel, "kernel", "the kernels' loops"),
               clEnumValN(CompileStage::LLVM, "llvm", "the kernels' LLVM IR"),
               clEnumValN(CompileStage::Assembly, "asm",
                          "the kernels' assembly"),
               clEnumValN(CompileStage::Artifact, "artifact",
                          "a .sxt file (the default)")),
    cl::cat(category));

static int fail(const llvm::Twine &message) {
  llvm::errs() << "sextant-compile: " << message << '\n';
  return 1;
}

/// LLVM's parser exits with 1 on a wrong command line; tools here with 2.
static void parseCommandLine(int argc, char **argv) {
  cl::HideUnrelatedOptions(category);
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (cl::ParseCommandLineOptions(argc, argv, "Compiles a model\n", &stream))
    return;
  llvm::errs() << message;
  std::exit(2);
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  parseCommandLine(argc, argv);
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> buffer =
      openInputFile(inputFile, &message);
  if (!buffer)
    return fail(message);

  DialectRegistry registry;
  registerCompilerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  SourceMgrDiagnosticHandler handler(sources, &context);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, &context);
  if (!module)
    return 1;
  CompileOptions options;
  options.target = targetName;
  options.searchPath = searchPath;
  options.useCache = !noCache;
  // The linker, a library of this process, resets all options of the process.
  CompileStage stage = emit;
  std::string path = outputFile;
  llvm::Expected<std::string> result =
      stage == CompileStage::Artifact ? compileToArtifact(*module, options)
                                      : compileToStage(*module, options, stage);
  if (!result)
    return fail(llvm::toString(result.takeError()));

  std::unique_ptr<llvm::ToolOutputFile> output = openOutputFile(path, &message);
  if (!output)
    return fail(message);
  output->os() << *result;
  output->os().flush();
  if (output->os().has_error()) {
    std::string reason = output->os().error().message();
    output->os().clear_error();
    return fail("cannot write " + path + ": " + reason);
  }
  output->keep();
  return 0;
}

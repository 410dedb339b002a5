//===- sextant-compile.cpp - Compiles a model to an artifact --------------===//
//
// This tool compiles a model to an artifact, or prints a stage on the way. Exit
// codes: 0 done, 1 the input is at fault, 2 the command line is.
//
//===----------------------------------------------------------------------===//

#include "codegen/Driver/Compile.h"
#include "codegen/Driver/Targets.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Support/FileUtilities.h"
#include "tools/support/CommandLine.h"
#include "tools/support/InputFile.h"
#include "tools/support/ParsedModel.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;
using namespace sextant::codegen;

/// What --emit takes.
static constexpr std::pair<llvm::StringLiteral, CompileStage> stages[] = {
    {"pos", CompileStage::Pos},       {"exec", CompileStage::Exec},
    {"kernel", CompileStage::Kernel}, {"llvm", CompileStage::LLVM},
    {"asm", CompileStage::Assembly},  {"artifact", CompileStage::Artifact},
};

static int fail(const llvm::Twine &message) {
  llvm::errs() << "sextant-compile: " << message << '\n';
  return 1;
}

/// Prints every remark as a diagnostic.
static LogicalResult enableRemarks(MLIRContext &context) {
  remark::RemarkCategories all{".*", ".*", ".*", ".*", ".*"};
  return remark::enableOptimizationRemarks(
      context, /*streamer=*/nullptr,
      std::make_unique<remark::RemarkEmittingPolicyAll>(), all,
      /*printAsEmitRemarks=*/true);
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  CompileOptions options;
  std::string path = "-", emit = "artifact";
  bool noCache = false, tellsRemarks = false;
  sextant::tools::CommandLine commandLine(
      "sextant-compile", "MODEL.mlir",
      "Compiles a model to an artifact, or to a stage on the way.\n");
  commandLine.addValue("o", path, "FILE", "where to write (-, stdout)");
  commandLine.addValue("target", options.target, "NAMES",
                       "one of " + listTargets() +
                           " (cpu); several with commas between them make one "
                           "artifact, of which a device runs the first it can");
  commandLine.addValue(
      "emit", emit, "STAGE",
      "pos (fused and hoisted sites), exec (launches and "
      "kernels), kernel, llvm, asm (for a GPU, PTX) or artifact "
      "(artifact)");
  commandLine.addValue("search-path", options.searchPath, "FOLDERS",
                       "of encodings, separated by colons");
  commandLine.addFlag(
      "remarks", tellsRemarks,
      "say what passes did and left, what kernels of a GPU take "
      "of it, and the time of LLVM and its assembler (stderr); "
      "compiles anew");
  commandLine.addFlag("no-cache", noCache,
                      "neither read nor fill the disk cache");
  std::string inputFile = commandLine.parse(argc, argv);
  options.useCache = !noCache && !tellsRemarks; // the cache keeps no remarks
  const auto *stage = llvm::find_if(
      stages, [&](const auto &entry) { return entry.first == emit; });
  if (stage == std::end(stages))
    commandLine.fail("unknown stage '" + emit + "'");
  // Its bytes would be commands to a terminal.
  if (stage->second == CompileStage::Artifact && path == "-" &&
      llvm::outs().is_displayed())
    commandLine.fail("an artifact is no text to show: name a file by -o");
  sextant::runtime::Result<std::string> text =
      sextant::tools::readInputFile(inputFile);
  if (!text)
    return fail(text.error().message());

  sextant::tools::ParsedModel model(*text, inputFile);
  if (!model.get())
    return 1;
  if (tellsRemarks && failed(enableRemarks(model.getContext())))
    return fail("cannot enable remarks");
  llvm::Expected<std::string> result =
      stage->second == CompileStage::Artifact
          ? compileToArtifact(model.get(), options)
          : compileToStage(model.get(), options, stage->second);
  if (!result)
    return fail(llvm::toString(result.takeError()));

  std::string message;
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

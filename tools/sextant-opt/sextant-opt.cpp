//===- sextant-opt.cpp - Runs Sextant's passes on a file ------------------===//
//
// This tool is mlir-opt, with all of upstream's dialects and passes, and with
// the dialects, passes and pipelines of Sextant.
//
//===----------------------------------------------------------------------===//

#include "codegen/Artifact/Artifact.h"
#include "codegen/Driver/Compile.h"
#include "codegen/Driver/LowerAttention.h"
#include "codegen/Driver/Targets.h"
#include "codegen/Plan/PrintKernelPlan.h"
#include "dialects/InitAllDialects.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "passes/InitAllPasses.h"
#include "llvm/Support/CommandLine.h"

int main(int argc, char **argv) {
  llvm::cl::SetVersionPrinter([](llvm::raw_ostream &stream) {
    stream << sextant::codegen::getCompilerVersion() << '\n';
  });
  mlir::DialectRegistry registry;
  sextant::registerAllDialects(registry);
  sextant::codegen::registerTargetDialects(registry);
  mlir::registerAllPasses();
  sextant::registerAllPasses();
  sextant::codegen::registerSextantCodegenPasses();
  sextant::codegen::registerSextantPlanPasses();
  sextant::codegen::registerCompilePipeline();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Sextant's optimizer driver\n", registry));
}

//===- sextant-lsp-server.cpp - Language server for .mlir files -----------===//
//
// Editors show errors and definitions in .mlir files with this server, which is
// MLIR's own with the dialects of Sextant.
//
//===----------------------------------------------------------------------===//

#include "codegen/Artifact/Artifact.h"
#include "dialects/InitAllDialects.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "llvm/Support/CommandLine.h"

int main(int argc, char **argv) {
  llvm::cl::SetVersionPrinter([](llvm::raw_ostream &stream) {
    stream << sextant::codegen::getCompilerVersion() << '\n';
  });
  mlir::DialectRegistry registry;
  sextant::registerAllDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}

//===- sextant-lsp-server.cpp - Language server for .mlir files -----------===//
//
// Editors show errors and definitions in .mlir files with this server, which is
// MLIR's own with the dialects of Sextant.
//
//===----------------------------------------------------------------------===//

#include "dialects/InitAllDialects.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  sextant::registerAllDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}

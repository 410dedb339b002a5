//===- ParsedModel.h - A model of a file, ready to compile ------*- C++ -*-===//
//
// A model is text of MLIR or bytecode. Tools parse either with this class,
// under which diagnostics of the compiler show the line that they speak of.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_TOOLS_SUPPORT_PARSEDMODEL_H
#define SEXTANT_TOOLS_SUPPORT_PARSEDMODEL_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/SourceMgr.h"

namespace sextant::tools {

/// A context of the compiler with the module of a file in it.
class ParsedModel {
public:
  /// `bytes` are read in place: they outlive this.
  ParsedModel(llvm::StringRef bytes, llvm::StringRef path);

  /// Null where the file was wrong, which diagnostics on stderr have told.
  mlir::ModuleOp get() const { return module.get(); }
  mlir::MLIRContext &getContext() { return context; }

private:
  mlir::MLIRContext context;
  llvm::SourceMgr sources;
  mlir::SourceMgrDiagnosticHandler handler;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// Whether these bytes begin as bytecode of MLIR does.
bool isBytecode(llvm::StringRef bytes);

} // namespace sextant::tools

#endif // SEXTANT_TOOLS_SUPPORT_PARSEDMODEL_H

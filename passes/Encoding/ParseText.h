//===- ParseText.h - Modules and definitions as text -----------*- C++ -*-===//
//
// MLIR's parser rounds literals of f32. These functions parse a module or a
// definition and keep the numbers as they were written, for evaluation in f64.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_ENCODING_PARSETEXT_H
#define SEXTANT_PASSES_ENCODING_PARSETEXT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/SourceMgr.h"

namespace sextant::passes {

/// Parses a module, or definitions that stand alone, and keeps the numbers of
/// its f32 literals where f32 does not hold them (`pos.exact`). Null, with
/// diagnostics, where the text is wrong.
mlir::OwningOpRef<mlir::ModuleOp> parseText(const llvm::SourceMgr &sources,
                                            mlir::MLIRContext *context);
mlir::OwningOpRef<mlir::ModuleOp> parseText(llvm::StringRef text,
                                            llvm::StringRef name,
                                            mlir::MLIRContext *context);
/// Null, with a diagnostic, where the file cannot be read.
mlir::OwningOpRef<mlir::ModuleOp> parseTextFile(llvm::StringRef path,
                                                mlir::MLIRContext *context);

} // namespace sextant::passes

#endif // SEXTANT_PASSES_ENCODING_PARSETEXT_H

//===- EncodingLibrary.h - Definitions of encodings by name -----*- C++ -*-===//
//
// The library finds the definition of an encoding by its name.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_ENCODING_ENCODINGLIBRARY_H
#define SEXTANT_PASSES_ENCODING_ENCODINGLIBRARY_H

#include "dialects/Pos/IR/Pos.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "passes/Encoding/SearchPath.h"
#include "llvm/ADT/StringMap.h"

namespace sextant::passes {

/// Finds definitions: in a module, or else in the files of a search path. Files
/// are parsed once. The dialects of definitions must be loaded.
class EncodingLibrary {
public:
  /// `module` may be null: definitions then come from files only.
  EncodingLibrary(mlir::MLIRContext *context, SearchPath path,
                  mlir::ModuleOp module);

  /// The definition, with its options unfolded. Fails with a diagnostic at
  /// `user` when there is none (listing the nearest names), or at the line of
  /// the file that is wrong.
  mlir::FailureOr<pos::EncodingOp> find(llvm::StringRef name,
                                        mlir::Location user);

  /// Names of all definitions within reach, sorted.
  llvm::SmallVector<std::string> list() const;

private:
  mlir::MLIRContext *context;
  SearchPath path;
  mlir::ModuleOp module;
  llvm::StringMap<pos::EncodingOp> known;
  llvm::SmallVector<mlir::OwningOpRef<mlir::ModuleOp>> files;
};

/// The dialects that a definition may use.
void registerEncodingDialects(mlir::DialectRegistry &registry);

} // namespace sextant::passes

#endif // SEXTANT_PASSES_ENCODING_ENCODINGLIBRARY_H

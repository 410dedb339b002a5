//===- Specialize.h - A definition for values of its options ----*- C++ -*-===//
//
// Linking copies a definition for the options of each use: the copy has
// constants in their place and lacks what they leave unused.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_ENCODING_SPECIALIZE_H
#define SEXTANT_PASSES_ENCODING_SPECIALIZE_H

#include "dialects/Pos/IR/Pos.h"
#include "mlir/IR/OwningOpRef.h"

namespace sextant::passes {

/// A copy of a definition with its options folded to `values`, in the order of
/// declaration, without the parameters and sites that these values leave
/// unused. A value that differs from the default and changes nothing beside the
/// other values is an error at `user`.
mlir::FailureOr<mlir::OwningOpRef<pos::EncodingOp>>
specialize(pos::EncodingOp definition, llvm::ArrayRef<mlir::TypedAttr> values,
           mlir::Location user);

} // namespace sextant::passes

#endif // SEXTANT_PASSES_ENCODING_SPECIALIZE_H

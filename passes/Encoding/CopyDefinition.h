//===- CopyDefinition.h - A definition for given options --------*- C++ -*-===//
//
// Linking copies a definition for the options of each use: the copy has
// constants in their place and lacks what they leave unused.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_ENCODING_COPYDEFINITION_H
#define SEXTANT_PASSES_ENCODING_COPYDEFINITION_H

#include "dialects/Pos/IR/Pos.h"
#include "mlir/IR/OwningOpRef.h"

namespace sextant::passes {

/// A copy of a definition with its options folded to `values`, in the order of
/// declaration, without the parameters and sites that these values leave
/// unused. A value that differs from the default and changes nothing beside the
/// other values is an error at `user`.
mlir::FailureOr<mlir::OwningOpRef<pos::EncodingOp>>
copyDefinition(pos::EncodingOp definition,
               llvm::ArrayRef<mlir::TypedAttr> values, mlir::Location user);

/// Leaves of a definition what acts inside attention: erases its functions, its
/// inputs, and the parameters that functions see and no site reads.
void removeModelPart(pos::EncodingOp definition);

} // namespace sextant::passes

#endif // SEXTANT_PASSES_ENCODING_COPYDEFINITION_H

//===- Vectors.h - Extents of the vectors of a payload ----------*- C++ -*-===//
//
// In a definition the vectors over heads and hidden units have dynamic extents.
// Kernels compile them in, so inlining makes them static.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_ENCODING_VECTORS_H
#define SEXTANT_PASSES_ENCODING_VECTORS_H

#include "dialects/Pos/IR/Pos.h"

namespace sextant::passes {

/// Sizes of the parameters of an owner, by the arguments of its region; -1 for
/// one that is not known.
using ParamSizes = llvm::DenseMap<mlir::Value, llvm::SmallVector<int64_t>>;

/// The vector of an owner that has one element per head, or null where the
/// number of heads is not known.
mlir::RankedTensorType getHeadsType(pos::SitesOwnerInterface owner);

/// Makes the extents of all vectors of a score of all heads static, and asks
/// parameters for their elements. Fails with a diagnostic at the op whose
/// extent is not known or does not fit.
mlir::LogicalResult resolveVectors(pos::ScoreOp score,
                                   pos::SitesOwnerInterface owner,
                                   const ParamSizes &sizes);

} // namespace sextant::passes

#endif // SEXTANT_PASSES_ENCODING_VECTORS_H

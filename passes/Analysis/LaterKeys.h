//===- LaterKeys.h - Whether a mask hides later keys ------------*- C++ -*-===//
//
// An encoding may require that no query sees a later key, as causal attention
// does. This analysis decides it from the comparisons of the mask.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_ANALYSIS_LATERKEYS_H
#define SEXTANT_PASSES_ANALYSIS_LATERKEYS_H

#include "mlir/IR/Value.h"

namespace sextant::passes {

/// Whether a condition of a mask is false for every key whose index is greater
/// than the query's, as far as its comparisons tell: those of integers that are
/// sums of the two indices, with either sign, and constants, joined by and, or
/// and not. Without given positions coordinates are indices. What the other
/// comparisons say is not known, so some answers are no that could be yes.
bool hidesLaterKeys(mlir::Value condition, bool hasPositions);

} // namespace sextant::passes

#endif // SEXTANT_PASSES_ANALYSIS_LATERKEYS_H

//===- ReferenceLowerings.h - The definition, run literally -----*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_REFERENCE_REFERENCELOWERINGS_H
#define SEXTANT_CODEGEN_REFERENCE_REFERENCELOWERINGS_H

#include "codegen/Emit/Lowering.h"

namespace sextant::codegen {

TargetLowerings getReferenceLowerings();

/// The reference computes one number at a time.
VectorTarget getReferenceVectors();

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_REFERENCE_REFERENCELOWERINGS_H

//===- VectorMath.h - Math ops on vectors as arithmetic ---------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_EMIT_VECTORMATH_H
#define SEXTANT_CODEGEN_EMIT_VECTORMATH_H

#include "mlir/IR/Operation.h"

namespace sextant::codegen {

/// Replaces the ops of `math` on vectors of f32 and f64 inside `root` by
/// arithmetic, so that no loop over tiles calls a scalar function. So do those
/// on scalars if `scalarsToo`, where there is no library to call; else they
/// stay as they are (but for clampf, which nothing lowers). Rare functions of
/// f64 (which stand in tables only) stay in any case. Errors are listed in
/// VectorFunctions.h; those of atan, atan2, asin, acos, erf, erfc and cbrt are
/// upstream's.
void expandVectorMath(mlir::Operation *root, bool scalarsToo = false);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_EMIT_VECTORMATH_H

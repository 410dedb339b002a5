//===- GradientPaths.h - Where a gradient would be lost ---------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_PLAN_GRADIENTPATHS_H
#define SEXTANT_CODEGEN_PLAN_GRADIENTPATHS_H

#include "codegen/Plan/KernelPlan.h"

namespace sextant::codegen {

/// Fails where a payload of a gradient takes a float apart into its bits and
/// makes a number of them again: the number follows the float, but integers
/// carry no cotangent, so its gradient would silently be zero. Conversions and
/// comparisons are steps, whose derivative is zero (C10).
mlir::LogicalResult verifyGradientPaths(const KernelPlan &plan);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_PLAN_GRADIENTPATHS_H

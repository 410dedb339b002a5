//===- GradientOfTaken.h - The gradient of what was taken -------*- C++ -*-===//
//
//
// `nn.index_select_backward` stands for a few calls of ATen, made here.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_SCHEDULE_GRADIENTOFTAKEN_H
#define SEXTANT_PASSES_SCHEDULE_GRADIENTOFTAKEN_H

#include "dialects/Nn/IR/Nn.h"

namespace sextant::passes {

/// Creates the calls; their result lies without strides.
mlir::Value createGradientOfTaken(mlir::OpBuilder &builder,
                                  nn::IndexSelectBackwardOp op);

} // namespace sextant::passes

#endif // SEXTANT_PASSES_SCHEDULE_GRADIENTOFTAKEN_H

//===- Nn.td - The nn dialect -------------------------------------------------===//
//
// The nn dialect holds the ops of a model around attention, most of them one
// operator of ATen each. This file only includes those of every topic.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_NN_TD
#define SEXTANT_NN_TD

include "dialects/Nn/IR/NnBase.td"
include "dialects/Nn/IR/NnInterfaces.td"
include "dialects/Nn/IR/NnDense.td"
include "dialects/Nn/IR/NnElementwise.td"
include "dialects/Nn/IR/NnInteger.td"
include "dialects/Nn/IR/NnLoss.td"
include "dialects/Nn/IR/NnNorm.td"
include "dialects/Nn/IR/NnOptimizer.td"
include "dialects/Nn/IR/NnParameter.td"
include "dialects/Nn/IR/NnRandom.td"
include "dialects/Nn/IR/NnShape.td"

#endif // SEXTANT_NN_TD

//===- Nn.td - The nn dialect -------------------------------------------------===//

#ifndef SEXTANT_NN_TD
#define SEXTANT_NN_TD

include "dialects/Nn/IR/NnBase.td"
include "dialects/Nn/IR/NnInterfaces.td"
include "dialects/Nn/IR/NnDense.td"
include "dialects/Nn/IR/NnElementwise.td"
include "dialects/Nn/IR/NnLoss.td"
include "dialects/Nn/IR/NnNorm.td"
include "dialects/Nn/IR/NnOptimizer.td"
include "dialects/Nn/IR/NnParameter.td"
include "dialects/Nn/IR/NnShape.td"

#endif // SEXTANT_NN_TD

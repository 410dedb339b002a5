//===- HoistReads.h - What hoisted values read of parameters ----*- C++ -*-===//
//
// Items of the pullback of hoisted values add to the gradients of what the
// values read, side by side. Where it follows from the indices that items reach
// separate elements they add to one sum, else each has one of its own.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TABLES_HOISTREADS_H
#define SEXTANT_CODEGEN_TABLES_HOISTREADS_H

#include "codegen/Plan/KernelPlan.h"

namespace sextant::codegen {

/// The tensor that an op of a payload reads elements of, null for other ops.
mlir::Value getReadParam(mlir::Operation *op);

/// Whether the heads of a group of hoisted values add to separate elements: of
/// each of the parameters by the head itself, and every earlier hoist has one
/// value per head.
bool isSeparatePerHead(const KernelPlan &plan, llvm::ArrayRef<unsigned> group,
                       llvm::ArrayRef<unsigned> params);

/// Whether the rows or columns of the tables of a group read separate elements
/// of a parameter, but for queries before the first key.
bool isSeparatePerRow(const KernelPlan &plan, llvm::ArrayRef<unsigned> group,
                      unsigned param);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TABLES_HOISTREADS_H

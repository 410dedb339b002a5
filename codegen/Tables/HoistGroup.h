//===- HoistGroup.h - Hoisted values that are computed together -*- C++ -*-===//
//
// Internal to codegen/HoistTable. The sine and the cosine of one angle are two
// hoisted values that share most of their work, and so do their pullbacks. What
// is kept in tables of one shape is filled by one launch, from one payload that
// computes equal things once.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TABLES_HOISTGROUP_H
#define SEXTANT_CODEGEN_TABLES_HOISTGROUP_H

#include "codegen/Plan/RowLaneTables.h"
#include "mlir/IR/OwningOpRef.h"

namespace sextant::codegen {

/// Numbers of the entries of `plan.hoisted` that have a launch of their own,
/// each with those that share it, itself first. What a group uses stands before
/// its first member, what uses a member after that member.
llvm::SmallVector<llvm::SmallVector<unsigned>>
groupHoists(const KernelPlan &plan);

/// An op outside of any block whose body is the bodies of hoists one after the
/// other and yields their values in order. Ops that are the same are there
/// once.
mlir::OwningOpRef<pos::HoistOp>
mergeBodies(llvm::ArrayRef<pos::HoistOp> hoists);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TABLES_HOISTGROUP_H

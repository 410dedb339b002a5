//===- RowValues.h - Values over rows that need no table --------*- C++ -*-===//
//
// A launch that maps rows of all heads, a row at a time, computes what heads
// share of the row itself, hardly more often than a launch that fills a table:
// nothing then waits for the table, and none is read.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TABLES_ROWVALUES_H
#define SEXTANT_CODEGEN_TABLES_ROWVALUES_H

#include "codegen/Tables/HoistLaunch.h"

namespace sextant::codegen {

/// Numbers of the entries of `plan.hoisted` that row maps of an operand use and
/// that such a launch can compute: they are the same in all heads and elements
/// of the batch, and neither are tables needed for them nor do tables need
/// them.
llvm::SmallVector<unsigned> findRowValues(const KernelPlan &plan,
                                          pos::RowOperand operand);

/// Those of them that have no table, as a launch emits them.
class RowValues {
public:
  /// By hoist and first lane of a vector, f32 or integers.
  using Vectors =
      llvm::DenseMap<std::pair<mlir::Operation *, int64_t>, mlir::Value>;

  /// Adds what the values read to the operands of the launch.
  RowValues(const Lowering &lowering, const HoistTables &tables,
            pos::RowOperand operand, LaunchOperands &operands);

  bool empty() const { return groups.empty(); }
  /// All values of a row of the operand.
  Vectors emit(KernelBuilder &kernel, ArgumentBlock &arguments,
               Index row) const;

private:
  /// Values that share work (HoistGroup.h).
  struct Group {
    const Hoisted *entry;
    HoistLayout layout;
    llvm::SmallVector<HoistMember> members;
    mlir::OwningOpRef<pos::HoistOp> merged;
  };

  const Lowering &lowering;
  const HoistTableOptions &options;
  llvm::SmallVector<Group, 1> groups;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TABLES_ROWVALUES_H

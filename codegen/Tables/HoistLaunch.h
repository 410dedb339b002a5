//===- HoistLaunch.h - Launches that fill tables of hoisted values --------===//
//
// Internal to codegen/HoistTable: the two kernels of a hoisted value, and the
// operands that they share with their launches.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TABLES_HOISTLAUNCH_H
#define SEXTANT_CODEGEN_TABLES_HOISTLAUNCH_H

#include "codegen/Tables/AllHeadsWeights.h"
#include "codegen/Tables/ArgumentPoint.h"
#include "codegen/Tables/HoistTable.h"
#include "mlir/IR/OwningOpRef.h"

namespace sextant::codegen {

/// Numbers of the operands of a hoist's kernel.
struct HoistLayout {
  PointLayout point;
  /// Buffers of earlier hoists, and their gradients (pullback only): those of
  /// scalars per head are sums of a range each, [ranges, B', H'].
  llvm::DenseMap<mlir::Operation *, unsigned> buffers, gradients;
  /// How many ranges a pullback is cut into (scalar operand); none: it is not.
  std::optional<unsigned> ranges;
  std::optional<unsigned> range;
  /// [B', H', ranges] x f64, of a running sum.
  std::optional<unsigned> rangeSums;
  std::optional<unsigned> packed; ///< weights, for hoisted vectors
  unsigned table = 0;             ///< the buffer to fill, or its gradient
};

/// One of the hoisted values that a kernel computes.
struct HoistMember {
  pos::HoistOp op;
  unsigned table = 0; ///< its buffer, or the gradient of that
  /// More of the gradient of a scalar per head: sums of ranges.
  llvm::SmallVector<unsigned> ofRanges = {};
};

/// Everything that a kernel of a group of hoisted values is made from
/// (HoistGroup.h).
struct HoistLaunch {
  const Lowering &lowering;
  const Hoisted &entry; ///< the first of the group
  const HoistTableOptions &options;
  const HoistLayout &layout;
  llvm::ArrayRef<HoistMember> members;
  const KernelOperands &operands;
  const AllHeadsWeights *weights = nullptr; ///< for hoisted vectors

  /// The payload of the group, see mergeBodies.
  mlir::OwningOpRef<pos::HoistOp> merge() const;
  void createFill(llvm::StringRef suffix) const;
  /// `itemPerHead`: heads touch separate gradients.
  void createPullback(llvm::StringRef suffix, bool itemPerHead) const;

  void create(llvm::StringRef suffix, const KernelBody &body) const;
  /// The columns of a table whose gradient counts: none of one that is not
  /// used.
  std::pair<Index, Index> getColumnsInUse(KernelBuilder &k,
                                          ArgumentBlock &arguments,
                                          Index columns) const;
  /// Ranges of a pullback, and the columns of one.
  Index countRanges(ArgumentBlock &arguments) const;
  static KernelBuilder::Range getColumns(KernelBuilder &k, Index range,
                                         Index ranges,
                                         KernelBuilder::Range columns);
};

/// Adds what kernels of a group of hoisted values read: numbers of entries of
/// the plan.
HoistLayout addHoistReads(const Lowering &lowering, const HoistTables &tables,
                          llvm::ArrayRef<unsigned> group,
                          LaunchOperands &operands);

/// The running sum that the hoist is, or null.
pos::RunningSumOp getRunningSum(const Hoisted &entry);

/// The same for a hoisted vector (AllHeadsTable.cpp) ...
void createVectorFill(const HoistLaunch &source, llvm::StringRef suffix);
void createVectorPullback(const HoistLaunch &source, llvm::StringRef suffix);
/// ... and for a running sum (RunningSumTable.cpp), after the sums of ranges of
/// its terms, or of the gradients of the vector.
void createRunningRanges(const HoistLaunch &source, llvm::StringRef suffix,
                         pos::RunningSumOp sum,
                         std::optional<unsigned> gradient);
void createRunningFill(const HoistLaunch &source, llvm::StringRef suffix,
                       pos::RunningSumOp sum);
void createRunningPullback(const HoistLaunch &source, llvm::StringRef suffix,
                           pos::RunningSumOp sum, bool itemPerHead);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TABLES_HOISTLAUNCH_H

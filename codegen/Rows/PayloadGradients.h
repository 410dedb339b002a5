//===- PayloadGradients.h - Gradients of what payloads read -----*- C++ -*-===//
//
// The main launch of a backward adds to partial sums of the gradients of
// hoisted values, of functions of hinges and of what tiles read of parameters
// themselves. Launches behind it make the gradients of parameters of these.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_ROWS_PAYLOADGRADIENTS_H
#define SEXTANT_CODEGEN_ROWS_PAYLOADGRADIENTS_H

#include "codegen/Emit/Sizes.h"
#include "codegen/Rows/PartialSum.h"
#include "codegen/Rows/TableRowSums.h"
#include "codegen/Tables/HoistTable.h"

namespace sextant::codegen {

/// Partial sums that a main launch adds to; none where a gradient is not
/// wanted.
struct PayloadSums {
  /// Per hoist: the partial sums of its gradient. Per parameter: those of the
  /// gradient of direct reads, which are in `inPlaceGradients` where nothing
  /// adds to them as long as tables hold the offsets in use; where they do not,
  /// items clear them.
  llvm::SmallVector<PartialSum> tableGradients, readGradients;
  llvm::SmallVector<unsigned> inPlaceGradients;
  /// Per plan.hinges: the partial sums of its moments, [chunks times
  /// `warps`, B, H, moments] x f64, where they are wanted.
  llvm::SmallVector<PartialSum> hingeMoments;
};

/// How a main launch cuts its work, as far as its sums follow from that.
struct SumShape {
  mlir::Value chunks; ///< items of a head, or of all, an index
  /// Rows of queries and keys are rounded up to multiples of these.
  int64_t queries, keys;
  int64_t width;           ///< lanes that tables of hinges are written for
  bool ofAllHeads = false; ///< whether scores are of all heads
  /// Of a chunk, each with sums of its own of the moments of hinges, and under
  /// given positions of values over offsets and of what those are made of.
  int64_t warps = 1;
  /// Whether gradients of columns of keys are parts of those of their rows.
  bool keysHaveColumns = false;
  mlir::Value parts = {}; ///< of the queries, each with all keys; null: one
};

/// Partial sums [parts, B, heads, sizes...] of an owner; a null size is static,
/// `last`.
PartialSum makePartialSum(const Lowering &lowering, mlir::Value parts,
                          mlir::Value heads, llvm::ArrayRef<mlir::Value> sizes,
                          mlir::Type element, bool zero, int64_t last = 0);

/// The gradients of one backward. In order: `makeHoistSums`, the launch of
/// delta, `makeSums`, `addTo`, the main launch, `addReadSums`, the launches
/// that pull rows back, `launchPullbacks`.
class PayloadGradients {
public:
  PayloadGradients(const Lowering &lowering, PayloadSums &sums)
      : lowering(lowering), plan(lowering.plan), sizes{lowering}, sums(sums),
        params(lowering) {}

  void makeHoistSums(const HoistTables &hoists, const SumShape &shape);
  /// The sums of the row term, which take the gradient of the log-sum-exp in
  /// their last part; null without one.
  mlir::Value getTermPartials() const;
  /// The sums of all but hoisted values.
  void makeSums();
  void addTo(LaunchOperands &operands);

  /// Begins the gradients of parameters, which are f64 (each may be one number
  /// from all scores) or f32 (few terms, of rows), by the sums of what tiles
  /// read themselves.
  void addReadSums();
  /// Gradients of hoisted values, from their partial sums, and of the
  /// parameters behind them. `queryGradient` are the partial sums of rows of
  /// the query, made of `headParts`, before their factor; `keyGradient` those
  /// of the key, if they have the gradients of columns, with it.
  void launchPullbacks(mlir::Value queryGradient, const RowParts &headParts,
                       mlir::Value keyGradient = {});

private:
  bool isOfColumns(const Hoisted &hoisted) const;
  mlir::Value countWarpParts() const;
  PartialSum makeHoistSum(const Hoisted &hoisted);
  PartialSum makeRowSum(const Hoisted &hoisted, mlir::Value rows);
  PartialSum makeReadSum(unsigned number, mlir::Value param);
  mlir::Value getRowParamGradient(unsigned number);
  mlir::Value getQueryShift();
  TableRowSums getRowSums(size_t number, mlir::Value rows,
                          mlir::Value gradientOfRows,
                          const RowParts &headParts) const;
  llvm::SmallVector<mlir::Value> sumHingeMoments();

  const Lowering &lowering;
  const KernelPlan &plan;
  const Sizes sizes;
  PayloadSums &sums;
  pos::AttentionBackwardOp op =
      mlir::cast<pos::AttentionBackwardOp>(lowering.plan.owner);
  mlir::Type f32 = lowering.builder.getF32Type(),
             f64 = lowering.builder.getF64Type();
  HoistTables tables;
  SumShape shape{};
  /// Parameters that are read where tables do not hold the offsets in use.
  llvm::SmallVector<unsigned> rareReads;

public:
  ParamSums params;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_PAYLOADGRADIENTS_H

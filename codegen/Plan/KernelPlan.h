//===- KernelPlan.h - What a kernel needs of an attention -------*- C++ -*-===//
//
// Reads a fused and hoisted attention (or its gradient): which places are in
// use, in which form each hoisted value is kept, which gradients are wanted.
// Holds no name of an encoding and nothing of a target.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_PLAN_KERNELPLAN_H
#define SEXTANT_CODEGEN_PLAN_KERNELPLAN_H

#include "codegen/Plan/TileReads.h"
#include "dialects/Pos/IR/Dependence.h"
#include "passes/Analysis/HoistForm.h"

namespace sextant::codegen {

using passes::HoistForm;

/// One hoisted value as one operand needs it: a row map of query and key has
/// two entries for one op, because rows, heads and positions of the two
/// operands differ. Outside row maps the operand is `query`.
struct Hoisted {
  pos::HoistOp op;
  HoistForm form;
  pos::AxisSet axes;
  pos::RowOperand operand = pos::RowOperand::query;
  bool perBatch = false, perHead = false;
  bool wantsGradient = false; ///< some trained parameter stands behind it
  /// Whether the values that use it compute it themselves: one that only hoists
  /// use and that is an integer, such as a bucket, for which a launch of its
  /// own would be waited for.
  bool isEmittedInPlace = false;
  int64_t extent = 0; ///< of a vector (an OffsetTable); 0 for a scalar
  /// The number of the parameter [B', H', L, lanes] of which the value is an
  /// element, which then needs no table: the element of the batch counts modulo
  /// B'. None of other values.
  std::optional<unsigned> param = std::nullopt;
  /// Whether a row map reads that parameter's row at the index of its own row,
  /// or row 0 where that is negative, and not the row of its number: then
  /// queries count from the end of the keys.
  bool isAtIndex = false;
};

/// A row map with its lanes resolved (C6).
struct RowMap {
  pos::RowsOp op;
  pos::Grouping grouping = pos::Grouping::single;
  int64_t begin = 0, end = 0; ///< lanes [begin, end) of the row

  /// Number of groups, the extent of `pos.lane`.
  int64_t getNumGroups() const {
    return grouping == pos::Grouping::single ? end - begin : (end - begin) / 2;
  }
  /// Lanes from one group to the next.
  int64_t getGroupStep() const {
    return grouping == pos::Grouping::interleaved ? 2 : 1;
  }
  /// Lane of the row that is value `part` of group `group`.
  int64_t getLane(int64_t group, int64_t part) const {
    int64_t apart = grouping == pos::Grouping::half ? getNumGroups() : 1;
    return begin + getGroupStep() * group + part * apart;
  }
};

/// A turn of the rows of query, of key or of both, ahead of their row maps.
struct RowTurn {
  pos::TurnRowsOp op;
  llvm::SmallVector<pos::RowOperand, 2> operands; ///< each once
  int64_t size = 0, blocks = 0; ///< lanes of a block, blocks of a row
  /// What the matrices vary with; with given positions also with their batch.
  bool perBatch = false, perHead = false;
};

/// Columns that follow the lanes of query and key rows.
struct RowColumns {
  pos::ColumnsOp op;
  int64_t count = 0;
  pos::HoistOp query, key; ///< their values, RowLaneTables of these operands

  pos::HoistOp get(pos::RowOperand operand) const {
    return operand == pos::RowOperand::query ? query : key;
  }
};

/// What an owner works on, by role. For row maps outside attention query and
/// key both are what has the batch and the length of the rows, the input or
/// the indices into it (so are their positions); there are no values.
struct OwnerOperands {
  mlir::Value query, key;
  mlir::ValueRange values;
  mlir::Value queryPositions, keyPositions; ///< null if not given
  mlir::Value queryTail = {};               ///< null if not given
};
OwnerOperands getOwnerOperands(pos::SitesOwnerInterface owner);

/// A table whose rows are multiplied with rows of the query or of the key.
struct RowTable {
  pos::Side side = pos::Side::query;
  unsigned param = 0;   ///< number of the parameter
  bool columns = false; ///< its columns are the rows
  /// Number of the parameter [heads, head dim] whose row of the head is added
  /// to rows of that side.
  std::optional<unsigned> addend = std::nullopt;
  bool operator==(const RowTable &) const = default;
};
RowTable getRowTable(pos::RowDotOpInterface op);

/// A piecewise-linear function that the score payload uses.
struct PiecewiseLinearFunction {
  pos::HingesOp op;
  bool wantsGradient = false; ///< some trained parameter stands behind it
};

/// A product of the query row or the key row with one row per offset.
struct OffsetProduct {
  explicit OffsetProduct(pos::OffsetDotOp op);

  pos::OffsetDotOp op;
  RowTable table;
  mlir::Value index; ///< of the table's row; null for a sum over columns
  /// Whether the index has a bound: beyond some offset it is the same for all.
  bool isClipped;
  /// Of a sum: the number of columns, a column, its factor.
  mlir::Value count, column, factor;
};

/// All that a kernel needs to know of an attention or a row map.
struct KernelPlan {
  pos::SitesOwnerInterface owner;
  llvm::SmallVector<Hoisted> hoisted; ///< in order: later ones may use earlier
  /// In order of application. `inputRows` are those of the operand that a row
  /// map outside attention names.
  llvm::SmallVector<RowMap> queryRows, keyRows, valueRows, inputRows;
  /// In order of application, ahead of the row maps.
  llvm::SmallVector<RowTurn> turns;
  pos::ScoreOp score; ///< null: identity
  /// Whether the score is that of one head and the payload only adds to it: its
  /// pullback then needs no forward values.
  bool isAdditive = true;
  llvm::SmallVector<RowColumns> columns; ///< one after the other
  /// The number of heads where the score is of all heads at once, else 0.
  int64_t scoreHeads = 0;
  pos::MaskOp mask;       ///< null: everything is visible
  pos::RowTermOp rowTerm; ///< null: nothing cancels in the softmax
  llvm::SmallVector<pos::WeightedRowsOp> weightedRows;
  /// The tables that rows of query and key are multiplied with, once each.
  /// Those of `offsetProducts` have a place of their own.
  llvm::SmallVector<RowTable> rowTables;
  /// Per table: its indices, if each is a function of the offset of two rows
  /// alone; else none.
  llvm::SmallVector<llvm::SmallVector<mlir::Value>> offsetIndices;
  llvm::SmallVector<OffsetProduct> offsetProducts;
  llvm::SmallVector<pos::ScanOp> scans; ///< in one direction
  /// Per scan: how many scans, each of what the one before gives, follow on it.
  llvm::SmallVector<unsigned> scanLevels;
  llvm::SmallVector<PiecewiseLinearFunction> hinges;
  /// Where the score payload uses them, in order.
  llvm::SmallVector<pos::HingeSumOp> hingeSums;
  /// Per parameter operand: whether its gradient is asked for.
  llvm::SmallVector<bool> paramWantsGradient;
  llvm::SmallVector<TileReads> tileReads; ///< per parameter operand
  double scale = 1.0;
  bool hasPositions = false;

  /// The place of an op's table among `rowTables`.
  unsigned findTable(pos::RowDotOpInterface op) const;
  /// Whether rows of a side are multiplied with tables.
  bool readsRows(pos::Side side) const;
  /// Whether key rows are multiplied with tables or rows of offsets, and so
  /// have gradients beside those of the scores.
  bool multipliesKeys() const;
  /// The place of an op's function among `hinges`.
  unsigned findHinges(pos::HingeSumOp op) const;
  /// The place of an op among `offsetProducts`.
  unsigned findOffsetProduct(pos::OffsetDotOp op) const;
  /// The place of a scan among `scans`.
  unsigned findScan(pos::ScanOp op) const;
  /// Whether keys come from the last to the first.
  bool isLeftward() const;
  /// The entry of a hoisted value, null if no site of the operand needs it.
  const Hoisted *find(pos::HoistOp op,
                      pos::RowOperand operand = pos::RowOperand::query) const;
  /// Columns of a row in all.
  int64_t countColumns() const;
  /// Whether appended columns are made of the hoisted value, and how many (of
  /// the widest that are).
  int64_t countColumns(pos::HoistOp op) const;
  /// The entry of the row term, a vector over query rows; null without one.
  const Hoisted *findRowTerm() const;
};

/// The row maps of an operand.
llvm::ArrayRef<RowMap> getRowMaps(const KernelPlan &plan,
                                  pos::RowOperand operand);

/// Builds the plan. A site that no kernel of the CPU and reference targets
/// computes yet is a diagnostic that names the op.
mlir::FailureOr<KernelPlan> planKernel(pos::SitesOwnerInterface owner);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_PLAN_KERNELPLAN_H

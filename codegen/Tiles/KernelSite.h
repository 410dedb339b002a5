//===- KernelSite.h - What payloads see inside CPU kernels ------*- C++ -*-===//
//
// The CPU's side of the seam, as far as it is the same wherever a payload
// stands: extents, parameters, tables of hoisted values, scalars of a head.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TILES_KERNELSITE_H
#define SEXTANT_CODEGEN_TILES_KERNELSITE_H

#include "codegen/Emit/KernelFunction.h"
#include "codegen/Payload/SiteContext.h"
#include "codegen/Plan/KernelPlan.h"
#include "codegen/Tables/HoistTable.h"

namespace sextant::codegen {

class HingeCells;
class OffsetCells;

/// Numbers, among the operands of a launch, of what payloads read.
struct SiteOperands {
  using Number = std::optional<unsigned>;

  unsigned query = 0, key = 0;
  llvm::SmallVector<unsigned> values;
  Number queryPositions, keyPositions, queryTail;
  Number offsetRange, queryCodes, keyCodes; ///< see OffsetRange.h
  Number bounds;                            ///< see PositionBounds.h
  llvm::SmallVector<Number> tables;         ///< as plan.hoisted
  llvm::SmallVector<Number> ranges;         ///< as getRowSources
  llvm::SmallVector<Number> params;         ///< as the owner's parameters
  llvm::SmallVector<unsigned> hinges;       ///< as plan.hinges
  int64_t padding = 0;                      ///< of offset tables
  /// Products of query and key rows, as plan.rowTables, and of rows of the
  /// output's gradient, as plan.weightedRows (see RowProducts.h).
  llvm::SmallVector<unsigned> rowProducts, outputProducts;

  /// Adds the positions, parameters and tables of an owner to `operands` and
  /// their tensors to `reads`.
  void append(const KernelPlan &plan, const HoistTables &hoists,
              KernelOperands &operands,
              llvm::SmallVectorImpl<mlir::Value> &reads);

  /// Index of the first row of the query tensor: queries, with those that
  /// follow and are not given, and keys are aligned at the end.
  Index getQueryShift(KernelBuilder &kernel, ArgumentBlock &arguments) const;
};

/// A point of one operand's rows, or of scores (operand `query`), of one head
/// of one element of the batch. Takes no gradients.
class KernelSite : public SiteContext {
public:
  KernelSite(KernelBuilder &kernel, ArgumentBlock &arguments,
             const KernelPlan &plan, const SiteOperands &operands,
             pos::RowOperand operand)
      : kernel(kernel), arguments(arguments), plan(plan), operands(operands),
        operand(operand) {}

  /// Stands at a head and emits the hoisted scalars of the head.
  void enterHead(Index batch, Index head);
  /// Where hoisted values over offsets come from under given positions.
  enum class Offsets {
    Cells,  ///< scratch memory, see OffsetCells.h
    Tables, ///< the table of the value
    InPlace ///< the value is computed where the site stands
  };
  void setOffsets(Offsets source) { offsets = source; }
  /// Must outlive the site; none where no payload uses values over offsets.
  void setCells(const OffsetCells *filled) { cells = filled; }
  /// Likewise for functions of hinges.
  void setHinges(HingeCells *filled) { hinges = filled; }

  /// Under given positions, for a vector of lanes: emits `body` twice, where
  /// the codes of the lanes (OffsetRange.h) are neighbours, with the first of
  /// them, and where they may not be, with null. Inside, values come out of
  /// tables accordingly.
  void forCodes(llvm::function_ref<void(mlir::Value run)> body);
  /// Codes of the lanes and of the row at the point: their difference is the
  /// entry of a table.
  virtual mlir::Value getLaneCodes() { return {}; }
  virtual mlir::Value getRowCode() { return {}; }

  /// The element of the batch and the head.
  std::pair<Index, Index> getPlace() const { return {batchIndex, headIndex}; }

  mlir::Value head(mlir::OpBuilder &) override;
  mlir::Value batch(mlir::OpBuilder &) override;
  mlir::Value lane(mlir::OpBuilder &) override;
  mlir::Value extent(mlir::OpBuilder &, pos::Extent extent) override;
  mlir::Value bound(mlir::OpBuilder &, pos::Bound bound, pos::Side side,
                    int64_t axis) override;
  mlir::Value scale(mlir::OpBuilder &) override;
  mlir::Value offset(mlir::OpBuilder &, int64_t axis) override;
  mlir::FloatType getComputeType() override;
  int64_t getLanes() override { return kernel.width(); }
  mlir::Value hoisted(mlir::OpBuilder &, pos::HoistOp hoist) override;
  mlir::Value read(mlir::OpBuilder &, mlir::BlockArgument param,
                   mlir::ValueRange indices) override;
  mlir::Value hingeSum(mlir::OpBuilder &, pos::HingeSumOp op) override;
  void addToHoisted(mlir::OpBuilder &, pos::HoistOp, mlir::Value) override {}
  void addToRead(mlir::OpBuilder &, mlir::BlockArgument, mlir::ValueRange,
                 mlir::Value) override {}
  bool wantsGradient(pos::HoistOp) override { return false; }
  bool wantsGradient(mlir::BlockArgument) override { return false; }

protected:
  /// The value of a hoist that is kept in a buffer, at this point; `row` is the
  /// start of the head's part of the buffer.
  virtual mlir::Value loadHoisted(const Hoisted &hoisted, unsigned table,
                                  mlir::Value row) = 0;

  /// Entries of a table over offsets under given positions.
  mlir::Value loadAtOffsets(const Hoisted &hoisted, mlir::Value headStart);
  /// The address of the code of a row.
  mlir::Value getCode(pos::Side side, Index row);

  /// The place of the point in the memory of the cells.
  virtual Index getCellPlace() { return 0; }

  /// A row of a table that may be asked for beyond its end: a row that exists,
  /// and whether it is the one asked for.
  struct TableEntry {
    mlir::Value row, exists;
  };
  TableEntry toEntry(mlir::Value row, Index rows);
  /// The value, or NaN where the row does not exist.
  mlir::Value orNaN(mlir::Value value, const TableEntry &entry);
  /// What a table has for row `index`, or NaN where it has no such row: one
  /// `load` where all lanes ask for the same row (i32), else a `gather`.
  mlir::Value lookUp(mlir::Value index, Index rows,
                     llvm::function_ref<mlir::Value(mlir::Value row)> load,
                     llvm::function_ref<mlir::Value(mlir::Value rows)> gather);
  /// Entry `index` of the products of a row of a head, the same for all lanes,
  /// with a table of `tableRows` rows.
  mlir::Value readProducts(unsigned products, Index head, Index row,
                           Index tableRows, mlir::Value index);
  /// Likewise of the rows from `first` on, one per lane.
  mlir::Value readLaneProducts(unsigned products, Index head, Index first,
                               Index tableRows, mlir::Value index);
  /// The vector of rows of a tensor [.., groups of lanes, entries, lanes] that
  /// starts at row `first`, and in it the places of entries, one per lane.
  Index getLaneGroup(unsigned tensor, unsigned dim, Index first);
  mlir::Value getLanePlaces(mlir::Value entries);
  /// Rows of the table of an op.
  Index countRows(pos::RowDotOpInterface op);
  /// The limit of a scan where it is a constant.
  static std::optional<double> getLimit(pos::ScanOp op);
  /// Whether a condition holds in all lanes, an i1.
  mlir::Value holdsInAll(mlir::Value lanes);
  /// The first lane, and whether all lanes are like it: far from the diagonal
  /// and along slow scans neighbours ask for the same row of a table.
  std::pair<mlir::Value, mlir::Value> findSame(mlir::Value lanes);

  /// A row's index among all keys (queries are aligned at the end).
  Index toIndex(pos::Side side, Index row);
  /// The address of a row's positions for the current element of the batch.
  mlir::Value getPositions(unsigned positions, Index row);
  /// Loads `count` lanes (or a scalar, if none) of a table at an address, as
  /// the payload's type of the hoist.
  mlir::Value loadEntry(const Hoisted &hoisted, mlir::Value address,
                        std::optional<Index> count);
  /// The type of a table's elements in memory, and their payload's value.
  mlir::Type getStoredType(const Hoisted &hoisted);
  mlir::Value fromStored(const Hoisted &hoisted, mlir::Value value);

  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const KernelPlan &plan;
  const SiteOperands &operands;
  pos::RowOperand operand;
  Index batchIndex = 0, headIndex = 0;
  HingeCells *hinges = nullptr;

private:
  Offsets offsets = Offsets::Cells;
  mlir::Value run; ///< see forCodes
  /// Codes of row 0 of queries and keys, for the element of the batch.
  mlir::Value queryCodes, keyCodes;
  const OffsetCells *cells = nullptr;
  mlir::Value batchValue, headValue;
  llvm::DenseMap<mlir::Operation *, mlir::Value> headScalars;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TILES_KERNELSITE_H

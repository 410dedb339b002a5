//===- HeadPlace.h - What points of a head know -----------------*- C++ -*-===//
//
// What payloads of a head read, and what is known of the rows of a head:
// extents, indices, given positions.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TILES_HEADPLACE_H
#define SEXTANT_CODEGEN_TILES_HEADPLACE_H

#include "codegen/Emit/KernelFunction.h"
#include "codegen/Plan/KernelPlan.h"
#include "codegen/Tables/HoistTable.h"

namespace sextant::codegen {

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
  HoistTableOptions offsetTables;           ///< how those over offsets lie
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
  /// The entry of the first query and the first key in tables over offsets that
  /// ascend.
  Index getFirstOffset(KernelBuilder &kernel, ArgumentBlock &arguments) const;
};

/// Where the table of a hoisted value, an operand, has an element of the batch.
Index getTableBatch(KernelBuilder &kernel, ArgumentBlock &arguments,
                    const Hoisted &hoisted, unsigned table, Index batch);

/// A head of an element of the batch.
struct HeadPlace {
  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const KernelPlan &plan;
  const SiteOperands &operands;
  Index batch = 0, head = 0;

  // i32: see PayloadPoint.
  mlir::Value getExtent(pos::Extent extent) const;
  mlir::Value getBound(pos::Bound bound, pos::Side side, int64_t axis) const;
  /// The coordinate of a row that exists.
  mlir::Value getCoord(pos::Side side, Index row, int64_t axis) const;

  /// Which entry of a parameter, in row-major order, has some indices, and
  /// whether there is one (i1). The batch, which payloads see as `ofBatch`, may
  /// be smaller in a parameter than in the query; what was read outside of it
  /// was no element, and has no gradient. `inLane` gives an index of one lane,
  /// as an i32.
  std::pair<Index, mlir::Value>
  findEntry(unsigned param, mlir::ValueRange indices, mlir::Value ofBatch,
            llvm::function_ref<mlir::Value(mlir::Value)> inLane) const;

  /// A row's index among all keys (queries are aligned at the end).
  Index toIndex(pos::Side side, Index row) const;
  /// The last row of a side.
  Index getLast(pos::Side side) const;
  /// The number of the tensor of given positions, if there is one, and the
  /// address of a row's for the current element of the batch.
  SiteOperands::Number findPositions(pos::Side side) const;
  mlir::Value getPositions(unsigned positions, Index row) const;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TILES_HEADPLACE_H

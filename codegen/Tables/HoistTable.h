//===- HoistTable.h - Tables of hoisted values, pullbacks -------*- C++ -*-===//
//
// Written once for every kernel. Before an attention kernel runs, one launch
// per `pos.hoist` fills a buffer with its values; after a backward kernel has
// filled the gradients of these buffers, one launch per hoist, in reverse
// order, turns them into gradients of earlier hoists and of parameters.
//
// Buffers are contiguous f32 (i32 for integers, i8 for conditions):
//
// | form         | shape               | entry                               |
// |--------------|---------------------|-------------------------------------|
// | HeadScalar   | none (emit it where it is used, `emitHoist`)             |
// |   gradient   | [B', H']            | head h of batch element b           |
// | OffsetTable  | [B', H', T]         | see below                           |
// | QueryVector  | [B', H', Lq]        | row of the query tensor             |
// | KeyVector    | [B', H', Lk]        | row of the key tensor               |
// | RowLaneTable | [B', H', L, lanes]  | row, `pos.lane` (group or column)   |
//
// B' is the batch if the set holds `batch` and 1 otherwise, H' likewise the
// heads of `Hoisted::operand`. A RowLaneTable has the rows of that operand. A
// hoisted vector is an OffsetTable whose H' counts its elements.
// A gradient has the shape of its buffer; a gradient of padding is ignored.
//
// OffsetTable: T = Lq' + Lk' + 2 * padding, where lengths with a dash are whole
// multiples of `unit`. Let r be a row of the query tensor, j a row of the key
// tensor (so offset = j - r + Lq - Lk without positions).
//   Ascending  (lanes are keys):    entry padding + (Lq' - 1 - r) + j
//   Descending (lanes are queries): entry padding + (Lk' - 1 - j) + r
// Entries outside the offsets in use hold the value of the nearest offset in
// use, so a kernel may load past the edges by `padding` entries. A kernel
// chooses the padding, and the unit: tiles whose sizes are multiples of it then
// begin at entries that are, whatever the lengths. A kernel whose vectors begin
// at any row has no use for that, and leaves the unit 1.
//
// With positions the buffer has T = 4 * (Lq + Lk) entries, of which those in
// use come first, over the offsets of one or more axes: OffsetRange.h says
// where the offsets of a score are. Where tables do not hold the offsets in
// use, they are not filled and have no pullback.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TABLES_HOISTTABLE_H
#define SEXTANT_CODEGEN_TABLES_HOISTTABLE_H

#include "codegen/Emit/Lowering.h"
#include "codegen/Tables/AllHeadsWeights.h"
#include "codegen/Tables/ParamSums.h"

namespace sextant::codegen {

/// Which way the entries of an offset table run.
enum class OffsetOrder {
  Ascending, ///< towards larger offsets: lanes of a kernel are keys
  Descending ///< towards smaller offsets: lanes of a kernel are queries
};

/// How a table over offsets is laid out for the kernel that reads it.
struct HoistTableOptions {
  OffsetOrder order = OffsetOrder::Ascending;
  int64_t padding = 0;
  int64_t unit = 1; ///< divides the padding, too
};

/// The rows of a side as tables over offsets count them: whole units.
inline Index countWholeRows(ScalarBuilder &kernel,
                            const HoistTableOptions &options, Index rows) {
  return options.unit == 1 ? rows : kernel.roundUp(rows, options.unit);
}

/// See OffsetRange.h; null without positions, or without values over offsets.
struct OffsetBuffers {
  mlir::Value range, queryCodes, keyCodes;
};

/// Buffers of the hoisted values of one attention.
struct HoistTables {
  HoistTableOptions options;
  llvm::SmallVector<mlir::Value> buffers; ///< as plan.hoisted; may be null
  OffsetBuffers offsets;
  mlir::Value bounds; ///< of positions, if a payload asks: PositionBounds.h
  llvm::SmallVector<mlir::Value> rowRanges; ///< see RowRanges.h
  /// For hoisted vectors, else null.
  const AllHeadsWeights *weights = nullptr;
  mlir::Value packed;
  llvm::SmallVector<mlir::Value> hinges; ///< see PiecewiseLinearTable.h
};

/// Creates the buffers, the launches that fill them and their kernels. Hoisted
/// vectors multiply with `weights`, which `packed` holds. Those of `leftOut`
/// get neither, unless they share a launch with others: who uses them computes
/// them (RowValues.h).
HoistTables launchHoists(const Lowering &lowering,
                         const HoistTableOptions &options,
                         const AllHeadsWeights *weights = nullptr,
                         mlir::Value packed = {},
                         llvm::ArrayRef<unsigned> leftOut = {});

/// Sizes (one index per dimension) and type of the gradient of a hoist.
struct HoistGradientShape {
  mlir::RankedTensorType type;
  llvm::SmallVector<mlir::Value> sizes;
};
HoistGradientShape getHoistGradientShape(const Lowering &lowering,
                                         const Hoisted &hoisted,
                                         const HoistTableOptions &options);

/// Creates the launches that add to the gradients of parameters what follows
/// from `gradients` (one tensor per plan.hoisted, null where not wanted; the
/// gradients of earlier hoists are added to in place). Deterministic: an item
/// is a range of columns, or of rows with lanes, and a head where every
/// parameter is read at the head; sums run in order.
void launchHoistPullbacks(const Lowering &lowering, const HoistTables &tables,
                          llvm::ArrayRef<mlir::Value> gradients,
                          ParamSums &params);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TABLES_HOISTTABLE_H

//===- OffsetProducts.h - Rows times one row per offset ---------*- C++ -*-===//
//
// A sum over the columns of a table, each product with the query row times a
// factor that varies with the offset alone (`pos.offset_dot`), is the
// product of the query row with the row
//
//   R[h, t] = sum_c table[h, :, c] factor(t, c)
//
// of the offset t; a product with a row of a table whose index tells the offset
// is one with R[h, t] = table[index(t)], zeros where there is no such row.
// Launches make these rows once per call, in O(offsets); a tile of scores needs
// as many neighbouring ones as it has rows and columns, so its products are one
// product of matrices that is read along diagonals.
//
// The rows that are multiplied are those of the query or those of the key. The
// two are mirror images: buffers have an entry per offset, that of query row i
// and key row j is j - i + `getOrigin` in products of the query, i - j +
// `getOrigin` in those of the key. Entries are more than there are offsets, so
// that tiles may reach past the edges. No entry is NaN where the table and the
// factor are not.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_ROWS_OFFSETPRODUCTS_H
#define SEXTANT_CODEGEN_ROWS_OFFSETPRODUCTS_H

#include "codegen/Emit/Lowering.h"
#include "codegen/Tiles/TilePoint.h"

namespace sextant::codegen {

class ParamSums;

/// Sizes that are fixed when a kernel is compiled.
struct OffsetShape {
  OffsetShape(const VectorTarget &target, int64_t dim)
      : dim(dim), width(target.width), lanes(2 * target.width),
        row(llvm::divideCeil(dim, lanes) * lanes),
        tileRows(target.near.bytes           ? 16
                 : target.hasManyRegisters() ? 8
                                             : 4) {}

  /// Entries of a block: what is seen of the offsets is known by blocks.
  static constexpr int64_t block = 64;

  int64_t dim;      ///< of a row of the query or the key
  int64_t width;    ///< of a vector
  int64_t lanes;    ///< of a register tile, two vectors
  int64_t row;      ///< a row of R, padded with zeros to register tiles
  int64_t tileRows; ///< of a register tile, in every kernel

  /// The entry of query row 0 and key row 0, where `rows` is the length of the
  /// side that is multiplied. Less tileRows - 1 it is a multiple of `block`, so
  /// that windows of a group of rows begin at tileRows.
  Index getOrigin(KernelBuilder &kernel, Index rows) const {
    return kernel.add(kernel.roundUp(rows, block), block + tileRows - 1);
  }
  /// Entries of a buffer of a side's products, a multiple of `block` (type
  /// index).
  mlir::Value countEntries(const Lowering &lowering, pos::Side side) const;
};

/// Where the index of a product is clipped: the entries below `low` have the
/// row of entry 0, those from `high` on that of the last entry.
struct OffsetEnds {
  Index low, high;

  /// `ends` is a number of the kernel.
  static OffsetEnds load(KernelBuilder &kernel, ArgumentBlock &arguments,
                         unsigned ends);
  /// Out of those that ranges of entries have found, [ranges, 2] x i32.
  static OffsetEnds find(KernelBuilder &kernel, ArgumentBlock &arguments,
                         unsigned ofRanges);
  void store(KernelBuilder &kernel, ArgumentBlock &arguments, unsigned ends,
             llvm::ArrayRef<Index> range = {}) const;
  /// Whether entries first .. last all have the row of an end, i1.
  mlir::Value areLow(KernelBuilder &kernel, Index last) const {
    return kernel.less(last, low);
  }
  mlir::Value areHigh(KernelBuilder &kernel, Index first) const {
    return kernel.compare(mlir::arith::CmpIPredicate::sge, first, high);
  }
};

/// What the rows of a call are made of, and the rows.
struct OffsetRows {
  mlir::Value seen; ///< [blocks] x i32: whether some score has the offsets
  /// Of a sum: [columns / lanes, entries, lanes]; of seen blocks.
  mlir::Value factors;
  mlir::Value rows; ///< [H, entries, row], zero where nothing is seen
  /// [H, entries / width, row, width], or null: lanes are entries.
  mlir::Value transposed;
  mlir::Value ends; ///< of a clipped index [2] x i32: see OffsetEnds
};

/// Heads of the side that is multiplied (type index).
mlir::Value countHeads(const Lowering &lowering, const OffsetProduct &product);

/// Per block of entries of a side's products, an i32: whether some score may
/// have such an offset. With the ends of a clipped index, these stand in the
/// first and the last block, which count as seen; blocks past them do not. They
/// come as ranges have found them and are written to `ends`.
mlir::Value launchSeenOffsets(const Lowering &lowering,
                              const HoistTables &tables, llvm::StringRef suffix,
                              mlir::Value blocks, pos::Side side,
                              mlir::Value endsOfRanges = {},
                              mlir::Value ends = {});

/// offsets_seen, offset_factors and offset_weights (of a sum), offset_rows and,
/// on demand, offset_transpose.
OffsetRows launchOffsetRows(const Lowering &lowering, const HoistTables &tables,
                            size_t number, bool transposes);

/// The rows of a product that takes them from its table: [H, entries, row].
mlir::Value launchTakenRows(const Lowering &lowering, size_t number,
                            const OffsetShape &shape, mlir::Value entries,
                            mlir::Value seen);
/// Where the index is clipped, as ranges of entries find it: [ranges, 2] x i32.
mlir::Value launchOffsetEnds(const Lowering &lowering, size_t number,
                             const OffsetShape &shape, mlir::Value entries);
/// Adds the gradients of these rows, sums over chunks and batch, to that of the
/// table: ranges of entries, in the order of heads and entries.
void launchTakenPullback(const Lowering &lowering, size_t number,
                         const OffsetShape &shape, mlir::Value seen,
                         mlir::Value rows, ParamSums &params);

/// offset_sum and offset_table: adds to the gradient of the table what follows
/// from `partials`, gradients of R [chunks, B, H, entries, row], of seen
/// blocks: sums in the order of chunks and batch, ranges of blocks of entries
/// in order.
void launchOffsetPullback(const Lowering &lowering, size_t number,
                          const OffsetRows &rows, mlir::Value partials,
                          ParamSums &params);

/// Adds the sum of `rows` [chunks, B, H, rows, padded lanes] x f32 over all but
/// head and lane to the gradient of a parameter [H, lanes].
void launchRowSum(const Lowering &lowering, llvm::StringRef suffix,
                  mlir::Value rows, ParamSums &params, unsigned param);

/// Clears the seen blocks of rows [entries, row]; `seen` is a number of the
/// kernel.
void clearSeenRows(KernelBuilder &kernel, ArgumentBlock &arguments,
                   unsigned seen, int64_t row, mlir::Value rows);

/// Copies row `head` of a parameter [heads, dim] to `to` and fills it with
/// zeros up to `row` lanes.
void copyAddend(KernelBuilder &kernel, ArgumentBlock &arguments,
                unsigned addend, Index head, int64_t dim, int64_t row,
                mlir::Value to);
/// Adds the row at `addend` to `count` rows, which have `dim` lanes and begin
/// `row` lanes apart.
void addToRows(KernelBuilder &kernel, mlir::Value addend, Index count,
               int64_t dim, int64_t row, mlir::Value rows);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_OFFSETPRODUCTS_H

//===- RowProducts.h - Rows of an operand times the rows of a table -------===//
//
// `pos.query_dot` and `pos.key_dot` with a table of few rows: the products of
// all rows of the query or key with all rows of the table are made once per
// call, O(L rows), and the kernels look them up. The gradient of the products
// goes the other way: kernels add to the entries that they looked up, and
// launches make gradients of the rows and of the table of the sums.
// `pos.weighted_rows` needs the same in its backward, with the rows of the
// output's gradient.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_ROWS_ROWPRODUCTS_H
#define SEXTANT_CODEGEN_ROWS_ROWPRODUCTS_H

#include "codegen/Emit/Lowering.h"
#include "codegen/Tiles/TilePoint.h"

namespace sextant::codegen {

/// Rows of the operand are padded to a multiple of this, rows of a table to
/// whole vectors and beyond a power of two. Where products are made, those with
/// the padding of tables are 0.
inline constexpr int64_t productRowUnit = 64;

/// The order in which products lie: kernels load those of neighbouring lanes
/// with one instruction.
enum class ProductLayout {
  /// [B, H, padded rows, padded table rows]: lanes of a kernel are rows of the
  /// other operand.
  Rows,
  /// [B, H, padded rows / width, padded table rows, width]: lanes are these.
  Lanes
};

/// What is multiplied: rows [B, H, L, dim] with a table's rows [rows, dim], or
/// its columns [dim, rows] or [heads * dim, rows] (a part for each head). To
/// each row that of its head of `addend` [heads, dim] is added, if there is
/// one.
struct RowProducts {
  RowProducts(mlir::Value rows, mlir::Value table) : rows(rows), table(table) {}
  /// The products of a plan's table.
  RowProducts(const RowTable &table, mlir::Value query, mlir::Value key,
              mlir::ValueRange params)
      : rows(table.side == pos::Side::query ? query : key),
        table(params[table.param]), columns(table.columns),
        addend(table.addend ? params[*table.addend] : mlir::Value()) {}

  mlir::Value rows, table;
  bool columns = false;
  mlir::Value addend = {};
  /// Of launchUsedEntries: products with other rows of the table are not made.
  mlir::Value used = {};

  /// The number of a table's rows, and padded (type index).
  mlir::Value countTableRows(const Lowering &lowering) const;
  mlir::Value padTableRows(const Lowering &lowering) const;
  mlir::Value padRows(const Lowering &lowering) const;
  /// The dim, padded to vectors.
  int64_t getRowWidth(const Lowering &lowering) const;
};

/// The rows of table `number` of the plan that some score may look up, by
/// ranges of offsets: [ranges, 2] x i32, the first and the one after the last.
/// Null: any.
mlir::Value launchUsedEntries(const Lowering &lowering,
                              const HoistTables &tables, size_t number,
                              const RowProducts &products);

/// products: the buffer of f32 products.
mlir::Value launchRowProducts(const Lowering &lowering, llvm::StringRef suffix,
                              const RowProducts &products,
                              ProductLayout layout);

/// products_pull: from `partials`, gradients of the products [chunks, B, H,
/// padded rows, padded table rows], or as lanes likewise, adds to `rowGradient`
/// [1, B, H, padded rows, padded dim] x f32 and to `tableGradient` (the table's
/// shape) x f64; either may be null.
void launchRowProductsPullback(const Lowering &lowering, llvm::StringRef suffix,
                               const RowProducts &products,
                               ProductLayout layout, mlir::Value partials,
                               mlir::Value rowGradient,
                               mlir::Value tableGradient);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_ROWPRODUCTS_H

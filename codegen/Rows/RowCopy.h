//===- RowCopy.h - Rows of an operand, copied and mapped --------*- C++ -*-===//
//
// Rows of any stride and type become contiguous rows of f32, or of pairs of
// bf16; the row maps of the operand are applied on the way.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_ROWS_ROWCOPY_H
#define SEXTANT_CODEGEN_ROWS_ROWCOPY_H

#include "codegen/Tiles/RegisterTile.h"
#include "codegen/Tiles/TilePoint.h"

namespace sextant::codegen {

/// A point of a row map: the lanes of a vector are groups of lanes of the row.
class RowPoint : public TilePoint {
public:
  using TilePoint::TilePoint;

  /// The row, and the first group of the vector.
  void setPoint(Index row, int64_t group) {
    this->row = row;
    this->group = group;
  }

  mlir::Value index(mlir::OpBuilder &, pos::Side side) override;
  mlir::Value tensorRow(mlir::OpBuilder &, pos::Side side) override;
  mlir::Value coord(mlir::OpBuilder &, pos::Side side, int64_t axis) override;
  mlir::Value lane(mlir::OpBuilder &) override;

protected:
  mlir::Value loadHoisted(const Hoisted &hoisted, unsigned table,
                          mlir::Value row) override;

  /// The row of the table of a value over rows: that of the operand, or that of
  /// its index.
  Index getTableRow(const Hoisted &hoisted) const;

  Index row = 0;
  int64_t group = 0;

private:
  mlir::Value loadInPlace(mlir::Value start, Index step, int64_t count);
  pos::Side getSide() const {
    return operand == pos::RowOperand::query ? pos::Side::query
                                             : pos::Side::key;
  }
};

/// Rows of one head of a tensor [B, H, L, dim].
struct RowCopy {
  unsigned tensor = 0;
  /// Of an operand [B, L]: row r is row indices[batch, r] of the tensor, a
  /// table [1, 1, V, dim].
  std::optional<unsigned> indices;
  Index batch = 0, head = 0;
  /// Rows first .. first + count - 1; rows past the end repeat the last one.
  Index first = 0, count = 0;
  int64_t dim = 0;
  llvm::ArrayRef<RowMap> maps;
  RowPoint *point = nullptr; ///< where the maps stand; null without maps
  /// Where row 0 goes, and how far apart rows are there, in 32-bit words. A
  /// row is filled with zeros up to the next multiple of a vector.
  mlir::Value to;
  int64_t rowWords = 0;
  /// Rows are bf16 in pairs, not f32.
  bool pairs = false;
  /// Memory for a row of f32 while pairs are mapped, or made of f32.
  mlir::Value mappedRow;
  /// NaN becomes zero; of f32 only.
  bool clearsNaN = false;
  /// Of every lane, after the maps; of f32 only.
  double factor = 1.0;
  /// Rows of which `count` is a multiple: where lanes are threads, as many are
  /// loaded before one is stored, so that they are on their way together.
  int64_t atOnce = 1;
};

/// 32-bit words of a copied row, padding included.
int64_t getCopiedRowWords(const VectorTarget &target, int64_t dim, bool pairs);

void emitRowCopy(KernelBuilder &kernel, ArgumentBlock &arguments,
                 const RowCopy &copy, mlir::Type element);

/// Rows of a tensor that are read later, brought to the second cache. What
/// runs before they are read is cut into equal parts, of which each asks for
/// its share: a processor waits for few lines at a time, and lines that are
/// asked for all at once keep those of the products that run from coming.
struct RowPrefetch {
  unsigned tensor = 0;
  llvm::SmallVector<Index, 3> outer; ///< indices before that of the row
  Index first = 0, count = 0;        ///< rows; they need not exist
  int64_t dim = 0;
  Index part = 0, parts = 1;
};

void prefetchRows(KernelBuilder &kernel, ArgumentBlock &arguments,
                  const RowPrefetch &rows);

/// Whether `rows` rows of `bytes` each are more than half of a second cache
/// holds: who passes over them again fetches them again. Rows that are not stay
/// there, and asking for them ahead is work that nobody waits for.
mlir::Value areBeyondSecondCache(KernelBuilder &kernel, Index rows,
                                 int64_t bytes);

/// Applies row maps in place to a row of f32 at `memory`.
void emitRowMaps(KernelBuilder &kernel, llvm::ArrayRef<RowMap> maps,
                 RowPoint &point, Index row, mlir::Value memory);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_ROWCOPY_H

//===- BackwardPacking.h - Operands as products read them -------*- C++ -*-===//
//
// Copies make rows contiguous, padded with zeros and in one type, so no product
// has an edge: rows of the strangest strides cost the same, as do row maps.
//
//   of a tile of keys:      K^T, V^T [panels][row][panel], and their gradients
//                           K [slabs][keys][slab], for dQ
//   of a block of queries:  Q, dO [queries][row]
//
// With dot products of bf16, an element of a product is a 32-bit unit of two
// neighbours of its contraction: of lanes in S and dP, of queries in dV and dK
// (rows interleaved in pairs), of keys in dQ. A matrix unit reads these pairs
// of rows turned, [row][pairs of queries]; operands of f32 are split into terms
// for it, each of which is laid out so.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDPACKING_H
#define SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDPACKING_H

#include "codegen/CPU/Backward/BackwardItem.h"
#include "codegen/Rows/RowGradients.h"
#include "codegen/Tiles/ScoreForm.h"

namespace sextant::codegen {

/// K and V of a tile of keys, packed, and their gradients.
class KeyTile {
public:
  /// An operand (units) and its gradient (f32), packed as [panels][row][panel],
  /// the operand with rows `stride` apart.
  struct Operand {
    int64_t dim, row; ///< elements of a row, and with its padding
    int64_t stride;
    mlir::Value transposed, gradient;
  };

  /// Has memory for `heads` heads of the keys and the tiles of the shape that
  /// are kept at once, and makes the item's memory of a mapped row.
  KeyTile(BackwardItem &at, const ScoreForm &form, int64_t heads = 1);

  /// Stands at the head of the item.
  void enterHead();
  /// Copies and packs K and V of the head; clears their gradients.
  void load();
  /// gradient[lane][panel] += the sum over the steps of `tile`, which has all
  /// but its rows, of columns[step][lane] times the vectors of the step; for
  /// the first lanes of a row.
  void addToGradient(mlir::Value gradient, RegisterTile tile,
                     mlir::Value columns, int64_t lanes);
  /// Stores the gradients of K and V of the head as rows, of the operands or,
  /// where queries are cut, of the part's sums.
  void store();

  const Operand &getKeys() const { return keys; }
  const Operand &getValues() const { return values; }
  /// What belongs to the head, in the place of the tile, in the memory of
  /// something that has `row` words per key.
  mlir::Value ofHead(mlir::Value memory, int64_t row);
  /// Makes rows of K^T of the head, if the shape says so: the same bits as its
  /// factor is a power of two.
  void unpackKeys();
  /// K of the head, in slabs; those of rows that were unpacked.
  mlir::Value getSlabs() {
    return shape.unpacksKeys ? slabs
                             : ofHead(slabs, shape.headRow / shape.perStep());
  }
  /// The slabs of a row: their first lanes, their vectors and where they are in
  /// `slabs`. A slab is as wide as the register tile of dQ, so that what one
  /// loop over the keys reads lies together: in rows it would take a few sets
  /// of the first cache alone.
  /// Where near memory is short there are none, and K^T is read instead.
  void forEachSlab(
      mlir::Value slabs,
      llvm::function_ref<void(Index lane, int64_t vectors, mlir::Value slab)>
          body);
  /// The product with the keys [first, first + count) of a slab.
  RegisterTile getSlabTile(mlir::Value slab, int64_t vectors, Index first,
                           Index count) const;

private:
  void packSlabs(mlir::Value rows, Index count);
  void packTerms(const Operand &operand);
  void packTermSlabs(Index pairs);
  void clearGradients(Index total);
  void storeGradient(const RowPart &part, int64_t row,
                     llvm::ArrayRef<RowMap> maps, RowPoint &rowPoint,
                     unsigned source, unsigned tensor);
  void storePart(const RowPart &part, int64_t row, unsigned tensor);
  void addColumnGradients();

  BackwardItem &at;
  KernelBuilder &kernel = at.kernel;
  ArgumentBlock &arguments = at.arguments;
  const BackwardLaunch &launch = at.launch;
  const BackwardShape &shape = launch.shape;
  const ScoreForm &form;
  int64_t heads;
  GradientRowPoint keyPoint, valuePoint;
  mlir::Value rows;  ///< f32 rows of K, V, dK or dV
  mlir::Value slabs; ///< of rows or of pairs of rows, or the rows
  Operand keys, values;
};

/// Q and dO of a block of queries.
class QueryBlock {
public:
  /// Rows of a block: `rows` to contract along a row, `columns` (the same, or
  /// pairs) to contract along the queries.
  struct Operand {
    mlir::Value rows, columns;
  };

  /// Has memory for `heads` heads of the queries.
  QueryBlock(BackwardItem &at, const ScoreForm &form, int64_t heads = 1);

  /// Stands at the query head of the item.
  void enterHead();
  /// Copies the queries of the block with their columns.
  void copyQueries();
  void copyOutputGradients();
  /// Copies both, also as pairs of rows where products read those.
  void load();
  /// Asks for a cell's share of the rows that the block adds to when its cells
  /// are done, and of those that the next block copies: after the last one, the
  /// next tile's first.
  void prefetchShare(Index group, Index panel);

  const Operand &getQueries() const { return queries; }
  const Operand &getOutputGradients() const { return outputGradients; }

private:
  int64_t countWords(int64_t row) const;
  void splitCopy(const Operand &operand, int64_t dim, int64_t row);
  void makeColumns(const Operand &operand, int64_t row);
  void emitPrefetch(Index group, Index panel);

  BackwardItem &at;
  const BackwardLaunch &launch = at.launch;
  const BackwardShape &shape = launch.shape;
  const ScoreForm &form;
  int64_t heads;
  RowPoint point;
  mlir::Value copied; ///< rows of f32, before they are split into terms
  Operand queriesOfAll, outputGradientsOfAll; ///< of the first head
  Operand queries, outputGradients;           ///< of the head of the item
};

/// The keys of the tile: rows[panel * panels + lane][k] becomes
/// panels[panel][k][lane], times `scale`, or, where `toRows`, the other way
/// round. A row has `words`, and one of a panel is `stride` from the next (0:
/// the panel).
void transposePanels(BackwardItem &at, mlir::Value from, mlir::Value to,
                     int64_t words, double scale, bool toRows,
                     int64_t stride = 0);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDPACKING_H

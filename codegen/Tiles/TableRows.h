//===- TableRows.h - Rows of tables that payloads name ----------*- C++ -*-===//
//
// A payload may name a row of a table that does not exist: memory is not left,
// and the result is NaN. Neighbouring lanes mostly name the same row, far from
// the diagonal and along slow scans: then one load serves all.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TILES_TABLEROWS_H
#define SEXTANT_CODEGEN_TILES_TABLEROWS_H

#include "codegen/Tiles/HeadPlace.h"

namespace sextant::codegen {

/// A row that exists, and whether it is the one asked for.
struct TableEntry {
  mlir::Value row, exists;
};
TableEntry toEntry(KernelBuilder &kernel, mlir::Value row, Index rows);
/// The value, or NaN where the row does not exist.
mlir::Value orNaN(KernelBuilder &kernel, mlir::Value value,
                  const TableEntry &entry);

/// Whether a condition holds in all lanes, an i1.
mlir::Value holdsInAll(KernelBuilder &kernel, mlir::Value lanes);
/// The first lane, and whether all lanes are like it.
std::pair<mlir::Value, mlir::Value> findSame(KernelBuilder &kernel,
                                             mlir::Value lanes);

/// Lanes that count up or down by one from lane to lane, as clipped distances
/// do: what memory has for them is a vector, or one in reverse.
struct LaneRun {
  /// Of two lanes at least.
  LaneRun(KernelBuilder &kernel, mlir::Value lanes);

  mlir::Value holds; ///< whether they do, an i1
  /// The elements at base[lanes], and the addition to them.
  mlir::Value load(mlir::Value base) const;
  void add(mlir::Value base, mlir::Value addend) const;

private:
  mlir::Value getStart(mlir::Value base) const;
  mlir::Value turn(mlir::Value vector) const;

  KernelBuilder &kernel;
  mlir::Value first, isDown;
};

/// Rows of the table of an op.
Index countTableRows(const HeadPlace &place, pos::RowDotOpInterface op);
/// Entry `index` of the products of a row of a head, the same for all lanes,
/// with a table of `tableRows` rows. `runs`: lanes may be a LaneRun.
mlir::Value readProducts(const HeadPlace &place, unsigned products, Index head,
                         Index row, Index tableRows, mlir::Value index,
                         bool runs);
/// The products of the rows from `first` on, one per lane.
mlir::Value readLaneProducts(const HeadPlace &place, unsigned products,
                             Index head, Index first, Index tableRows,
                             mlir::Value index);
/// The vector of rows of a tensor [.., groups of lanes, entries, lanes] that
/// starts at row `first`, and in it the places of entries, one per lane.
Index getLaneGroup(const HeadPlace &place, unsigned tensor, unsigned dim,
                   Index first);
mlir::Value getLanePlaces(KernelBuilder &kernel, mlir::Value entries);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TILES_TABLEROWS_H

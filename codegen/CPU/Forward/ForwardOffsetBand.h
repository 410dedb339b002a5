//===- ForwardOffsetBand.h - Products with rows of offsets ------*- C++ -*-===//
//
// For a panel of queries the products with the rows of neighbouring offsets are
// [entries][panel]: a group of keys needs as many entries as it has keys and
// the panel has queries, all but its keys of which the group before it needed
// as well. So each is computed once per block of keys, where a group is seen.
//
// Query q of the panel and key r of the group meet at an entry that is less by
// one for the next query: the products are read along diagonals. Lane by lane
// that is a shift of rows, done in as many selections as a lane has bits.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_FORWARD_FORWARDOFFSETBAND_H
#define SEXTANT_CODEGEN_CPU_FORWARD_FORWARDOFFSETBAND_H

#include "codegen/CPU/Forward/ForwardItem.h"

namespace sextant::codegen {

/// The products of a panel's queries with the rows of offsets
/// (`pos.offset_dot`) that a block of keys needs.
class ForwardOffsetBand {
public:
  /// Payloads find the products of a group of keys here.
  explicit ForwardOffsetBand(ForwardItem &item);

  /// Packs the query rows of the item for all products.
  void packQueries();
  /// The panel meets the block.
  void enterPanel();
  /// The values of the products at the keys of a group.
  void emit(Index group);

private:
  mlir::Value getQueries(size_t number, Index panel);
  void emitEntries(size_t number, Index low, Index high);
  void emitDiagonals(size_t number, Index group);

  ForwardItem &item;
  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const ForwardLaunch &launch;
  const OffsetShape &shape;
  Index firstEntry = 0; ///< of the products of the panel
  // Places in scratch memory, of products one after the other.
  int64_t size;     ///< of `products`, in words
  int64_t queries;  ///< [panels][lanes of a row][panel]
  int64_t products; ///< [entries][panel]
  int64_t cells;    ///< [rows][panel]
  int64_t rows;     ///< a vector of query rows
  int64_t addend;   ///< a row
  int64_t end;      ///< i64: the entry after those that are there
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_FORWARD_FORWARDOFFSETBAND_H

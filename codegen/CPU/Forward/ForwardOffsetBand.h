//===- ForwardOffsetBand.h - Products with a band of offsets ----*- C++ -*-===//
//
// Lanes are queries, rows of a register tile are keys.
//
// Of products of the query, a group of keys needs the products of a panel of
// queries with as many entries as it has keys and the panel has queries, all
// but its keys of which the group before it needed as well. So each is computed
// once per block of keys, where a group is seen, and read along diagonals.
//
// Of products of the key, the entries of a key's products follow each other
// from query to query: a group has one window of entries, in which each key is
// read one lane before the key before it.
//
// Where a clipped index is the same for a whole group, so is the product of
// each row: it is made once, with the rows.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_FORWARD_FORWARDOFFSETBAND_H
#define SEXTANT_CODEGEN_CPU_FORWARD_FORWARDOFFSETBAND_H

#include "codegen/CPU/Forward/ForwardItem.h"
#include "codegen/Rows/OffsetDiagonals.h"

namespace sextant::codegen {

/// The products with the rows of offsets (`pos.offset_dot`) that a panel of
/// queries and a block of keys need.
class ForwardOffsetBand {
public:
  /// Payloads find the products of a group of keys here.
  explicit ForwardOffsetBand(ForwardItem &item);

  /// Packs the query rows of the item for all products.
  void packQueries();
  /// Copies the key rows of the block for all products.
  void packKeys();
  /// The panel meets the block.
  void enterPanel();
  /// The values of the products at the keys of a group.
  void emit(Index group);

private:
  /// Of one of the products. Places are in scratch memory.
  struct BandProduct {
    size_t number; ///< among those of the plan
    int64_t rows;  ///< of the query [panels][lanes of a row][panel], or [keys]
    int64_t entries; ///< of the query [entries][panel], or a window per key
    int64_t cells;   ///< of the query [keys of a group][panel]
    int64_t end;     ///< of the query i64: the entry after those that are there
    /// With the rows of both ends: of the query [panels][ends][panel], or
    /// [ends][keys][width].
    int64_t atEnds;
    std::optional<unsigned> addend; ///< number of the parameter
  };

  OffsetPanel getPanel(const BandProduct &product, Index panel);
  std::optional<OffsetEnds> getEnds(const BandProduct &product);
  Index getLastEntry(const BandProduct &product, unsigned dim);
  void packQueries(const BandProduct &product);
  void packKeys(const BandProduct &product);
  void emitQueryEnds(const BandProduct &product);
  void emitKeyEnds(const BandProduct &product);
  BandCell emitBand(const BandProduct &product, Index group);
  BandCell emitWindow(const BandProduct &product, Index group);
  void emitWindowEntries(const BandProduct &product, Index group,
                         Index firstVector);
  Index getWindow(Index group, Index firstRow);

  ForwardItem &item;
  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const ForwardLaunch &launch;
  const OffsetShape &shape;
  llvm::SmallVector<BandProduct> ofQueries, ofKeys;
  Index firstEntry = 0; ///< of the products of the panel's queries
  int64_t rows;         ///< a vector of query rows
  int64_t addend;       ///< a row
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_FORWARD_FORWARDOFFSETBAND_H

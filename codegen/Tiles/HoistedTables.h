//===- HoistedTables.h - Entries of tables of hoisted values ----*- C++ -*-===//
//
// Loads what a table of hoisted values (codegen/Tables/HoistTable.h) holds, for
// one lane or a vector of lanes. Under given positions the entry of an offset
// is the difference of the codes of its rows (OffsetRange.h).
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TILES_HOISTEDTABLES_H
#define SEXTANT_CODEGEN_TILES_HOISTEDTABLES_H

#include "codegen/Tiles/HeadPlace.h"

namespace sextant::codegen {

/// Loads hoisted values from their tables at the place of a head.
class HoistedTables {
public:
  explicit HoistedTables(const HeadPlace &place)
      : place(place), kernel(place.kernel) {}

  /// To be called where the element of the batch is another one.
  void enterBatch();
  /// The address of the code of a row.
  mlir::Value getCode(pos::Side side, Index row) const;
  /// For a vector of lanes: emits `body` twice, where the codes of the lanes
  /// are neighbours, with the first of them, and where they may not be, with
  /// null. Inside, values come out of tables accordingly.
  void forCodes(mlir::Value laneCodes,
                llvm::function_ref<void(mlir::Value run)> body);

  /// The type of a table's elements in memory.
  mlir::Type getStoredType(const Hoisted &hoisted) const;
  /// Loads `count` lanes (or a scalar, if none) of a table at an address, as
  /// the payload's type of the hoist.
  mlir::Value load(const Hoisted &hoisted, mlir::Value address,
                   std::optional<Index> count) const;
  using Codes = llvm::function_ref<mlir::Value()>;
  /// Entries of a table over offsets under given positions. `headStart` is the
  /// start of the head's part.
  mlir::Value loadAtOffsets(const Hoisted &hoisted, mlir::Value headStart,
                            Codes getLaneCodes, Codes getRowCode) const;

private:
  mlir::Value fromStored(const Hoisted &hoisted, mlir::Value value) const;

  const HeadPlace &place;
  KernelBuilder &kernel;
  mlir::Value run; ///< see forCodes
  /// Codes of row 0 of queries and keys, for the element of the batch.
  mlir::Value queryCodes, keyCodes;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TILES_HOISTEDTABLES_H

//===- Dependence.h - What values of payloads vary with ---------*- C++ -*-===//

#ifndef SEXTANT_PASSES_ANALYSIS_DEPENDENCE_H
#define SEXTANT_PASSES_ANALYSIS_DEPENDENCE_H

#include "dialects/Pos/IR/Pos.h"
#include "llvm/ADT/DenseMap.h"

namespace sextant::passes {

/// The set of axes that each value of an attention's payloads varies with. A
/// parameter varies with nothing, an element of it with what its indices vary
/// with. The bound index of a sum counts as nothing: inside a sum, sets say
/// nothing about what can leave it. A vector over the heads does not vary with
/// the head, what is in a `pos.for_heads` does. Ops that are neither
/// elementwise nor known here vary with the score and the row.
class Dependence {
public:
  explicit Dependence(pos::SitesOwnerInterface owner)
      : hasPositions(owner.hasPositions()) {}

  pos::AxisSet of(mlir::Value value);

private:
  pos::AxisSet compute(mlir::Value value);

  bool hasPositions;
  llvm::DenseMap<mlir::Value, pos::AxisSet> sets;
};

/// The axes of a hoist, as a set.
pos::AxisSet getAxes(pos::HoistOp hoist);

/// Whether a kernel keeps values of such a set outside its tiles: a scalar of
/// the head, a table over offsets, a vector over query or key rows, or a table
/// over row and lane, of a row map or of appended columns.
bool isKeptOutsideTiles(pos::AxisSet axes);

} // namespace sextant::passes

#endif // SEXTANT_PASSES_ANALYSIS_DEPENDENCE_H

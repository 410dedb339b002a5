//===- Dependence.h - What values of payloads depend on ---------*- C++ -*-===//
//
// One analysis answers what values of payloads depend on. Passes, verifiers and
// plans of kernels all ask it, so that they agree.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_DIALECTS_POS_IR_DEPENDENCE_H
#define SEXTANT_DIALECTS_POS_IR_DEPENDENCE_H

#include "dialects/Pos/IR/Pos.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace sextant::pos {

/// What the values of payloads depend on: axes, and other values. Answers are
/// kept, so one object is for IR that does not change meanwhile.
///
/// A parameter varies with nothing, an element of it with what its indices vary
/// with. The bound index of a sum counts as nothing: inside a sum, sets say
/// nothing about what can leave it. A vector over the heads does not vary with
/// the head, what is in a `pos.for_heads` does. Ops that are neither
/// elementwise nor known here vary with the score and the row.
class Dependence {
public:
  explicit Dependence(SitesOwnerInterface owner)
      : Dependence(owner.hasPositions()) {}
  /// Of an encoding, which has no owner yet: positions may be given.
  explicit Dependence(bool hasPositions) : hasPositions(hasPositions) {}

  /// The set of axes that a value varies with.
  AxisSet of(mlir::Value value);
  /// The union over some values.
  AxisSet of(mlir::ValueRange values);

  /// Whether `part` is the value or one of the values that it is computed with.
  bool isMadeOf(mlir::Value value, mlir::Value part);
  bool isMadeOf(mlir::Value value, mlir::ValueRange parts);

private:
  AxisSet compute(mlir::Value value);

  bool hasPositions;
  llvm::DenseMap<mlir::Value, AxisSet> sets;
  llvm::DenseMap<std::pair<mlir::Value, mlir::Value>, bool> made;
};

/// Whether some value that `value` is computed with, in one step, is such: an
/// operand, an argument's input, or what the op's regions compute or use.
bool anyPart(mlir::Value value, llvm::function_ref<bool(mlir::Value)> isSuch);

/// For a note beside an error: the op by which `value` has a property that it
/// has from what it is computed with. `value` is the result of an op.
mlir::Operation *findCause(mlir::Value value,
                           llvm::function_ref<bool(mlir::Value)> isSuch);

} // namespace sextant::pos

#endif // SEXTANT_DIALECTS_POS_IR_DEPENDENCE_H

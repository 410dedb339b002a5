//===- AllHeadsPayload.h - Payloads whose values are vectors ----*- C++ -*-===//
//
// Emits a payload of all heads at a vector of lanes, and its pullback. Vectors
// over heads are kept in registers. Vectors of any other extent (hidden units)
// never exist as a whole: a chain of a contraction, elementwise ops and a
// contraction becomes one loop over groups of units, with the registers over
// heads carried along. The loop is not unrolled: weights would be hoisted out
// of the kernel's loops, and spilled.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TABLES_ALLHEADSPAYLOAD_H
#define SEXTANT_CODEGEN_TABLES_ALLHEADSPAYLOAD_H

#include "codegen/Payload/PayloadEmitter.h"
#include "codegen/Tables/AllHeadsPoint.h"
#include "llvm/ADT/SetVector.h"

namespace sextant::codegen {

/// Forward values of one payload at one point.
class AllHeadsEmitter {
public:
  using Values = KernelBuilder::Values;

  /// `keepsUnits`: results of contractions that are streamed stay in memory,
  /// for a pullback.
  AllHeadsEmitter(mlir::OpBuilder &builder, AllHeadsPoint &point,
                  bool keepsUnits);

  /// Emits the ops of `block`; `argument` is the value of its argument, if any.
  /// Where an op has no kernel, the kernel has failed, and values are zeros.
  void emit(mlir::Block &block, mlir::ValueRange argument);

  /// Elements first .. first + count - 1 of a vector, as vectors of lanes; of a
  /// scalar as many copies.
  Values getElements(mlir::Value value, Index first, int64_t count);
  /// The elements of each value.
  llvm::SmallVector<Values> getElements(mlir::ValueRange values, Index first,
                                        int64_t count);
  /// All elements of a vector over heads.
  Values getAll(mlir::Value vector) {
    return getElements(vector, 0, getVectorExtent(vector));
  }
  /// Runs `body` for every group of a streamed axis. Within it, elements of a
  /// group are emitted once.
  Values forGroups(int64_t extent, mlir::ValueRange initial,
                   llvm::function_ref<Values(Index, mlir::ValueRange)> body);

  /// Makes loads of kept units out of their contractions, from here on.
  void useKept();

  /// The product of a packed matrix with a vector in registers, results through
  /// memory that belongs to `owner`.
  Values multiply(const PackedMatrix &matrix, mlir::ValueRange operand,
                  mlir::Value owner);
  /// Results first .. first + count - 1 of a product that streams results.
  Values multiplyGroup(const PackedMatrix &matrix, mlir::ValueRange operand,
                       Index first, int64_t count);
  /// `sums` plus the part of a product that streams operands which comes from
  /// elements first, first + 1, ...
  Values accumulate(const PackedMatrix &matrix, Index first,
                    mlir::ValueRange elements, mlir::ValueRange sums);

  /// A value of the payload that is no vector.
  PayloadEmitter &getScalars() { return scalars; }
  bool isStreamed(mlir::Value vector) const {
    return weights.isStreamed(vector);
  }

  AllHeadsPoint &point;
  KernelBuilder &kernel;
  const AllHeadsWeights &weights;

private:
  /// Values of the group at hand.
  struct Group {
    Group(Index first, int64_t count) : first(first), count(count) {}
    Index first;
    int64_t count;
    llvm::DenseMap<mlir::Value, Values> known;
  };

  void emitVector(mlir::Operation &op);
  void emitContract(pos::ContractOp op);
  void emitForHeads(pos::ForHeadsOp op);
  Values compute(mlir::Value vector, Index first, int64_t count);
  Values computeElementwise(mlir::Operation &op, Index first, int64_t count);
  Values computeContract(pos::ContractOp op, Index first, int64_t count);
  /// Zeros of a kernel that has failed.
  Values fail(int64_t count);

  void keep(mlir::Value vector, Index first, mlir::ValueRange elements);
  void storeElements(mlir::Value buffer, Index first,
                     mlir::ValueRange elements);

  mlir::OpBuilder &builder;
  PayloadEmitter scalars;
  bool keepsUnits;
  llvm::DenseMap<mlir::Value, Values> registers;
  llvm::DenseMap<mlir::Value, mlir::Value> buffers;
  llvm::SetVector<mlir::Value> kept;
  llvm::SmallVector<Group> groups;
};

/// Gives elements first .. first + count - 1 of the cotangents of the yielded
/// vector.
using AllHeadsSeeds =
    llvm::function_ref<KernelBuilder::Values(Index first, int64_t count)>;

/// Emits the payload, then `between`, then the pullback of `seeds`. The result
/// is the cotangents of the block's argument (nothing without an argument).
/// Gradients of hoisted values and parameters go to `point`, for those that its
/// site wants.
KernelBuilder::Values
emitAllHeadsPullback(mlir::OpBuilder &builder, mlir::Block &block,
                     mlir::ValueRange argument,
                     llvm::function_ref<void(AllHeadsEmitter &)> between,
                     AllHeadsSeeds seeds, AllHeadsPoint &point);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TABLES_ALLHEADSPAYLOAD_H

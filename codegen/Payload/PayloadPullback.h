//===- PayloadPullback.h - The pullback of one payload ----------*- C++ -*-===//
//
// What the models of ops (EmittableOpInterface) see of a pullback: cotangents
// of values, the forward values, and the point that takes gradients.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_PAYLOAD_PAYLOADPULLBACK_H
#define SEXTANT_CODEGEN_PAYLOAD_PAYLOADPULLBACK_H

#include "codegen/Payload/PayloadEmitter.h"
#include "llvm/ADT/MapVector.h"

namespace sextant::codegen {

/// Pulls cotangents of a payload back, from its results to what it reads.
class PayloadPullback {
public:
  using Cotangents = llvm::MapVector<mlir::Value, mlir::Value>;

  /// `forward` has emitted the payload.
  PayloadPullback(PayloadEmitter &forward, mlir::Block &payload,
                  mlir::ValueRange cotangents);

  /// From cotangents of what the payload yields to those of its arguments.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> run();
  /// Starts at values of the payload instead of what it yields.
  mlir::LogicalResult
  runFrom(llvm::ArrayRef<std::pair<mlir::Value, mlir::Value>> cotangents);

  /// Whether an argument of the payload or a wanted gradient stands behind a
  /// value.
  bool isActive(mlir::Value value);
  bool isAnyOperandActive(mlir::Operation *op);

  /// Adds to the cotangent of a value, if it is active.
  void add(mlir::Value value, mlir::Value cotangent);
  /// Pulls the ops of a block back, the last first.
  mlir::LogicalResult pullBlock(mlir::Block &block);
  /// Runs `body` with no cotangents and gives those that it has found; the ones
  /// from before are back afterwards.
  mlir::FailureOr<Cotangents>
  collect(llvm::function_ref<mlir::LogicalResult()> body);

  /// The cotangent where some seed is not 0, else 0.
  mlir::Value guarded(mlir::Value cotangent);
  /// Lanes in which `seed` is not 0 have gradients.
  void addSeeds(mlir::Value seed);

  PayloadEmitter &forward;
  mlir::OpBuilder &builder;
  PayloadPoint &point;

private:
  bool isActiveOp(mlir::Operation &op);
  mlir::LogicalResult finish();
  mlir::LogicalResult pullOp(mlir::Operation &op, mlir::Value cotangent);
  mlir::LogicalResult pullElementwise(mlir::Operation &op,
                                      mlir::Value cotangent);

  mlir::Block &payload;
  llvm::SmallVector<mlir::Value> seeds;
  mlir::Value anySeed; ///< lanes in which some seed is not zero
  Cotangents cotangents;
  llvm::DenseMap<mlir::Value, bool> active;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_PAYLOAD_PAYLOADPULLBACK_H

//===- Payload.h - Payloads, emitted forwards and backwards -----*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_PAYLOAD_PAYLOAD_H
#define SEXTANT_CODEGEN_PAYLOAD_PAYLOAD_H

#include "codegen/Payload/PayloadPoint.h"

namespace sextant::codegen {

/// Emits the payload `block` with its arguments bound to `arguments` and gives
/// the yielded values. A scalar and a vector of lanes mix freely: an op with a
/// vector operand becomes a vector op. Fails, with a diagnostic at the op, on
/// an op that the point cannot compute.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
emitPayload(mlir::OpBuilder &builder, mlir::Block &block,
            mlir::ValueRange arguments, PayloadPoint &point);

/// Emits the payload again (forward values are recomputed) and then its
/// pullback: cotangents of the yielded values become cotangents of the
/// arguments; gradients of hoisted values and parameters go to `point`. Null
/// cotangents stand for zero, in both directions. A missing derivative rule is
/// a diagnostic that names the op.
///
/// Cotangents are per lane: at a point of several lanes they are vectors, also
/// where the value itself is a scalar (its gradient is the sum of the lanes).
/// In a lane whose incoming cotangents are all 0 every gradient is 0, even if a
/// forward value is infinite or NaN there (a hidden key).
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
emitPullback(mlir::OpBuilder &builder, mlir::Block &block,
             mlir::ValueRange arguments, mlir::ValueRange cotangents,
             PayloadPoint &point);

/// Emits the value of a hoisted subexpression where `point` stands, for points
/// that keep no buffer of it (scalars of a head; the reference).
mlir::FailureOr<mlir::Value> emitHoist(mlir::OpBuilder &builder,
                                       pos::HoistOp hoist, PayloadPoint &point);

/// The pullback of `emitHoist`: the cotangent of the value becomes gradients of
/// earlier hoists and of parameters.
mlir::LogicalResult pullbackHoist(mlir::OpBuilder &builder, pos::HoistOp hoist,
                                  mlir::Value cotangent, PayloadPoint &point);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_PAYLOAD_PAYLOAD_H

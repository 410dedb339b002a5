//===- PayloadPoint.h - The seam between payloads and kernels ---*- C++ -*-===//
//
// Everything that an encoding touches goes through this interface: a kernel
// tells a payload where it stands and what was computed outside the tile, and
// takes the payload's gradients. A kernel has one call per place and no word
// about any encoding; a payload has no word about any target.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_PAYLOAD_PAYLOADPOINT_H
#define SEXTANT_CODEGEN_PAYLOAD_PAYLOADPOINT_H

#include "dialects/Pos/IR/Pos.h"

namespace sextant::codegen {

/// A point of a kernel at which payloads are emitted. Values are scalars or
/// vectors of `getLanes()` lanes.
class PayloadPoint : public pos::SitePoint {
public:
  /// The type that `f32` in a definition becomes for a single value (C1): f32,
  /// or f64 in the float64 reference.
  virtual mlir::FloatType getComputeType() = 0;

  /// Number of lanes of a vector value, or 1 where all values are scalars.
  virtual int64_t getLanes() = 0;

  /// The value of a hoisted subexpression at this point.
  virtual mlir::Value hoisted(mlir::OpBuilder &builder, pos::HoistOp hoist) = 0;

  /// An element of a parameter. `param` is a block argument of the attention's
  /// region. The result has the compute type (or is i32) and is a vector where
  /// an index is one.
  virtual mlir::Value read(mlir::OpBuilder &builder, mlir::BlockArgument param,
                           mlir::ValueRange indices) = 0;

  /// Called with the indices at which an op of the payload reads, before it
  /// does.
  virtual void noteRead(mlir::Operation *, mlir::ValueRange) {}

  /// Adds to the gradient of a hoisted value at this point. The cotangent is
  /// per lane, also where the value is the same in all lanes.
  virtual void addToHoisted(mlir::OpBuilder &builder, pos::HoistOp hoist,
                            mlir::Value cotangent) = 0;

  /// Adds to the gradient of an element of a parameter, likewise per lane. May
  /// be called inside a loop that the payload emits (`pos.sum`), so it has to
  /// go to memory.
  virtual void addToRead(mlir::OpBuilder &builder, mlir::BlockArgument param,
                         mlir::ValueRange indices, mlir::Value cotangent) = 0;

  // Contextual places. A point that has no such place gives an error at the op.

  /// Row `index` (i32) of a table times the query's or the key's row at this
  /// point. Null for a `pos.offset_dot` of a sum over columns: its row is the
  /// offset's.
  virtual mlir::Value rowDot(mlir::OpBuilder &builder,
                             pos::RowDotOpInterface op, mlir::Value index);
  /// Adds to the gradients of both rows.
  virtual void addToRowDot(mlir::OpBuilder &builder, pos::RowDotOpInterface op,
                           mlir::Value index, mlir::Value cotangent);
  /// The clamped running sum up to this point. Points follow each other in the
  /// direction of the scan, or know the sums already.
  virtual mlir::Value scan(mlir::OpBuilder &builder, pos::ScanOp op,
                           mlir::Value value, mlir::Value limit);
  /// The cotangent of the value at this point from that of the result: 0 for a
  /// hidden key. Null, with a diagnostic, on failure.
  virtual mlir::Value pullScan(mlir::OpBuilder &builder, pos::ScanOp op,
                               mlir::Value limit, mlir::Value cotangent);

  /// A piecewise-linear function at this point.
  virtual mlir::Value hingeSum(mlir::OpBuilder &builder, pos::HingeSumOp op);
  /// Adds to the gradients of its units; the cotangent of its argument. Null,
  /// with a diagnostic, on failure.
  virtual mlir::Value pullHingeSum(mlir::OpBuilder &builder, pos::HingeSumOp op,
                                   mlir::Value cotangent);
  virtual bool wantsUnits(pos::HingeSumOp) { return false; }

  /// Whether anybody wants the gradient of this value: what a pullback can
  /// skip.
  virtual bool wantsGradient(pos::HoistOp hoist) = 0;
  virtual bool wantsGradient(mlir::BlockArgument param) = 0;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_PAYLOAD_PAYLOADPOINT_H

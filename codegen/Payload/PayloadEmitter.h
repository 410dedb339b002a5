//===- PayloadEmitter.h - Forward emission of a payload ---------*- C++ -*-===//
//
// The state shared by forward emission and by pullbacks, which recompute
// forward values; for targets that emit a payload op by op.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_PAYLOAD_PAYLOADEMITTER_H
#define SEXTANT_CODEGEN_PAYLOAD_PAYLOADEMITTER_H

#include "codegen/Payload/PayloadPoint.h"
#include "mlir/IR/IRMapping.h"

namespace sextant::codegen {

/// Emits the ops of a payload at a point, one after the other.
class PayloadEmitter {
public:
  PayloadEmitter(mlir::OpBuilder &builder, PayloadPoint &point)
      : builder(builder), point(point) {}

  /// Emits all ops of a block but its terminator.
  mlir::LogicalResult emitBlock(mlir::Block &block);
  mlir::LogicalResult emitOp(mlir::Operation &op);

  /// Emits what the body of a running sum may use of the block around the sum,
  /// for kernels that run along the sum themselves. Other blocks: nothing.
  mlir::LogicalResult emitAround(mlir::Block &body);

  /// Emits now what a nested block (the body of a sum) needs from outside, so
  /// that it dominates all uses: context ops, hoisted values, constants.
  /// Values of `outermost` (the body's region by default) are not from outside.
  mlir::LogicalResult prepare(mlir::Block &body,
                              mlir::Region *outermost = nullptr);

  /// What a value of the payload became; null, with a diagnostic, if nothing
  /// can stand for it.
  mlir::Value get(mlir::Value value);
  void bind(mlir::Value value, mlir::Value emitted) {
    values.map(value, emitted);
  }

  /// The value as a vector of all lanes, unless it is one.
  mlir::Value toLanes(mlir::Value value);
  mlir::Type toLanes(mlir::Type type) const;
  /// f32 in a definition is the compute type (C1); other types stay.
  mlir::Type convert(mlir::Type type);
  /// A scalar constant of the compute type.
  mlir::Value constant(mlir::Location loc, double value);
  mlir::Value constantInt(mlir::Location loc, int64_t value);

  mlir::OpBuilder &builder;
  PayloadPoint &point;

private:
  mlir::LogicalResult emitElementwise(mlir::Operation &op);
  mlir::LogicalResult emitConstant(mlir::Operation &op);

  mlir::IRMapping values;
  llvm::DenseSet<mlir::Operation *> prepared;
};

/// Pulls cotangents of scalars of a block back to hoisted values and
/// parameters. `forward` has emitted the scalars of the block.
mlir::LogicalResult emitScalarPullback(
    PayloadEmitter &forward, mlir::Block &block,
    llvm::ArrayRef<std::pair<mlir::Value, mlir::Value>> cotangents);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_PAYLOAD_PAYLOADEMITTER_H

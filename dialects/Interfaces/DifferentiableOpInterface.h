//===- DifferentiableOpInterface.h - Derivatives of graph ops ---*- C++ -*-===//
//
// An op of a graph builds its own derivative: given the gradient of a loss with
// respect to its results, it adds those with respect to its operands (reverse
// mode).
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_DIALECTS_INTERFACES_DIFFERENTIABLEOPINTERFACE_H
#define SEXTANT_DIALECTS_INTERFACES_DIFFERENTIABLEOPINTERFACE_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

namespace sextant {

/// What goes into and comes out of the derivative of one op.
class Cotangents {
public:
  virtual ~Cotangents();

  /// The cotangent of a result, or null where no gradient reaches it.
  virtual mlir::Value of(mlir::OpResult result) = 0;

  /// The same, with a tensor of zeros in place of null.
  mlir::Value ofOrZeros(mlir::OpBuilder &builder, mlir::OpResult result);

  /// Whether a parameter that is trained depends on the operand's gradient.
  virtual bool wants(mlir::OpOperand &operand) = 0;

  /// Adds a contribution, of the operand's type, to the operand's cotangent.
  virtual void give(mlir::OpBuilder &builder, mlir::OpOperand &operand,
                    mlir::Value cotangent) = 0;
};

/// A tensor of the value's shape filled with a constant.
mlir::Value createFilledLike(mlir::OpBuilder &builder, mlir::Location loc,
                             mlir::Value like, double constant);

} // namespace sextant

#include "dialects/Interfaces/DifferentiableOpInterface.h.inc"

#endif // SEXTANT_DIALECTS_INTERFACES_DIFFERENTIABLEOPINTERFACE_H

//===- AllHeadsPoint.h - What payloads of all heads ask for -----*- C++ -*-===//
//
// The seam of payloads whose values are vectors over heads or hidden units, at
// points that compute a vector of lanes at a time. An element of a vector is a
// vector of lanes. Where parameters, tables and sums of gradients lie is the
// business of the kernel.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TABLES_ALLHEADSPOINT_H
#define SEXTANT_CODEGEN_TABLES_ALLHEADSPOINT_H

#include "codegen/Emit/KernelBuilder.h"
#include "codegen/Payload/PayloadPoint.h"
#include "codegen/Tables/AllHeadsWeights.h"

namespace sextant::codegen {

/// Implemented beside a PayloadPoint, for the same point.
class AllHeadsPoint {
public:
  using Values = KernelBuilder::Values;

  virtual ~AllHeadsPoint() = default;
  virtual KernelBuilder &getKernel() = 0;
  /// The point, for scalars.
  virtual PayloadPoint &getScalarPoint() = 0;
  /// Moves the point to a head, for the body of `pos.for_heads`.
  virtual void enterHead(int64_t head) = 0;
  /// Stand around the pullbacks of such a body at all heads: gradients that are
  /// not of one head may be summed until the end.
  virtual void beginHeads() {}
  virtual void endHeads() {}

  /// Weights and parameters, as they were packed.
  virtual const AllHeadsWeights &getWeights() = 0;
  virtual mlir::Value getPacked(int64_t place) = 0;

  /// Memory of `elements` vectors of lanes that belongs to a value of the
  /// payload while the point does not move.
  virtual mlir::Value getBuffer(mlir::Value value, int64_t elements) = 0;

  /// Elements first .. first + count - 1 of a hoisted vector.
  virtual Values loadElements(pos::HoistOp hoist, Index first,
                              int64_t count) = 0;

  //===--- Gradients -----------------------------------------------------===//

  virtual void addToElements(pos::HoistOp hoist, Index first,
                             mlir::ValueRange cotangents) = 0;
  virtual void addToElements(pos::ElementsOp param, Index first,
                             mlir::ValueRange cotangents) = 0;
  /// The gradient of a matrix is the sum over points of the products of
  /// cotangents of the result with elements of the operand. Both are given once
  /// per point, in parts.
  virtual void recordResult(pos::ContractOp contract, Index first,
                            mlir::ValueRange cotangents) = 0;
  virtual void recordOperand(pos::ContractOp contract, Index first,
                             mlir::ValueRange elements) = 0;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TABLES_ALLHEADSPOINT_H

//===- ReferenceVectors.h - Payloads with vectors, literally ----*- C++ -*-===//
//
// Internal to codegen/Reference: a payload of all heads. Each vector has a
// buffer of scratch memory, and one for its cotangent; ops are loops over the
// elements.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_REFERENCE_REFERENCEVECTORS_H
#define SEXTANT_CODEGEN_REFERENCE_REFERENCEVECTORS_H

#include "codegen/Payload/PayloadEmitter.h"
#include "codegen/Reference/ReferencePoint.h"
#include "llvm/ADT/MapVector.h"
#include <memory>

namespace sextant::codegen {

/// A payload of all heads, of which every vector lies in memory.
class VectorPayload {
public:
  /// Allocates the buffers of a payload of one result, and those of hoisted
  /// vectors that it uses: they are evaluated where they are used.
  VectorPayload(ReferenceBuilder &r, mlir::Block &block);

  /// Elements of scratch memory that the buffers take.
  static int64_t countElements(mlir::Block &block);

  /// Fills the buffers, where the kernel's point stands. The argument's is
  /// filled before.
  void emit();
  /// After `emit` at the same point: turns the cotangent of the result into
  /// that of the argument and into gradients.
  void pull();

  const Matrix &getArgument() { return of(block.getArgument(0)).value; }
  const Matrix &getArgumentCotangent() {
    return of(block.getArgument(0)).cotangent;
  }
  const Matrix &getResult() { return of(getYielded()).value; }
  const Matrix &getResultCotangent() { return of(getYielded()).cotangent; }

private:
  struct Buffer {
    Matrix value, cotangent;
    int64_t extent;
  };
  using Nested =
      llvm::MapVector<mlir::Operation *, std::unique_ptr<VectorPayload>>;

  mlir::Value getYielded() { return block.getTerminator()->getOperand(0); }
  const Buffer &of(mlir::Value vector) { return buffers.find(vector)->second; }
  void allocate(mlir::Value vector);
  void forEach(int64_t extent, llvm::function_ref<void(mlir::Value)> body);
  /// Element `n` of an operand: of a vector, or the scalar itself.
  mlir::Value getElement(PayloadEmitter &scalars, mlir::Value operand,
                         mlir::Value n);
  mlir::Value readElement(mlir::Value param, mlir::ValueRange indices);
  void addToParam(mlir::Value param, mlir::ValueRange indices,
                  mlir::Value cotangent);
  llvm::SmallVector<mlir::Value> enterHead(pos::ForHeadsOp op,
                                           mlir::Value head);
  void leaveHeads();

  void emitVector(mlir::Operation &op, PayloadEmitter &scalars);
  void emitForHeads(pos::ForHeadsOp op);
  void emitContract(pos::ContractOp op);
  void emitConstant(mlir::Operation &op, mlir::DenseElementsAttr elements);
  void emitElementwise(mlir::Operation &op, PayloadEmitter &scalars);

  void pullVector(mlir::Operation &op, PayloadEmitter &scalars);
  void pullForHeads(pos::ForHeadsOp op);
  void pullContract(pos::ContractOp op);
  void pullElementwise(mlir::Operation &op, PayloadEmitter &scalars);

  ReferenceBuilder &r;
  mlir::Block &block;
  llvm::MapVector<mlir::Value, Buffer> buffers;
  Nested nested;
  /// Cotangents of scalars that became vectors.
  llvm::SmallVector<std::pair<mlir::Value, mlir::Value>> scalarCotangents;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_REFERENCE_REFERENCEVECTORS_H

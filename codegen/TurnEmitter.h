//===- TurnEmitter.h - What the kernels of a turn do with a row -*- C++ -*-===//
//
// Internal to codegen/TurnRows.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TURNEMITTER_H
#define SEXTANT_CODEGEN_TURNEMITTER_H

#include "codegen/HeadPoint.h"
#include "codegen/MatrixExponential.h"

namespace sextant::codegen {

/// A row of an operand; gradients of parameters go to a range's own sums.
class TurnPoint : public HeadPoint {
public:
  TurnPoint(KernelBuilder &kernel, ArgumentBlock &arguments,
            const PointLayout &layout, const KernelPlan &plan,
            pos::RowOperand operand)
      : HeadPoint(kernel, arguments, layout, plan),
        side(operand == pos::RowOperand::key ? pos::Side::key
                                             : pos::Side::query) {}

  void moveTo(Index batch, Index head, Index at) {
    HeadPoint::moveTo(batch, head);
    row = kernel.toI32(at);
  }
  void setRange(Index number) { range = kernel.toI32(number); }

  mlir::Value index(mlir::OpBuilder &, pos::Side) override {
    return side == pos::Side::query ? getQueryIndex(row) : row;
  }
  mlir::Value coord(mlir::OpBuilder &builder, pos::Side,
                    int64_t axis) override {
    mlir::Value given = getPosition(side, axis, row);
    return given ? given : index(builder, side);
  }
  void addToRead(mlir::OpBuilder &builder, mlir::BlockArgument param,
                 mlir::ValueRange indices, mlir::Value cotangent) override {
    llvm::SmallVector<mlir::Value> all{range};
    llvm::append_range(all, indices);
    ArgumentPoint::addToRead(builder, param, all, cotangent);
  }

private:
  pos::Side side;
  mlir::Value row, range;
};

/// Writes the work of one row. The tensor `rows` says the sizes.
class TurnEmitter {
public:
  TurnEmitter(const Lowering &lowering, const RowTurn &turn,
              KernelBuilder &kernel, ArgumentBlock &arguments,
              const PointLayout &layout, unsigned rows, mlir::Value scratch)
      : lowering(lowering), turn(turn), k(kernel), arguments(arguments),
        layout(layout), rows(rows), matrix(kernel, turn.size),
        point(kernel, arguments, layout, lowering.plan, turn.operand),
        next(scratch) {}

  /// Bytes of scratch for a number of matrices and two rows.
  static int64_t getScratchBytes(KernelBuilder &kernel, const RowTurn &turn,
                                 int64_t matrices) {
    MatrixExponential matrix(kernel, turn.size);
    return 8 * (matrices * matrix.getElements() +
                2 * (matrix.getStride() + kernel.width()));
  }

  mlir::Value takeMatrix() { return take(matrix.getElements()); }
  /// A row has room for whole vectors of any type, and is zero.
  mlir::Value takeRow() {
    mlir::Value row = take(matrix.getStride() + k.width());
    matrix.clear(row, matrix.getStride());
    return row;
  }

  /// Number of batch elements, and of heads, that have matrices of their own.
  Index countBatches();
  Index countHeads() {
    return turn.perHead ? arguments.getSize(rows, 1) : Index(1);
  }

  /// Writes the matrix of the block, or its transpose.
  void fill(mlir::Value address, Index block, bool isTransposed);
  /// Takes the gradient of the matrix, given transposed.
  void pullMatrix(mlir::Value gradient, Index block);
  /// Runs `body` for every batch element and head that share the matrix.
  void loopOverRows(Index batch, Index head,
                    llvm::function_ref<void(Index, Index)> body);
  void loadBlock(unsigned tensor, llvm::ArrayRef<Index> row, Index block,
                 mlir::Value to);
  /// `tensor` is one that was allocated: its lanes are neighbours.
  void storeBlock(mlir::Value from, unsigned tensor, llvm::ArrayRef<Index> row,
                  Index block);
  /// Copies the lanes that fill no block.
  void copyRest(unsigned from, unsigned to, llvm::ArrayRef<Index> row);

  const Lowering &lowering;
  const RowTurn &turn;
  KernelBuilder &k;
  ArgumentBlock &arguments;
  const PointLayout &layout;
  unsigned rows;
  MatrixExponential matrix;
  TurnPoint point;
  bool failed = false;

private:
  mlir::Value take(int64_t elements) {
    mlir::Value address = next;
    next = k.advance(next, {elements}, k.builder.getF64Type());
    return address;
  }
  mlir::Block &getPayload() {
    pos::TurnRowsOp op = turn.op;
    return op.getBody().front();
  }
  mlir::Value next;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TURNEMITTER_H

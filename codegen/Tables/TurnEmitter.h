//===- TurnEmitter.h - What the kernels of a turn do with a row -*- C++ -*-===//
//
// Internal to TurnRows. The items of a turn count rows from the end,
// where queries and keys meet: at one place both have the same index, and where
// both have the same coordinates one matrix turns the rows of both.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TABLES_TURNEMITTER_H
#define SEXTANT_CODEGEN_TABLES_TURNEMITTER_H

#include "codegen/Emit/MatrixExponential.h"
#include "codegen/Tables/HeadPoint.h"

namespace sextant::codegen {

/// A row of one of the operands.
class TurnPoint : public HeadPoint {
public:
  TurnPoint(KernelBuilder &kernel, ArgumentBlock &arguments,
            const PointLayout &layout, const KernelPlan &plan,
            const RowTurn &turn);

  /// The last row is 1 from the end. A row that an operand does not have may be
  /// asked for, as long as nothing of it is used.
  void moveToRow(Index batch, Index head, Index fromEnd);
  /// Whether the payload sees the same of both operands (i1).
  mlir::Value areSame();
  /// Stands at the row of the first operand, or of the second.
  void stand(mlir::Value atFirst);

  mlir::Value index(mlir::OpBuilder &, pos::Side) override { return row; }
  mlir::Value tensorRow(mlir::OpBuilder &, pos::Side) override {
    return current.lookup(tensorRowAxis);
  }
  mlir::Value coord(mlir::OpBuilder &, pos::Side, int64_t axis) override {
    return current.lookup(axis);
  }

private:
  using Coordinates = llvm::MapVector<int64_t, mlir::Value>; ///< by axis
  /// Stands for the row of the operand's tensor among its coordinates.
  static constexpr int64_t tensorRowAxis = -1;

  const RowTurn &turn;
  mlir::Value row;
  llvm::SmallVector<Coordinates, 2> coordinates; ///< as the turn's operands
  Coordinates current;
};

/// Writes the work of one row. The tensors `rows`, as the turn's operands, say
/// the sizes.
class TurnEmitter {
public:
  TurnEmitter(const Lowering &lowering, const RowTurn &turn,
              KernelBuilder &kernel, ArgumentBlock &arguments,
              const PointLayout &layout, llvm::ArrayRef<unsigned> rows,
              mlir::Value scratch);

  /// Rows that are loaded together.
  static constexpr int64_t chunk = 16;

  /// Bytes of scratch for a number of matrices and two chunks.
  static int64_t getScratchBytes(KernelBuilder &kernel, const RowTurn &turn,
                                 int64_t matrices);

  llvm::SmallVector<mlir::Value> takeMatrices(int64_t count);
  /// Rows are as long as those of a matrix; the lanes past the last are zero.
  mlir::Value takeChunk();

  /// Number of batch elements, and of heads, that have matrices of their own,
  /// and the length of the longer operand.
  Index countBatches();
  Index countHeads();
  Index countRows();
  /// Rows of an operand, with those that follow the query and are not given.
  Index getLength(size_t operand);
  /// The number of those that follow.
  Index getTail(size_t operand);

  /// Runs `body` for the matrix that turns the rows of all operands at a place
  /// from 0 to countRows() - 1, or for one after the other.
  void forEachMatrix(Index batch, Index head, Index at,
                     llvm::function_ref<void()> body);
  /// Writes the matrix of the block, or its transpose.
  void fill(mlir::Value address, Index block, bool isTransposed);
  /// Takes the gradient of the matrix, given transposed.
  void pullMatrix(mlir::Value gradient, Index block);

  /// Runs `body` for every chunk of rows of an operand (by its place in the
  /// turn) that the matrix turns: over batch elements and heads that share it.
  void forEachChunk(size_t operand,
                    llvm::function_ref<void(Index first, Index count)> body);
  void loadBlocks(unsigned tensor, size_t operand, Index first, Index count,
                  Index block, mlir::Value to);
  /// `tensor` is one that was allocated: its lanes are neighbours.
  void storeBlocks(mlir::Value from, unsigned tensor, size_t operand,
                   Index first, Index count, Index block);
  /// Copies the lanes that fill no block.
  void copyRest(unsigned from, unsigned to, size_t operand);

  const Lowering &lowering;
  const RowTurn &turn;
  KernelBuilder &k;
  ArgumentBlock &arguments;
  const PointLayout &layout;
  llvm::SmallVector<unsigned, 2> rows;
  MatrixExponential matrix;
  TurnPoint point;

private:
  static int64_t getChunkElements(KernelBuilder &kernel,
                                  const MatrixExponential &matrix);
  mlir::Value take(int64_t elements);
  mlir::Block &getPayload();
  mlir::Value getRow(unsigned tensor, size_t operand, Index number);

  mlir::Value next;
  // Where the matrix stands; `isTurned` by operand, null: always.
  Index batch = 0, head = 0, fromEnd = 0;
  llvm::SmallVector<mlir::Value, 2> isTurned;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TABLES_TURNEMITTER_H

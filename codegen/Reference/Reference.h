//===- Reference.h - The definition run literally ---------------*- C++ -*-===//
//
// Internal to codegen/Reference: the oracle of every test. Scalar loops in the
// order of contract C2, in f64 for f64 operands and in f32 otherwise; hoisted
// values are evaluated where they are used; scratch is O(Lk) per head. Clarity
// comes before speed.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_REFERENCE_REFERENCE_H
#define SEXTANT_CODEGEN_REFERENCE_REFERENCE_H

#include "codegen/Payload/Payload.h"
#include "codegen/Reference/ReadLog.h"
#include "codegen/Tables/ArgumentPoint.h"

namespace sextant::codegen {

struct AttentionTensors;

/// f64 for f64 operands, else f32 (C1).
mlir::FloatType getReferenceType(mlir::Value operand);

/// A matrix of the compute type in scratch memory, row by row.
struct Matrix {
  mlir::Value base;
  Index width = 1;
};

class ReferenceKernel;

/// What contextual ops of a score payload know of one query row and of the
/// keys of its head.
struct ContextualRow {
  Matrix query;     ///< the row as it entered the op
  Matrix gradient;  ///< of that row, without what row maps pull back
  unsigned key = 0; ///< tensor of the keys
  Index keyHead = 0;
  /// [keys]: of their rows, likewise; for a backward whose payload reads them.
  Matrix keyGradients;
  Matrix sums;  ///< [scans][keys]: running sums before they are clamped
  Matrix carry; ///< [scans]: running sum of values, or of their cotangents
  /// Whether the sums are there already: points then run against the scans.
  bool replays = false;
};

/// One pair of rows, one row of an operand, or one group of its lanes.
class ReferencePoint : public ArgumentPoint {
public:
  using ArgumentPoint::ArgumentPoint;

  /// Stands at a score; rows are i64.
  void moveToPair(Index batch, Index head, Index queryRow, Index keyRow);
  /// Stands at a row of an operand, of the operand's own head: `self`, and the
  /// query or the key.
  void moveToRow(pos::RowOperand operand, Index batch, Index head, Index row);
  void setLane(Index lane);

  mlir::Value index(mlir::OpBuilder &builder, pos::Side side) override;
  mlir::Value tensorRow(mlir::OpBuilder &, pos::Side side) override {
    return getRow(side);
  }
  mlir::Value coord(mlir::OpBuilder &builder, pos::Side side,
                    int64_t axis) override;
  mlir::Value offset(mlir::OpBuilder &builder, int64_t axis) override;
  mlir::Value lane(mlir::OpBuilder &) override { return laneValue; }
  mlir::Value hoisted(mlir::OpBuilder &builder, pos::HoistOp hoist) override;
  void addToHoisted(mlir::OpBuilder &builder, pos::HoistOp hoist,
                    mlir::Value cotangent) override;
  bool wantsGradient(pos::HoistOp hoist) override;
  using ArgumentPoint::wantsGradient;

  // ReferenceContextual.cpp
  mlir::Value rowDot(mlir::OpBuilder &builder, pos::RowDotOpInterface op,
                     mlir::Value index) override;
  void addToRowDot(mlir::OpBuilder &builder, pos::RowDotOpInterface op,
                   mlir::Value index, mlir::Value cotangent) override;
  mlir::Value scan(mlir::OpBuilder &builder, pos::ScanOp op, mlir::Value value,
                   mlir::Value limit) override;
  mlir::Value pullScan(mlir::OpBuilder &builder, pos::ScanOp op,
                       mlir::Value limit, mlir::Value cotangent) override;

  /// Takes note of what reads ask for, in a launch that checks them: where
  /// `counts` (i1) holds, or always if that is null.
  const ReadLog *log = nullptr;
  mlir::Value counts;
  void noteRead(mlir::Operation *op, mlir::ValueRange indices) override {
    if (log)
      log->note(kernel, arguments, op, indices, batchValue, counts);
  }

  /// Whose scratch memory `contextual` is in.
  ReferenceKernel *rows = nullptr;
  ContextualRow contextual;
  mlir::Value visible; ///< of the pair, null: it is

  /// Whether a payload could not be emitted; a diagnostic says why.
  bool failed = false;

private:
  mlir::Value getRow(pos::Side side);
  llvm::SmallVector<mlir::Value> getIndices(pos::RowDotOpInterface op,
                                            mlir::Value index, Index lane);
  mlir::Value getTableElement(pos::RowDotOpInterface op, mlir::Value index,
                              Index lane);
  mlir::Value getOwnHead(pos::RowDotOpInterface op);
  mlir::Value getRowElement(pos::RowDotOpInterface op, Index lane);

  mlir::Value queryRow, keyRow, selfRow, laneValue;
  pos::Side selfSide = pos::Side::query;
};

/// What the reference's kernels are written with.
class ReferenceKernel {
public:
  ReferenceKernel(KernelBuilder &kernel, ArgumentBlock &arguments,
                  ReferencePoint &point, mlir::Value scratch)
      : k(kernel), arguments(arguments), point(point), scratch(scratch) {}

  KernelBuilder &k;
  ArgumentBlock &arguments;
  ReferencePoint &point;

  mlir::FloatType type() { return point.getComputeType(); }
  mlir::Value constant(double value);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);

  /// The next rows x width elements of scratch memory.
  Matrix allocate(Index rows, Index width);
  mlir::Value load(const Matrix &matrix, Index row, Index column);
  void store(const Matrix &matrix, Index row, Index column, mlir::Value value);
  void addTo(const Matrix &matrix, Index row, Index column, mlir::Value value);
  void clear(const Matrix &matrix, Index rows);
  /// The sum over columns of a[row] times b[row].
  mlir::Value dot(const Matrix &a, Index rowA, const Matrix &b, Index rowB);

  /// An element of a tensor in the compute type, and back.
  mlir::Value loadElement(unsigned tensor, llvm::ArrayRef<Index> indices);
  void storeElement(unsigned tensor, llvm::ArrayRef<Index> indices,
                    mlir::Value value);
  /// Row tensor[indices] to the first columns of a row of a matrix, and back.
  void loadRow(unsigned tensor, llvm::ArrayRef<Index> indices,
               const Matrix &matrix, Index row);
  void storeRow(unsigned tensor, llvm::ArrayRef<Index> indices,
                const Matrix &matrix, Index row);

  /// Applies row maps to a row in place. The point stands at the row.
  void mapRow(llvm::ArrayRef<RowMap> maps, const Matrix &matrix, Index row);
  /// Turns the gradient of the mapped row into that of the row as it was,
  /// which `original` holds; `work` has room for one row.
  void pullRow(llvm::ArrayRef<RowMap> maps, const Matrix &gradient, Index row,
               const Matrix &original, const Matrix &work);

  /// Lanes of an operand's rows, and the columns appended to them.
  Index getRowWidth(pos::RowOperand operand, unsigned tensor);
  /// Writes the columns appended to a row of an operand, the last ones of a row
  /// of the matrix. The point stands at the row.
  void appendColumns(pos::RowOperand operand, const Matrix &matrix, Index row);
  /// Takes the gradient of these columns.
  void pullColumns(pos::RowOperand operand, const Matrix &gradient, Index row);

  /// Room for what contextual ops know of a row of `keys` keys.
  ContextualRow allocateContextual(Index width, Index keys);
  /// Key number `step` of the row in the direction of its scans.
  Index toKey(Index step, Index keys);
  /// The product of `row` with the row of the table of a `pos.weighted_rows`
  /// at the pair where the point stands.
  mlir::Value dotWeighted(pos::WeightedRowsOp op, const Matrix &row);
  /// row += factor * that row; and the table's gradient += factor * row.
  void addWeighted(pos::WeightedRowsOp op, const Matrix &row,
                   mlir::Value factor);
  void addToWeighted(pos::WeightedRowsOp op, const Matrix &row,
                     mlir::Value factor);

  /// The statistics of a row: the greatest score and the sum of exponentials.
  void storeStatistics(const AttentionTensors &tensors, Index batch, Index head,
                       Index row, mlir::Value largest, mlir::Value sum);
  /// The score before the softmax: minus infinity where hidden. `raw` is the
  /// scaled product.
  mlir::Value finalScore(mlir::Value raw);
  /// What the log-sum-exp of a row has beyond that of its final scores; the
  /// point then stands at the row.
  mlir::Value rowTerm(Index batch, Index head, Index row);
  /// Whether the key at hand is seen; null: it is.
  mlir::Value isVisible();
  /// A score after the payload, minus infinity where it is not `visible`.
  mlir::Value hide(mlir::Value score, mlir::Value visible);

private:
  mlir::Value getBucket(pos::WeightedRowsOp op);

  mlir::Value scratch;
  Index used = 0;
};

/// Bytes of scratch for a number of elements of the compute type.
Index getScratchBytes(KernelBuilder &kernel, mlir::FloatType type,
                      Index elements);

/// Elements that `allocateContextual` takes.
Index countContextual(KernelBuilder &kernel, const KernelPlan &plan,
                      Index width, Index keys);

/// Numbers of the operands of an attention's launch; those of gradients in a
/// backward only.
struct AttentionTensors {
  unsigned query = 0, key = 0, lse = 0;
  /// In a forward where they are wanted, in a backward always.
  std::optional<unsigned> statistics;
  llvm::SmallVector<unsigned> values, outputs;
  unsigned lseGradient = 0, queryGradient = 0, keyGradient = 0;
  llvm::SmallVector<unsigned> outputGradients, valueGradients;
};

/// Adds what a `pos.attention` reads and allocates what it writes, its results.
llvm::SmallVector<mlir::Value> addForwardTensors(const Lowering &lowering,
                                                 LaunchOperands &operands,
                                                 AttentionTensors &tensors);
/// Likewise for a `pos.attention_backward`; `layout` takes the gradients of
/// parameters.
llvm::SmallVector<mlir::Value> addBackwardTensors(const Lowering &lowering,
                                                  LaunchOperands &operands,
                                                  PointLayout &layout,
                                                  AttentionTensors &tensors);

/// Adds parameters, extents and positions to the reads of a launch.
PointLayout addReferenceReads(const Lowering &lowering,
                              LaunchOperands &operands);
/// Zeroed gradients of the wanted parameters, added to the writes, in the order
/// of `numbers`.
llvm::SmallVector<mlir::Value>
addParamGradients(const Lowering &lowering, LaunchOperands &operands,
                  PointLayout &layout, llvm::ArrayRef<int32_t> numbers);

// With a log, the launch does its work in one item and fills the log.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerReferenceAttention(const Lowering &lowering, ReadLog *log = nullptr);
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerReferenceBackward(const Lowering &lowering);
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerReferenceMapRows(const Lowering &lowering, ReadLog *log = nullptr);
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerReferenceMapRowsBackward(const Lowering &lowering);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_REFERENCE_REFERENCE_H

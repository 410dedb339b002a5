//===- ReferencePoint.h - Where a reference payload stands ------*- C++ -*-===//
//
// Internal to codegen/Reference: a pair of rows, a row of an operand, or a
// group of its lanes. Hoisted values are evaluated where they are used.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_REFERENCE_REFERENCEPOINT_H
#define SEXTANT_CODEGEN_REFERENCE_REFERENCEPOINT_H

#include "codegen/Payload/Payload.h"
#include "codegen/Reference/ReadLog.h"
#include "codegen/Reference/ReferenceBuilder.h"
#include "codegen/Tables/ArgumentPoint.h"

namespace sextant::codegen {

/// f64 for f64 operands, else f32 (C1).
mlir::FloatType getReferenceType(mlir::Value operand);

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

/// Where a reference kernel emits a payload.
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

  mlir::Value rowDot(mlir::OpBuilder &builder, pos::RowDotOpInterface op,
                     mlir::Value index) override;
  void addToRowDot(mlir::OpBuilder &builder, pos::RowDotOpInterface op,
                   mlir::Value index, mlir::Value cotangent) override;
  /// A scan's gradient needs the pairs in the opposite order, so the backward
  /// visits a row twice: once to store the running sums, once against their
  /// direction.
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
  ReferenceBuilder *rows = nullptr;
  ContextualRow contextual;
  mlir::Value visible; ///< of the pair, null: it is

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

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_REFERENCE_REFERENCEPOINT_H

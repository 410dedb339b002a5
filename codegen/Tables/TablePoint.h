//===- TablePoint.h - Where a payload stands in a table ---------*- C++ -*-===//
//
// Internal to codegen/HoistTable: a vector of columns of one row of a buffer of
// hoisted values.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TABLES_TABLEPOINT_H
#define SEXTANT_CODEGEN_TABLES_TABLEPOINT_H

#include "codegen/Tables/HoistLaunch.h"

namespace sextant::codegen {

/// A vector of columns of one row of the buffer.
class TablePoint : public ArgumentPoint {
public:
  TablePoint(KernelBuilder &kernel, ArgumentBlock &arguments,
             const HoistLaunch &source, mlir::FloatType computeType)
      : ArgumentPoint(kernel, arguments, source.layout.point,
                      source.lowering.plan, computeType),
        entry(source.entry), options(source.options), layout(source.layout) {}

  /// Stands at columns `first` .. `first + count - 1` of a row.
  void moveTo(Index batch, Index head, Index row, Index first, Index count);

  int64_t getLanes() override { return isScalar() ? 1 : kernel.width(); }
  mlir::Value index(mlir::OpBuilder &builder, pos::Side side) override;
  mlir::Value tensorRow(mlir::OpBuilder &builder, pos::Side side) override;
  mlir::Value coord(mlir::OpBuilder &builder, pos::Side side,
                    int64_t axis) override;
  mlir::Value offset(mlir::OpBuilder &builder, int64_t axis) override;
  mlir::Value lane(mlir::OpBuilder &) override {
    return entry.form == HoistForm::RowLaneTable ? column : mlir::Value();
  }
  mlir::Value hoisted(mlir::OpBuilder &builder, pos::HoistOp hoist) override;
  void addToHoisted(mlir::OpBuilder &builder, pos::HoistOp hoist,
                    mlir::Value cotangent) override;
  bool wantsGradient(pos::HoistOp hoist) override {
    return layout.gradients.contains(hoist);
  }
  using ArgumentPoint::wantsGradient;

  /// Address of the point in a buffer of the same form; for a scalar per head,
  /// of that.
  mlir::Value getAddress(unsigned tensor, bool isScalarBuffer);
  /// The same in the sums of a range, [ranges, B', H'], of a scalar per head.
  mlir::Value getRangeAddress(unsigned tensor, Index number);
  /// How many rows, from the first on, may stand for row 0 of a parameter that
  /// is read at the row's index: queries before the first key do.
  Index countSharingRows() {
    return kernel.add(kernel.sub(0, getQueryShift()), 1);
  }
  Index getCount() const { return count; }
  /// Columns of a table over offsets before those in use, which are as many as
  /// the side has rows, or behind them.
  Index countOutside(pos::Extent side);
  /// Moves a point of a hoisted vector, whose table has no heads, to a head.
  void setHeadIndex(int64_t number) {
    headIndex = number;
    setHead(kernel.toI32(headIndex));
  }

protected:
  bool isScalar() const { return entry.form == HoistForm::HeadScalar; }
  /// Whether what the point reads may differ between heads.
  bool hasHead() const { return entry.perHead || entry.extent; }
  /// The row of the operand (i32, scalar or vector) that the point stands for.
  mlir::Value getRow();
  Index getRowCount();
  llvm::SmallVector<Index> getPlace(unsigned tensor, unsigned dim);
  /// The offset on an axis, under given positions.
  mlir::Value offsetInRange(int64_t axis);

  const Hoisted &entry;
  const HoistTableOptions &options;
  const HoistLayout &layout;
  Index batch = 0, headIndex = 0, row = 0, first = 0, count = 1;
  mlir::Value column; ///< clamped to the columns that exist
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TABLES_TABLEPOINT_H

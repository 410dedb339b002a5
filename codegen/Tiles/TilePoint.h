//===- TilePoint.h - What payloads see in a tile ----------------*- C++ -*-===//
//
// The side of kernels over tiles in the seam, as far as it is the same wherever
// a payload stands: extents, parameters, hoisted tables, scalars of a head.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TILES_TILEPOINT_H
#define SEXTANT_CODEGEN_TILES_TILEPOINT_H

#include "codegen/Payload/PayloadPoint.h"
#include "codegen/Tiles/HoistedTables.h"

namespace sextant::codegen {

class PiecewiseLinearTile;
class OffsetTile;

/// A point of one operand's rows, or of scores (operand `query`), of one head
/// of one element of the batch. Takes no gradients.
class TilePoint : public PayloadPoint {
protected:
  HeadPlace headPlace;

public:
  HoistedTables tables;

  TilePoint(KernelBuilder &kernel, ArgumentBlock &arguments,
            const KernelPlan &plan, const SiteOperands &operands,
            pos::RowOperand operand)
      : headPlace{kernel, arguments, plan, operands}, tables(headPlace),
        kernel(kernel), arguments(arguments), plan(plan), operands(operands),
        operand(operand) {}
  /// Parts keep the address of the place.
  TilePoint(const TilePoint &) = delete;

  /// Stands at a head and emits the hoisted scalars of the head.
  void enterHead(Index batch, Index head);
  /// Where hoisted values over offsets come from under given positions.
  enum class Offsets {
    Cells,  ///< scratch memory, see OffsetTile.h
    Tables, ///< the table of the value
    InPlace ///< the value is computed where the point stands
  };
  void setOffsets(Offsets source) { offsets = source; }
  /// Must outlive the point; none where no payload uses values over offsets.
  void setCells(const OffsetTile *filled) { cells = filled; }
  /// Likewise for functions of hinges.
  void setHinges(PiecewiseLinearTile *filled) { hinges = filled; }

  /// Codes of the lanes and of the row at the point: their difference is the
  /// entry of a table.
  virtual mlir::Value getLaneCodes() { return {}; }
  virtual mlir::Value getRowCode() { return {}; }

  /// The element of the batch and the head.
  std::pair<Index, Index> getPlace() const {
    return {headPlace.batch, headPlace.head};
  }

  mlir::Value head(mlir::OpBuilder &) override;
  mlir::Value batch(mlir::OpBuilder &) override;
  mlir::Value lane(mlir::OpBuilder &) override;
  mlir::Value extent(mlir::OpBuilder &, pos::Extent extent) override {
    return headPlace.getExtent(extent);
  }
  mlir::Value bound(mlir::OpBuilder &, pos::Bound bound, pos::Side side,
                    int64_t axis) override {
    return headPlace.getBound(bound, side, axis);
  }
  mlir::Value scale(mlir::OpBuilder &) override;
  mlir::Value offset(mlir::OpBuilder &, int64_t axis) override;
  mlir::FloatType getComputeType() override;
  int64_t getLanes() override { return kernel.width(); }
  mlir::Value hoisted(mlir::OpBuilder &, pos::HoistOp hoist) override;
  mlir::Value read(mlir::OpBuilder &, mlir::BlockArgument param,
                   mlir::ValueRange indices) override;
  mlir::Value hingeSum(mlir::OpBuilder &, pos::HingeSumOp op) override;
  void addToHoisted(mlir::OpBuilder &, pos::HoistOp, mlir::Value) override {}
  void addToRead(mlir::OpBuilder &, mlir::BlockArgument, mlir::ValueRange,
                 mlir::Value) override {}
  bool wantsGradient(pos::HoistOp) override { return false; }
  bool wantsGradient(mlir::BlockArgument) override { return false; }

protected:
  /// The value of a hoist that is kept in a buffer, at this point; `row` is the
  /// start of the head's part of the buffer.
  virtual mlir::Value loadHoisted(const Hoisted &hoisted, unsigned table,
                                  mlir::Value row) = 0;
  /// The place of the point in the memory of the cells.
  virtual Index getCellPlace() { return 0; }

  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const KernelPlan &plan;
  const SiteOperands &operands;
  pos::RowOperand operand;
  PiecewiseLinearTile *hinges = nullptr;

private:
  Offsets offsets = Offsets::Cells;
  const OffsetTile *cells = nullptr;
  mlir::Value batchValue, headValue;
  llvm::DenseMap<mlir::Operation *, mlir::Value> headScalars;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TILES_TILEPOINT_H

//===- ForwardPoint.h - Where the forward emits score payloads --*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CPU_FORWARD_FORWARDPOINT_H
#define SEXTANT_CODEGEN_CPU_FORWARD_FORWARDPOINT_H

#include "codegen/CPU/Forward/ForwardScans.h"
#include "codegen/Tiles/BandCell.h"
#include "codegen/Tiles/TilePoint.h"

namespace sextant::codegen {

/// Points (vector of query rows, key row): lanes are queries.
class ForwardPoint : public TilePoint {
public:
  /// Axes of query positions that are kept in scratch memory.
  static constexpr int64_t packedAxes = 4;

  ForwardPoint(KernelBuilder &kernel, ArgumentBlock &arguments,
               const KernelPlan &plan, const SiteOperands &operands,
               int64_t vectors)
      : TilePoint(kernel, arguments, plan, operands, pos::RowOperand::query),
        scans(kernel, plan), vectors(vectors) {}

  ForwardScans scans;

  /// Copies the positions of the item's queries, `count` rows from `first`, to
  /// `memory`: i32 [packedAxes][capacity]; the last row is repeated past the
  /// end.
  void packPositions(Index first, Index count, int64_t capacity,
                     mlir::Value memory);
  /// The head of the keys that the head at hand meets.
  void setKeyHead(Index head) { keyHead = head; }
  /// The first query row of the panel, and its place among the item's rows.
  void enterPanel(Index first, Index place);
  /// `vector` counts vectors within the panel; `row` is that of the key in its
  /// register tile.
  void setPoint(Index vector, Index key, Index row);

  mlir::Value index(mlir::OpBuilder &, pos::Side side) override;
  mlir::Value tensorRow(mlir::OpBuilder &, pos::Side side) override;
  mlir::Value coord(mlir::OpBuilder &, pos::Side side, int64_t axis) override;
  mlir::Value rowDot(mlir::OpBuilder &, pos::RowDotOpInterface op,
                     mlir::Value index) override;
  mlir::Value scan(mlir::OpBuilder &, pos::ScanOp op, mlir::Value value,
                   mlir::Value limit) override {
    return scans.scan(op, value, limit, vector.getConstant());
  }
  /// Where products with rows of offsets are, as plan.offsetProducts.
  void setBandCells(llvm::ArrayRef<BandCell> cells) {
    bandCells = llvm::to_vector(cells);
  }
  /// Adds `weights` to row `index` of buckets [rows][panel] at the point.
  void addToBuckets(mlir::Value buckets, int64_t panel, Index rows,
                    mlir::Value index, mlir::Value weights, mlir::Value memory);

  mlir::Value getLaneCodes() override;
  mlir::Value getRowCode() override;

protected:
  Index getCellPlace() override;
  mlir::Value loadHoisted(const Hoisted &hoisted, unsigned table,
                          mlir::Value row) override;

private:
  mlir::Value offsetDot(pos::OffsetDotOp op, mlir::Value index);
  /// The first row of the vector at hand.
  Index getFirst() {
    return kernel.add(first, kernel.mul(vector, kernel.width()));
  }
  /// The key, kept inside the tensor: tiles may reach past its end.
  Index getKey();

  Index first = 0, inItem = 0, vector = 0, key = 0, row = 0, keyHead = 0;
  int64_t vectors; ///< of a panel
  int64_t capacity = 0;
  mlir::Value packed;
  llvm::SmallVector<BandCell> bandCells;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_FORWARD_FORWARDPOINT_H

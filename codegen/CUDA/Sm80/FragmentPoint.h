//===- FragmentPoint.h - Where payloads see an element of a fragment ------===//
//
// A thread holds elements of a tile of scores at two of each 16 rows, and at
// two neighbours of each 8 columns. A payload is emitted for one element at a
// time, as for a scalar: the seam with one lane.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTPOINT_H
#define SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTPOINT_H

#include "codegen/CUDA/Sm80/TableWindows.h"
#include "codegen/Tiles/TilePoint.h"

namespace sextant::codegen {

/// Numbers of functions of hinges at elements, until they are others.
class HingeNumbers {
public:
  void set(pos::HingeSumOp op, llvm::ArrayRef<FragmentElement> elements,
           mlir::ValueRange values);
  mlir::Value find(pos::HingeSumOp op, const FragmentElement &element) const;

private:
  llvm::DenseMap<std::tuple<mlir::Operation *, int64_t, int64_t>, mlir::Value>
      numbers;
};

/// One element of a fragment of scores, as a payload sees it: its batch, head,
/// query and key, and what it reads there.
class FragmentPoint : public TilePoint {
public:
  FragmentPoint(ThreadBuilder &thread, ArgumentBlock &arguments,
                const FragmentOperands &launch, const ScoreTile &tile);

  /// Whether each team of the block has a head of its own (i1); null: none has.
  mlir::Value isPacked;
  /// The thread's first row, of its head, and its first column in a tile (i32).
  mlir::Value row, column;
  /// The first row of a warp (i32) among those that the block has of its head,
  /// where teams are warps.
  mlir::Value getFirstRow(mlir::Value warp);

  /// Stands at a head and at the rows of a block, from `first` (i32) on.
  /// `others` come with the tables of a tile.
  void enterRows(Index batch, Index head, mlir::Value first,
                 llvm::ArrayRef<ChunkPart> others = {});
  /// Stands at the tile of columns from `first` (i32) on, whose tables are at
  /// `from`.
  void enterTile(mlir::Value first, mlir::Value from);
  /// What scores read with a tile.
  TableWindows &getWindows() { return windows; }
  /// Emits a body so many columns (i32) further, in a block of a loop; elements
  /// are those of the first 8 columns there.
  void shiftColumns(mlir::Value columns, llvm::function_ref<void()> body);
  void setElement(const FragmentElement &place) {
    element = place;
    cotangents.clear();
  }
  /// The cotangent of a hoisted value, or of a function of hinges, at the
  /// element, from pullbacks there; null for none.
  mlir::Value getCotangent(mlir::Operation *op) const {
    return cotangents.lookup(op);
  }

  /// The number of the row of the element in the tensor of a side (i32), and
  /// whether there is one (i1).
  mlir::Value getNumber(pos::Side side);
  mlir::Value exists(pos::Side side);

  int64_t getLanes() override { return 1; }
  mlir::Value index(mlir::OpBuilder &, pos::Side side) override;
  mlir::Value tensorRow(mlir::OpBuilder &, pos::Side side) override;
  mlir::Value coord(mlir::OpBuilder &, pos::Side side, int64_t axis) override;
  mlir::Value hoisted(mlir::OpBuilder &, pos::HoistOp hoist) override;
  mlir::Value hingeSum(mlir::OpBuilder &, pos::HingeSumOp op) override;
  using TilePoint::wantsGradient;
  bool wantsGradient(pos::HoistOp hoist) override;
  void addToHoisted(mlir::OpBuilder &, pos::HoistOp hoist,
                    mlir::Value cotangent) override;
  mlir::Value pullHingeSum(mlir::OpBuilder &, pos::HingeSumOp op,
                           mlir::Value cotangent) override;
  bool wantsUnits(pos::HingeSumOp op) override;

  /// The values of functions of hinges at the elements for which a payload is
  /// emitted, and their slopes where one is pulled back.
  HingeNumbers hingeValues, hingeSlopes;

  /// What is known of a row of given positions (i32): a coordinate, or the code
  /// of its offsets. Of the element's.
  static constexpr int64_t code = -1;
  mlir::Value getOfRow(pos::Side side, int64_t axis);

protected:
  mlir::Value loadHoisted(const Hoisted &hoisted, unsigned table,
                          mlir::Value start) override;

private:
  mlir::Value loadOfRow(pos::Side side, int64_t axis);
  void loadOfRows(pos::Side side, int64_t count);
  void loadRowVectors();
  mlir::Value getLength(pos::Side side) const {
    return side == pos::Side::key ? keyLength : queryLength;
  }

  ThreadBuilder &thread;
  const FragmentOperands &launch;
  const ScoreTile &tile;
  TableWindows windows;
  mlir::Value queryLength, keyLength, shift; ///< i32
  mlir::Value firstRow, firstColumn;         ///< of the thread (i32)
  FragmentElement element;
  llvm::SmallDenseMap<mlir::Operation *, mlir::Value> cotangents;
  llvm::SmallVector<int64_t> axes; ///< of positions that payloads ask for
  llvm::DenseMap<std::pair<int64_t, int64_t>, mlir::Value> ofRows,
      ofColumns; ///< by axis and step
  /// Values over rows, at those of the thread.
  llvm::DenseMap<std::pair<const Hoisted *, int64_t>, mlir::Value> rowVectors;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTPOINT_H

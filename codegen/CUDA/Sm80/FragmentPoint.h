//===- FragmentPoint.h - Where payloads see an element of a fragment ------===//
//
// A thread holds elements of a tile of scores at two rows of each block of 16
// queries, and at two neighbouring keys of each 8. A payload is emitted for one
// element at a time, as for a scalar: the seam with one lane.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTPOINT_H
#define SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTPOINT_H

#include "codegen/CUDA/Sm80/TableWindows.h"
#include "codegen/Tiles/TilePoint.h"

namespace sextant::codegen {

/// The place of an element: rows and columns from the thread's first one.
struct FragmentElement {
  int64_t row = 0, column = 0;

  /// Element `number` (0 .. 3) of a product of matrices.
  static FragmentElement get(int64_t block, int64_t columns, int64_t number) {
    return {fragmentRows * block + 8 * (number / 2),
            fragmentColumns * columns + number % 2};
  }
};

class FragmentPoint : public TilePoint {
public:
  FragmentPoint(ThreadBuilder &thread, ArgumentBlock &arguments,
                const ForwardOperands &launch);

  /// The thread's first row and column in a tile (i32).
  mlir::Value row, column;

  /// Stands at a head and at the queries of a block, from `first` (i32) on.
  void enterQueries(Index batch, Index head, mlir::Value first);
  /// Begins to copy what scores of the tile at `firstKey` read, to a stage.
  void copyTables(mlir::Value firstKey, mlir::Value stage, bool isWhole) {
    windows.copy(firstKey, stage, isWhole);
  }
  /// Stands at the tile of keys from `first` (i32) on, whose stage is there.
  void enterTile(mlir::Value first, mlir::Value stage);
  void setElement(const FragmentElement &place) { element = place; }

  /// The row of the query of an element (i32), and whether there is one (i1).
  mlir::Value getQuery(int64_t rowStep);
  mlir::Value isQuery(int64_t rowStep);
  /// Likewise for keys.
  mlir::Value isKey(int64_t columnStep);

  int64_t getLanes() override { return 1; }
  mlir::Value index(mlir::OpBuilder &, pos::Side side) override;
  mlir::Value tensorRow(mlir::OpBuilder &, pos::Side side) override;
  mlir::Value coord(mlir::OpBuilder &, pos::Side side, int64_t axis) override;
  mlir::Value hoisted(mlir::OpBuilder &, pos::HoistOp hoist) override;
  mlir::Value hingeSum(mlir::OpBuilder &, pos::HingeSumOp op) override;

  /// The values of a function at some elements, until they are others.
  void setHingeValues(pos::HingeSumOp op,
                      llvm::ArrayRef<FragmentElement> elements,
                      mlir::ValueRange values);

protected:
  mlir::Value loadHoisted(const Hoisted &hoisted, unsigned table,
                          mlir::Value start) override;

private:
  /// What is known of a row of given positions: a coordinate, or the code of
  /// its offsets.
  static constexpr int64_t code = -1;
  mlir::Value loadOfRow(pos::Side side, int64_t axis, int64_t step);
  mlir::Value getOfRow(pos::Side side, int64_t axis);
  void loadOfRows(pos::Side side);
  void loadQueryVectors();

  ThreadBuilder &thread;
  const ForwardOperands &launch;
  TableWindows windows;
  mlir::Value queryLength, keyLength, shift; ///< i32
  mlir::Value firstQuery, firstKey;          ///< of the thread (i32)
  FragmentElement element;
  llvm::SmallVector<int64_t> axes; ///< of positions that payloads ask for
  llvm::DenseMap<std::pair<int64_t, int64_t>, mlir::Value> ofQueryRows,
      ofKeyRows; ///< by axis and step
  llvm::DenseMap<std::tuple<mlir::Operation *, int64_t, int64_t>, mlir::Value>
      hingeValues;
  /// Values over queries, at the rows of the thread.
  llvm::DenseMap<std::pair<const Hoisted *, int64_t>, mlir::Value> ofQueries;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTPOINT_H

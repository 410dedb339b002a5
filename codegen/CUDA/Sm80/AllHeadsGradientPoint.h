//===- AllHeadsGradientPoint.h - Gradients of a point's payload -*- C++ -*-===//
//
// What the payload of all heads at a query and a key gives the gradients of
// what it reads. Of a tile of 16 x 16 points, a thread each, gradients go, by
// what they are gradients of, to
//
//   tables over offsets:  a window of each warp, whose lanes have 4 x 8 points:
//                         behind the tile the windows' diagonals are added up
//   matrices:             cotangents and elements are kept in the rows' type,
//                         then multiplied on tensor cores
//   vectors and scalars:  memory of the thread, added up behind the last tile
//
// All sums run in one order.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_ALLHEADSGRADIENTPOINT_H
#define SEXTANT_CODEGEN_CUDA_SM80_ALLHEADSGRADIENTPOINT_H

#include "codegen/CUDA/Sm80/AllHeadsBackwardKernel.h"
#include "codegen/CUDA/Sm80/AllHeadsThreadPoint.h"
#include "codegen/CUDA/Sm80/FragmentProducts.h"

namespace sextant::codegen {

/// Where a thread emits the payload of all heads and its pullback.
class AllHeadsGradientPoint : public AllHeadsThreadPoint {
public:
  /// At the start of the function.
  AllHeadsGradientPoint(ThreadBuilder &thread, ArgumentBlock &arguments,
                        const AllHeadsBackwardOperands &launch,
                        FragmentProducts &products);

  /// The thread's query and key in a tile (i32).
  mlir::Value query, key;

  void beginHeads() override { isAmongHeads = true; }
  void endHeads() override;
  void addToHoisted(mlir::OpBuilder &, pos::HoistOp hoist,
                    mlir::Value cotangent) override;
  void addToElements(pos::HoistOp hoist, Index first,
                     mlir::ValueRange cotangents) override;
  void addToElements(pos::ElementsOp param, Index first,
                     mlir::ValueRange cotangents) override;
  void recordResult(pos::ContractOp contract, Index first,
                    mlir::ValueRange cotangents) override;
  void recordOperand(pos::ContractOp contract, Index first,
                     mlir::ValueRange elements) override;

  /// Before the first item.
  void clearShared();
  /// Before the tiles of queries of a tile of keys; gives sums of the thread
  /// that are carried from tile to tile.
  Values begin();
  /// When all threads have emitted the payload of a tile, from a query and a
  /// key on (i32): adds it to the sums of an item, in part to those carried.
  void addTile(mlir::Value firstQuery, mlir::Value firstKey, Index sum,
               llvm::MutableArrayRef<mlir::Value> carried);
  /// Behind the tiles: adds what was summed up to the sums of an item.
  void finish(Index sum, mlir::ValueRange carried);

private:
  /// 16 rows and 16 columns of a matrix; the tiles of all matrices are
  /// numbered.
  struct ProductTile {
    const AllHeadsSums::Matrix *matrix;
    int64_t row, column;
  };

  mlir::Value getShared(int64_t bytes) const {
    return thread.getShared(thread.constant(bytes));
  }
  const AllHeadsSums::Table &getTable(pos::HoistOp hoist) const;
  void addToDiagonal(Index row, mlir::Value value);
  void addToSum(mlir::Value owner, Index element, mlir::Value value);
  void keep(int64_t row, Index first, mlir::ValueRange values);
  mlir::Value pick(int64_t slot,
                   llvm::function_ref<int64_t(const ProductTile &)> get);
  void addProducts(llvm::MutableArrayRef<mlir::Value> carried);
  void addDiagonals(mlir::Value firstQuery, mlir::Value firstKey, Index sum);
  void finishProducts(Index sum, mlir::ValueRange carried);
  void finishSums(Index sum);

  ThreadBuilder &thread;
  const AllHeadsBackwardOperands &launch;
  const AllHeadsBackwardTile &tile;
  const AllHeadsSums &sums;
  FragmentProducts &products;
  mlir::Value window;      ///< address of the warp's, of the thread's entry
  mlir::Value isWriter;    ///< whether the thread writes there (i1)
  mlir::Value beginsAgain; ///< see the constructor (i1)
  mlir::Value ownSums;     ///< memory of the thread
  bool isAmongHeads = false;
  /// Cotangents of values that heads share, summed over the heads so far.
  llvm::MapVector<mlir::Operation *, mlir::Value> shared;
  llvm::SmallVector<ProductTile> tiles;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_ALLHEADSGRADIENTPOINT_H

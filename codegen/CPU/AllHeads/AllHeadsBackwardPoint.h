//===- AllHeadsBackwardPoint.h - Gradients of payloads of all heads -------===//
//
// Where the backward emits payloads of all heads: points are (query, vector of
// keys). Gradients go, by what they are gradients of, to
//
//   tables over offsets:  the block's window, a vector at a time
//   matrices:             cotangents and elements of 16 rows are kept, then
//                         multiplied as register tiles (`addProducts`)
//   vectors and scalars:  sums per lane
//
// All of these are sums in scratch memory, which are added to the sums of the
// chunk: those of tables once per block and tile, the others once per block, on
// a GPU once per tile, there in double.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_ALLHEADS_ALLHEADSBACKWARDPOINT_H
#define SEXTANT_CODEGEN_CPU_ALLHEADS_ALLHEADSBACKWARDPOINT_H

#include "codegen/CPU/AllHeads/AllHeadsScorePoint.h"
#include "codegen/CPU/Backward/BackwardItem.h"
#include "codegen/CPU/Backward/BackwardPoint.h"
#include "llvm/ADT/MapVector.h"

namespace sextant::codegen {

/// Where the backward emits a payload of all heads, and what takes its
/// gradients.
class AllHeadsBackwardPoint : public AllHeadsScorePoint<BackwardPoint> {
public:
  /// Rows of points whose cotangents and elements are kept.
  static constexpr int64_t rows = 16;

  AllHeadsBackwardPoint(BackwardItem &at, OffsetWindow &window,
                        OffsetWindow &gradientWindow)
      : AllHeadsScorePoint(*at.launch.weights, at.launch.packed, window,
                           at.scratch, at.kernel, at.arguments, at.launch),
        launch(at.launch), gradients(gradientWindow) {}

  /// The place of the point among those that are kept: lanes since the first.
  void setStep(Index lanes) { step = lanes; }

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

  /// Clears the sums.
  void clearSums();
  /// Adds the products of the points kept, `lanes` lanes of them.
  void addProducts(Index lanes);
  /// Adds the sums to those of the chunk.
  void storeSums();

private:
  void addToTable(pos::HoistOp hoist, mlir::Value lanes);

  using Places = llvm::DenseMap<mlir::Value, int64_t>;
  /// Vectors of lanes, one per element of a gradient.
  struct Sums {
    mlir::Value owner;
    int64_t elements;
  };

  int64_t getStepStride() const {
    return (rows * launch.shape.vectors + 1) * kernel.width();
  }
  mlir::Value getMemory(Places &places, mlir::Value owner, int64_t words);
  void keep(mlir::Value to, Index first, mlir::ValueRange values);
  mlir::Value getSums(mlir::Value owner);
  llvm::SmallVector<Sums> getAllSums();
  llvm::SmallVector<pos::ContractOp> getContracts();
  void addTile(mlir::Value results, mlir::Value operands, mlir::Value sums,
               int64_t columns, Index lanes, int64_t tileRows,
               int64_t tileColumns);

  const BackwardLaunch &launch;
  OffsetWindow &gradients;
  Index step = 0;
  /// Cotangents of values that heads share, summed over the heads so far.
  llvm::MapVector<mlir::Operation *, mlir::Value> shared;
  bool isAmongHeads = false;
  Places results, elements, sums;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_ALLHEADS_ALLHEADSBACKWARDPOINT_H

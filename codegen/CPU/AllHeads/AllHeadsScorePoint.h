//===- AllHeadsScorePoint.h - Payloads of scores of all heads ---*- C++ -*-===//
//
// What the points of the forward (lanes are queries) and of the backward (lanes
// are keys) add to those of scalar scores: packed weights, buffers, and the
// window of the block's offsets.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_ALLHEADS_ALLHEADSSCOREPOINT_H
#define SEXTANT_CODEGEN_CPU_ALLHEADS_ALLHEADSSCOREPOINT_H

#include "codegen/CPU/AllHeads/OffsetWindow.h"
#include "codegen/CPU/Forward/ForwardPoint.h"
#include "codegen/Tables/AllHeadsPoint.h"

namespace sextant::codegen {

/// `SiteTy` is a TilePoint of scores, whose point it moves.
template <typename SiteTy>
class AllHeadsScorePoint : public SiteTy, public AllHeadsPoint {
public:
  template <typename... Args>
  AllHeadsScorePoint(const AllHeadsWeights &weights, unsigned packed,
                     OffsetWindow &window, ScratchMemory &scratch,
                     Args &&...args)
      : SiteTy(std::forward<Args>(args)...), weights(weights), packed(packed),
        window(window), scratch(scratch) {
    this->setOffsets(TilePoint::Offsets::InPlace);
  }

  /// Where the first lane of the point is in the window.
  void setEntry(Index inWindow) { entry = inWindow; }
  /// Its place among the points that functions of hinges were computed for.
  void setCellPlace(Index place) { cellPlace = place; }

  using AllHeadsPoint::Values;
  KernelBuilder &getKernel() override { return this->kernel; }
  PayloadPoint &getScalarPoint() override { return *this; }
  void enterHead(int64_t head) override {
    TilePoint::enterHead(this->headPlace.batch, head);
  }
  using TilePoint::enterHead;
  const AllHeadsWeights &getWeights() override { return weights; }
  mlir::Value getPacked(int64_t place) override {
    return this->kernel.advance(this->arguments.getPointer(packed), {place});
  }
  mlir::Value getBuffer(mlir::Value value, int64_t elements) override {
    auto [place, isNew] = buffers.try_emplace(value, 0);
    if (isNew)
      place->second = scratch.layout.reserve(elements * this->kernel.width());
    return scratch.at(this->kernel, place->second);
  }
  Values loadElements(pos::HoistOp hoist, Index first, int64_t count) override {
    Values elements;
    for (int64_t number = 0; number < count; ++number)
      elements.push_back(loadRow(hoist, this->kernel.add(first, number)));
    return elements;
  }
  mlir::Value hoisted(mlir::OpBuilder &builder, pos::HoistOp hoist) override {
    if (!window.holds(hoist))
      return SiteTy::hoisted(builder, hoist);
    bool perHead = this->plan.find(hoist)->perHead;
    return loadRow(hoist, perHead ? this->headPlace.head : Index(0));
  }

  void addToElements(pos::HoistOp, Index, mlir::ValueRange) override {}
  void addToElements(pos::ElementsOp, Index, mlir::ValueRange) override {}
  void recordResult(pos::ContractOp, Index, mlir::ValueRange) override {}
  void recordOperand(pos::ContractOp, Index, mlir::ValueRange) override {}

protected:
  Index getCellPlace() override { return cellPlace; }
  /// A vector of lanes of one row of a table, which the window holds: under
  /// given positions there is none, and the payload has no hoisted vector.
  mlir::Value loadRow(pos::HoistOp hoist, Index row) {
    return this->kernel.loadVector(window.getEntry(hoist, row, entry));
  }

  const AllHeadsWeights &weights;
  unsigned packed;
  OffsetWindow &window;
  ScratchMemory &scratch;
  Index entry = 0, cellPlace = 0;
  llvm::DenseMap<mlir::Value, int64_t> buffers;
};

using AllHeadsForwardPoint = AllHeadsScorePoint<ForwardPoint>;

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_ALLHEADS_ALLHEADSSCOREPOINT_H

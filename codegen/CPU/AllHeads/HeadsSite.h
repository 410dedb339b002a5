//===- HeadsSite.h - Where kernels emit payloads of all heads ---*- C++ -*-===//
//
// What the sites of the forward (lanes are queries) and of the backward (lanes
// are keys) add to those of scalar scores: packed weights, buffers, and the
// window of the block's offsets.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_ALLHEADS_HEADSSITE_H
#define SEXTANT_CODEGEN_CPU_ALLHEADS_HEADSSITE_H

#include "codegen/CPU/AllHeads/HeadsWindow.h"
#include "codegen/CPU/Forward/ScoreSite.h"
#include "codegen/Tables/HeadsContext.h"

namespace sextant::codegen {

/// `SiteTy` is a KernelSite of scores, whose point it moves.
template <typename SiteTy>
class HeadsSite : public SiteTy, public HeadsContext {
public:
  template <typename... Args>
  HeadsSite(const HeadsWeights &weights, unsigned packed, HeadsWindow &window,
            ScratchLayout &layout, mlir::Value scratch, Args &&...args)
      : SiteTy(std::forward<Args>(args)...), weights(weights), packed(packed),
        window(window), layout(layout), scratch(scratch) {
    this->setOffsets(KernelSite::Offsets::InPlace);
  }

  /// Where the first lane of the point is in the window.
  void setEntry(Index inWindow) { entry = inWindow; }
  /// Its place among the points that functions of hinges were computed for.
  void setCellPlace(Index place) { cellPlace = place; }

  using HeadsContext::Values;
  KernelBuilder &getKernel() override { return this->kernel; }
  SiteContext &getSite() override { return *this; }
  int64_t getHeadCount() override { return weights.getHeads(); }
  mlir::LogicalResult enterHead(int64_t head) override {
    KernelSite::enterHead(this->headPlace.batch, head);
    return this->kernel.getStatus();
  }
  using KernelSite::enterHead;
  const HeadsWeights &getWeights() override { return weights; }
  mlir::Value getPacked(int64_t place) override {
    return this->kernel.advance(this->arguments.getPointer(packed), {place});
  }
  mlir::Value getBuffer(mlir::Value value, int64_t elements) override {
    auto [place, isNew] = buffers.try_emplace(value, 0);
    if (isNew)
      place->second = layout.reserve(elements * this->kernel.width());
    return this->kernel.advance(scratch, {place->second});
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

  const HeadsWeights &weights;
  unsigned packed;
  HeadsWindow &window;
  ScratchLayout &layout;
  mlir::Value scratch;
  Index entry = 0, cellPlace = 0;
  llvm::DenseMap<mlir::Value, int64_t> buffers;
};

using HeadsScoreSite = HeadsSite<ScoreSite>;

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_ALLHEADS_HEADSSITE_H

//===- AllHeadsThreadPoint.h - A score of all heads, of a thread *- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_ALLHEADSTHREADPOINT_H
#define SEXTANT_CODEGEN_CUDA_SM80_ALLHEADSTHREADPOINT_H

#include "codegen/CUDA/Sm80/ScorePoint.h"
#include "codegen/Tables/AllHeadsPoint.h"

namespace sextant::codegen {

/// Where a thread emits the payload of the scores of all heads at one query and
/// one key. Values over offsets are read from their tables; what a payload
/// streams lies in memory of the thread.
class AllHeadsThreadPoint : public ScorePoint, public AllHeadsPoint {
public:
  using AllHeadsPoint::Values;
  using TilePoint::enterHead;

  /// `packed`: the operand with the packed weights. At the start of the
  /// function.
  AllHeadsThreadPoint(ThreadBuilder &thread, ArgumentBlock &arguments,
                      const KernelPlan &plan, const SiteOperands &operands,
                      const AllHeadsWeights &weights, unsigned packed);

  mlir::Value coord(mlir::OpBuilder &, pos::Side side, int64_t axis) override;

  KernelBuilder &getKernel() override { return kernel; }
  PayloadPoint &getScalarPoint() override { return *this; }
  void enterHead(int64_t head) override;
  const AllHeadsWeights &getWeights() override { return weights; }
  mlir::Value getPacked(int64_t place) override;
  mlir::Value getBuffer(mlir::Value value, int64_t elements) override;
  Values loadElements(pos::HoistOp hoist, Index first, int64_t count) override;

  // A forward has no gradients.
  void addToElements(pos::HoistOp, Index, mlir::ValueRange) override {}
  void addToElements(pos::ElementsOp, Index, mlir::ValueRange) override {}
  void recordResult(pos::ContractOp, Index, mlir::ValueRange) override {}
  void recordOperand(pos::ContractOp, Index, mlir::ValueRange) override {}

protected:
  mlir::Value loadHoisted(const Hoisted &hoisted, unsigned table,
                          mlir::Value row) override;

private:
  Index getEntry();

  const AllHeadsWeights &weights;
  unsigned packed;
  mlir::Block &start; ///< of the function
  llvm::DenseMap<mlir::Value, mlir::Value> buffers;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_ALLHEADSTHREADPOINT_H

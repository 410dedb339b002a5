//===- ScorePoint.h - One score of a thread ---------------------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_SCOREPOINT_H
#define SEXTANT_CODEGEN_CUDA_SM80_SCOREPOINT_H

#include "codegen/CUDA/Sm80/ThreadBuilder.h"
#include "codegen/Tiles/TilePoint.h"

namespace sextant::codegen {

/// A score at any query and key of a head, where a value over offsets of given
/// positions is computed and pulled back. Rows past the end are the last one.
class ScorePoint : public TilePoint {
public:
  /// Takes the cotangent of what is read of a parameter.
  using ParamSums = llvm::function_ref<void(
      mlir::BlockArgument param, mlir::ValueRange indices, mlir::Value)>;

  using TilePoint::headPlace;

  ScorePoint(ThreadBuilder &thread, ArgumentBlock &arguments,
             const KernelPlan &plan, const SiteOperands &operands);

  /// By number in the tensors (i32).
  void standAt(mlir::Value query, mlir::Value key);
  /// The pullback of a value over offsets. Those of values that it uses come
  /// with it.
  llvm::SmallVector<std::pair<const Hoisted *, mlir::Value>>
  pullBack(const Hoisted &hoisted, mlir::Value cotangent, ParamSums sums);

  int64_t getLanes() override { return 1; }
  mlir::Value index(mlir::OpBuilder &, pos::Side side) override;
  mlir::Value tensorRow(mlir::OpBuilder &, pos::Side side) override;
  mlir::Value coord(mlir::OpBuilder &, pos::Side side, int64_t axis) override;
  bool wantsGradient(pos::HoistOp hoist) override;
  bool wantsGradient(mlir::BlockArgument param) override;
  void addToHoisted(mlir::OpBuilder &, pos::HoistOp hoist,
                    mlir::Value cotangent) override;
  void addToRead(mlir::OpBuilder &, mlir::BlockArgument param,
                 mlir::ValueRange indices, mlir::Value cotangent) override;

protected:
  mlir::Value loadHoisted(const Hoisted &, unsigned, mlir::Value) override;

private:
  ThreadBuilder &thread;
  mlir::Value queryLength, keyLength, shift; ///< i32
  mlir::Value query, key;                    ///< where the point stands (i32)
  std::optional<ParamSums> paramSums;
  llvm::SmallVector<std::pair<const Hoisted *, mlir::Value>> cotangents;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_SCOREPOINT_H

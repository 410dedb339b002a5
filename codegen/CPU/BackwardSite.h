//===- BackwardSite.h - Where the backward emits score payloads ---*- C++
//-*-===//
//
// The backward's side of the seam: lanes are keys, rows are unrolled. Gradients
// that a payload gives are collected per point; the kernel decides where they
// go.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_BACKWARDSITE_H
#define SEXTANT_CODEGEN_CPU_BACKWARDSITE_H

#include "codegen/CPU/BackwardTask.h"
#include "codegen/KernelFunction.h"
#include "codegen/SiteContext.h"

namespace sextant::codegen {

/// Points (query row, vector of keys) of one query head. Rows are rows of the
/// tensors; those past the end are clamped where memory would be left.
class BackwardSite : public SiteContext {
public:
  struct HoistGradient {
    pos::HoistOp hoist;
    mlir::Value cotangent;
  };

  BackwardSite(KernelBuilder &kernel, ArgumentBlock &arguments,
               const BackwardTask &task);

  /// The chunk whose partial sums take the gradients of direct reads.
  void enterChunk(Index chunk);
  /// Stands at a head, at no row: scalars of the head are emitted here.
  mlir::LogicalResult enterHead(Index batch, Index kvHead, Index head);
  /// The first query and the first key of the points to come.
  void enterCell(Index firstQuery, Index firstKey);
  void setPoint(int64_t row, int64_t vector);

  Index getBatch() const { return batchIndex; }
  Index getHead() const { return headIndex; }
  Index getFirstQuery() const { return firstQuery; }
  Index getFirstKey() const { return firstKey; }
  /// Gradients of hoisted values at the last point, one per hoist.
  llvm::SmallVector<HoistGradient> hoistGradients;

  mlir::Value index(mlir::OpBuilder &, pos::Side side) override;
  mlir::Value coord(mlir::OpBuilder &, pos::Side side, int64_t axis) override;
  mlir::Value offset(mlir::OpBuilder &, int64_t axis) override;
  mlir::Value head(mlir::OpBuilder &) override;
  mlir::Value batch(mlir::OpBuilder &) override;
  mlir::Value lane(mlir::OpBuilder &) override;
  mlir::Value extent(mlir::OpBuilder &, pos::Extent extent) override;
  mlir::Value scale(mlir::OpBuilder &) override;
  mlir::FloatType getComputeType() override;
  int64_t getLanes() override { return kernel.width(); }
  mlir::Value hoisted(mlir::OpBuilder &, pos::HoistOp hoist) override;
  mlir::Value read(mlir::OpBuilder &, mlir::BlockArgument param,
                   mlir::ValueRange indices) override;
  void addToHoisted(mlir::OpBuilder &, pos::HoistOp hoist,
                    mlir::Value cotangent) override;
  void addToRead(mlir::OpBuilder &, mlir::BlockArgument param,
                 mlir::ValueRange indices, mlir::Value cotangent) override;
  bool wantsGradient(pos::HoistOp hoist) override;
  bool wantsGradient(mlir::BlockArgument param) override;

private:
  Index queryRow() const { return kernel.add(firstQuery, row); }
  Index keyRow() const { return kernel.add(firstKey, vector * kernel.width()); }
  mlir::Value wrap(unsigned operand, unsigned dim, mlir::Value index);
  mlir::Value loadTable(const Hoisted &hoisted, unsigned operand);

  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const BackwardTask &task;
  Index chunk = 0, batchIndex = 0, kvHead = 0, headIndex = 0;
  Index firstQuery = 0, firstKey = 0;
  int64_t row = 0, vector = 0;
  mlir::Value batchValue;
  llvm::DenseMap<mlir::Operation *, mlir::Value> headScalars;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_BACKWARDSITE_H

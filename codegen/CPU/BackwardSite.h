//===- BackwardSite.h - Where the backward emits score payloads -*- C++ -*-===//
//
// The backward's side of the seam: lanes are keys, rows are unrolled. Gradients
// that a payload gives are collected per point; the kernel decides where they
// go.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_BACKWARDSITE_H
#define SEXTANT_CODEGEN_CPU_BACKWARDSITE_H

#include "codegen/CPU/BackwardTask.h"

namespace sextant::codegen {

/// The cotangent of a hoisted value at a point.
struct HoistCotangent {
  pos::HoistOp hoist;
  mlir::Value value;
};

/// Points (query row, vector of keys) of one query head. Rows are rows of the
/// tensors; those past the end are clamped where memory would be left.
class BackwardSite : public KernelSite {
public:
  BackwardSite(KernelBuilder &kernel, ArgumentBlock &arguments,
               const BackwardTask &task)
      : KernelSite(kernel, arguments, task.plan, task.sites,
                   pos::RowOperand::query),
        task(task) {}

  /// Whose partial sums take the gradients of direct reads.
  void enterItem(Index chunk, Index kvHead) {
    this->chunk = chunk;
    this->kvHead = kvHead;
  }
  /// The first query and the first key of the points to come.
  void enterCell(Index firstQuery, Index firstKey) {
    this->firstQuery = firstQuery;
    this->firstKey = firstKey;
  }
  void setPoint(Index row, Index vector) {
    this->row = row;
    this->vector = vector;
    cotangents.clear();
  }

  Index getChunk() const { return chunk; }
  Index getBatch() const { return batchIndex; }
  Index getHead() const { return headIndex; }
  Index getQuery() { return kernel.add(firstQuery, row); }
  Index getKey() {
    return kernel.add(firstKey, kernel.mul(vector, kernel.width()));
  }
  /// Gradients of hoisted values at the last point, one per hoist.
  llvm::ArrayRef<HoistCotangent> getCotangents() const { return cotangents; }

  mlir::Value index(mlir::OpBuilder &, pos::Side side) override;
  mlir::Value coord(mlir::OpBuilder &, pos::Side side, int64_t axis) override;
  void addToHoisted(mlir::OpBuilder &, pos::HoistOp hoist,
                    mlir::Value cotangent) override;
  void addToRead(mlir::OpBuilder &, mlir::BlockArgument param,
                 mlir::ValueRange indices, mlir::Value cotangent) override;
  bool wantsGradient(pos::HoistOp hoist) override;
  bool wantsGradient(mlir::BlockArgument param) override;

protected:
  Index getCellPlace() override;
  mlir::Value loadHoisted(const Hoisted &hoisted, unsigned table,
                          mlir::Value row) override;

private:
  const BackwardTask &task;
  Index chunk = 0, kvHead = 0;
  Index firstQuery = 0, firstKey = 0, row = 0, vector = 0;
  llvm::SmallVector<HoistCotangent> cotangents;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_BACKWARDSITE_H

//===- OffsetPoint.h - Payloads at one entry of rows of offsets -*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_ROWS_OFFSETPOINT_H
#define SEXTANT_CODEGEN_ROWS_OFFSETPOINT_H

#include "codegen/Rows/OffsetProducts.h"
#include "codegen/Tables/HeadPoint.h"
#include "llvm/ADT/SetVector.h"

namespace sextant::codegen {

/// A value of the score payload at one offset; lanes are columns of the table.
/// Angles of any length are exact in f64.
class OffsetPoint : public HeadPoint {
public:
  using HeadPoint::HeadPoint;

  /// Of the products of a side. Beyond the offsets that there are, the nearest.
  void moveToEntry(const OffsetShape &shape, Index entry, pos::Side side);
  /// Appends the ops of the score payload that a value is made of, operands
  /// first.
  void collect(mlir::Value value,
               llvm::SetVector<mlir::Operation *> &ops) const;

  int64_t getLanes() override { return kernel.width(); }
  mlir::Value offset(mlir::OpBuilder &, int64_t) override {
    return offsetValue;
  }

private:
  mlir::Value offsetValue;
};

/// What the launches of a product are called.
std::string getOffsetSuffix(llvm::StringRef what, size_t number);

/// Whether a block of entries is seen: `seen` is a number of the kernel.
mlir::Value isBlockSeen(KernelBuilder &kernel, ArgumentBlock &arguments,
                        unsigned seen, Index number);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_OFFSETPOINT_H

//===- RowParts.h - Rows made of several tensors ----------------*- C++ -*-===//
//
// Operands that take part in the same product stand side by side in one row:
// several values share their probabilities, so they are one wide value.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TILES_ROWPARTS_H
#define SEXTANT_CODEGEN_TILES_ROWPARTS_H

#include "codegen/Emit/KernelBuilder.h"
#include "llvm/Support/MathExtras.h"

namespace sextant::codegen {

/// One tensor's lanes [first, first + dim) of a row.
struct RowPart {
  int64_t dim = 0, first = 0;
};

/// The parts of a row, in order. Each begins at a whole vector, so that a copy
/// that pads its last vector with zeros leaves the others alone.
class RowParts {
public:
  RowParts(llvm::ArrayRef<int64_t> dims, const VectorTarget &target, bool pairs)
      : RowParts(dims, pairs ? 2 * target.width : target.width) {}
  /// Of vectors of so many lanes.
  RowParts(llvm::ArrayRef<int64_t> dims, int64_t lanes) {
    for (int64_t dim : dims)
      parts.push_back(
          {dim, static_cast<int64_t>(llvm::alignTo(getDim(), lanes))});
  }

  /// Lanes of the row, those between parts included.
  int64_t getDim() const {
    return parts.empty() ? 0 : parts.back().first + parts.back().dim;
  }
  llvm::ArrayRef<RowPart> get() const { return parts; }
  bool isSingle() const { return parts.size() == 1; }

private:
  llvm::SmallVector<RowPart> parts;
};

/// Head dims of operands [B, H, L, d].
inline llvm::SmallVector<int64_t> getHeadDims(mlir::ValueRange operands) {
  llvm::SmallVector<int64_t> dims;
  for (mlir::Value operand : operands)
    dims.push_back(
        mlir::cast<mlir::RankedTensorType>(operand.getType()).getDimSize(3));
  return dims;
}

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TILES_ROWPARTS_H

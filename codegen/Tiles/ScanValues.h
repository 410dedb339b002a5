//===- ScanValues.h - What a running sum adds and gives ---------*- C++ -*-===//
//
// scan = min(sum of the values of visible keys so far, limit)
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TILES_SCANVALUES_H
#define SEXTANT_CODEGEN_TILES_SCANVALUES_H

#include "codegen/Emit/KernelBuilder.h"
#include "dialects/Pos/IR/Pos.h"
#include "mlir/IR/Matchers.h"

namespace sextant::codegen {

/// The limit of a scan where it is a constant.
inline std::optional<double> getLimit(pos::ScanOp op) {
  mlir::FloatAttr limit;
  if (!mlir::matchPattern(op.getLimit(), mlir::m_Constant(&limit)))
    return std::nullopt;
  return limit.getValueAsDouble();
}

/// The value in the lanes that see their key, 0 in others; null: all see it.
inline mlir::Value countVisible(KernelBuilder &kernel, mlir::Value value,
                                mlir::Value visible) {
  value = kernel.broadcast(value);
  return visible ? kernel.selectF(visible, value, kernel.splatF32(0.0)) : value;
}

/// What a sum gives; NaN stays NaN.
inline mlir::Value clampSum(KernelBuilder &kernel, mlir::Value sum,
                            mlir::Value limit) {
  mlir::Value most = kernel.broadcast(limit);
  mlir::Value isBelow =
      kernel.compareF(mlir::arith::CmpFPredicate::ULT, sum, most);
  return kernel.selectF(isBelow, sum, most);
}

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TILES_SCANVALUES_H

//===- Sizes.h - Arithmetic on extents, outside of kernels ------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_EMIT_SIZES_H
#define SEXTANT_CODEGEN_EMIT_SIZES_H

#include "codegen/Emit/Lowering.h"

namespace sextant::codegen {

/// Arithmetic on values of type index where an op is lowered.
struct Sizes {
  const Lowering &lowering;

  mlir::Value constant(int64_t value) const {
    return mlir::arith::ConstantIndexOp::create(lowering.builder,
                                                lowering.getLoc(), value);
  }
  template <typename OpTy>
  mlir::Value create(mlir::Value a, mlir::Value b) const {
    return OpTy::create(lowering.builder, lowering.getLoc(), a, b);
  }
  mlir::Value mul(mlir::Value a, mlir::Value b) const {
    return create<mlir::arith::MulIOp>(a, b);
  }
  mlir::Value ceilDiv(mlir::Value a, mlir::Value b) const {
    return create<mlir::arith::CeilDivSIOp>(a, b);
  }
  mlir::Value min(mlir::Value a, mlir::Value b) const {
    return create<mlir::arith::MinSIOp>(a, b);
  }
  mlir::Value max(mlir::Value a, mlir::Value b) const {
    return create<mlir::arith::MaxSIOp>(a, b);
  }
  mlir::Value roundUp(mlir::Value a, int64_t multiple) const {
    mlir::Value unit = constant(multiple);
    return mul(ceilDiv(a, unit), unit);
  }
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_EMIT_SIZES_H

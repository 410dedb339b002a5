//===- HeadPoint.h - Payloads of a head, outside of scores ------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_TABLES_HEADPOINT_H
#define SEXTANT_CODEGEN_TABLES_HEADPOINT_H

#include "codegen/Payload/Payload.h"
#include "codegen/Tables/ArgumentPoint.h"

namespace sextant::codegen {

/// A head of a batch element, in f64. There is neither row nor lane nor offset,
/// where a subclass does not say more; hoisted values are computed in place and
/// take no gradient.
class HeadPoint : public ArgumentPoint {
public:
  HeadPoint(KernelBuilder &kernel, ArgumentBlock &arguments,
            const PointLayout &layout, const KernelPlan &plan)
      : ArgumentPoint(kernel, arguments, layout, plan,
                      kernel.builder.getF64Type()) {}

  void moveTo(Index batch, Index head) {
    setBatch(kernel.toI32(batch));
    setHead(kernel.toI32(head));
  }

  mlir::Value index(mlir::OpBuilder &, pos::Side) override { return {}; }
  mlir::Value tensorRow(mlir::OpBuilder &, pos::Side) override { return {}; }
  mlir::Value coord(mlir::OpBuilder &, pos::Side, int64_t) override {
    return {};
  }
  mlir::Value offset(mlir::OpBuilder &, int64_t) override { return {}; }
  mlir::Value lane(mlir::OpBuilder &) override { return {}; }
  mlir::Value hoisted(mlir::OpBuilder &builder, pos::HoistOp hoist) override {
    mlir::FailureOr<mlir::Value> value = emitHoist(builder, hoist, *this);
    return mlir::succeeded(value) ? *value : mlir::Value();
  }
  void addToHoisted(mlir::OpBuilder &, pos::HoistOp, mlir::Value) override {}
  bool wantsGradient(pos::HoistOp) override { return false; }
  using ArgumentPoint::wantsGradient;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TABLES_HEADPOINT_H

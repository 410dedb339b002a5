//===- RuleEmitter.h - Short forms for writing derivative rules -*- C++ -*-===//
//
// A rule is a function of a RuleEmitter, which carries the forward values and
// the cotangent and writes arithmetic of their type. `RuleModel` makes an
// external model of such a function.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_DIALECTS_INTERFACES_RULEEMITTER_H
#define SEXTANT_DIALECTS_INTERFACES_RULEEMITTER_H

#include "dialects/Interfaces/DerivativeRules.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"

namespace sextant {

/// What a derivative rule is written with: the operands and the result of an
/// op, the cotangent of the result, and arithmetic on them.
class RuleEmitter {
public:
  RuleEmitter(mlir::OpBuilder &builder, mlir::Location loc,
              mlir::ValueRange operands, mlir::Value result,
              mlir::Value cotangent)
      : builder(builder), loc(loc), operands(operands), result(result),
        ct(cotangent) {}

  mlir::OpBuilder &builder;
  mlir::Location loc;
  mlir::ValueRange operands;
  mlir::Value result;
  mlir::Value ct;

  mlir::Value in(unsigned i) const { return operands[i]; }

  /// A splat of the result's type.
  mlir::Value constant(double value) {
    mlir::Type type = result.getType();
    mlir::FloatAttr element =
        builder.getFloatAttr(mlir::getElementTypeOrSelf(type), value);
    if (auto shaped = llvm::dyn_cast<mlir::ShapedType>(type))
      return mlir::arith::ConstantOp::create(
          builder, loc, mlir::DenseElementsAttr::get(shaped, element));
    return mlir::arith::ConstantOp::create(builder, loc, element);
  }

  mlir::Value add(mlir::Value a, mlir::Value b) {
    return mlir::arith::AddFOp::create(builder, loc, a, b);
  }
  mlir::Value sub(mlir::Value a, mlir::Value b) {
    return mlir::arith::SubFOp::create(builder, loc, a, b);
  }
  mlir::Value mul(mlir::Value a, mlir::Value b) {
    return mlir::arith::MulFOp::create(builder, loc, a, b);
  }
  mlir::Value div(mlir::Value a, mlir::Value b) {
    return mlir::arith::DivFOp::create(builder, loc, a, b);
  }
  mlir::Value neg(mlir::Value a) {
    return mlir::arith::NegFOp::create(builder, loc, a);
  }
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b) {
    return mlir::arith::SelectOp::create(builder, loc, condition, a, b);
  }
  mlir::Value less(mlir::Value a, mlir::Value b) {
    return compare(mlir::arith::CmpFPredicate::OLT, a, b);
  }
  mlir::Value equal(mlir::Value a, mlir::Value b) {
    return compare(mlir::arith::CmpFPredicate::OEQ, a, b);
  }
  mlir::Value compare(mlir::arith::CmpFPredicate predicate, mlir::Value a,
                      mlir::Value b) {
    return mlir::arith::CmpFOp::create(builder, loc, predicate, a, b);
  }

  /// `value` where the condition holds, 0 elsewhere.
  mlir::Value where(mlir::Value condition, mlir::Value value) {
    return select(condition, value, constant(0.0));
  }
  /// ct / divisor where the condition holds, 0 elsewhere, without a division
  /// by what the divisor is elsewhere.
  mlir::Value quotientWhere(mlir::Value condition, mlir::Value dividend,
                            mlir::Value divisor) {
    mlir::Value safe = select(condition, divisor, constant(1.0));
    return where(condition, div(dividend, safe));
  }
};

using Rule = llvm::SmallVector<mlir::Value> (*)(RuleEmitter &);

/// Makes a rule an external model of an op.
template <typename OpTy, Rule rule>
struct RuleModel
    : DerivativeRuleInterface::ExternalModel<RuleModel<OpTy, rule>, OpTy> {
  llvm::SmallVector<mlir::Value> pullBack(mlir::Operation *op,
                                          mlir::OpBuilder &builder,
                                          mlir::ValueRange operands,
                                          mlir::Value result,
                                          mlir::Value cotangent) const {
    RuleEmitter emitter(builder, op->getLoc(), operands, result, cotangent);
    return rule(emitter);
  }
};

template <typename OpTy, Rule rule>
void attachRule(mlir::MLIRContext *context) {
  OpTy::template attachInterface<RuleModel<OpTy, rule>>(*context);
}

} // namespace sextant

#endif // SEXTANT_DIALECTS_INTERFACES_RULEEMITTER_H

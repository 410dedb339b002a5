//===- Nn.h - The nn dialect ------------------------------------*- C++ -*-===//
//
// The nn dialect holds the ops of a model around attention. Nn.td includes
// their definitions, one file per topic.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_DIALECTS_NN_IR_NN_H
#define SEXTANT_DIALECTS_NN_IR_NN_H

#include "dialects/Interfaces/DifferentiableOpInterface.h"
#include "dialects/Interfaces/ProductOpInterface.h"
#include "dialects/Nn/IR/AtenArguments.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace sextant::nn {

/// No gradient passes through the op.
template <typename ConcreteType>
class StopsGradients
    : public mlir::OpTrait::TraitBase<ConcreteType, StopsGradients> {};

/// One pass over the operands makes the results: little beside a product.
template <typename ConcreteType>
class CheapToRepeat
    : public mlir::OpTrait::TraitBase<ConcreteType, CheapToRepeat> {};

/// Each element takes a polynomial, or several: some ten times as long as a
/// sum.
template <typename ConcreteType>
class EvaluatesFunction
    : public mlir::OpTrait::TraitBase<ConcreteType, EvaluatesFunction> {};

/// Elements are moved, or become functions of themselves: as well of a narrow
/// type as of f32.
template <typename ConcreteType>
class FollowsElements
    : public mlir::OpTrait::TraitBase<ConcreteType, FollowsElements> {};

} // namespace sextant::nn

#include "dialects/Nn/IR/NnDialect.h.inc"
#include "dialects/Nn/IR/NnEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Nn/IR/NnAttrs.h.inc"

#include "dialects/Nn/IR/NnInterfaces.h.inc"

#define GET_OP_CLASSES
#include "dialects/Nn/IR/NnOps.h.inc"

namespace sextant::nn {

/// Names of attributes of functions and of their arguments.
inline constexpr llvm::StringLiteral kParameterAttr = "nn.parameter";
inline constexpr llvm::StringLiteral kRandomAttr = "nn.random";
inline constexpr llvm::StringLiteral kGradientsAttr = "nn.gradients";
inline constexpr llvm::StringLiteral kProductsAttr = "nn.products";
inline constexpr llvm::StringLiteral kOptimizerAttr = "nn.optimizer";
inline constexpr llvm::StringLiteral kFirstMomentAttr = "nn.first_moment";
inline constexpr llvm::StringLiteral kSecondMomentAttr = "nn.second_moment";
inline constexpr llvm::StringLiteral kGradientAttr = "nn.gradient";
inline constexpr llvm::StringLiteral kNormAttr = "nn.gradient_norm";
inline constexpr llvm::StringLiteral kRateAttr = "nn.learning_rate";
inline constexpr llvm::StringLiteral kStepAttr = "nn.step";

} // namespace sextant::nn

#endif // SEXTANT_DIALECTS_NN_IR_NN_H

//===- DerivativeRules.h - Derivatives of arith and math ops ----*- C++ -*-===//
//
// Ops of arith and math belong to upstream dialects, so their derivative rules
// are external models that a registry attaches when the dialect is loaded.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_DIALECTS_INTERFACES_DERIVATIVERULES_H
#define SEXTANT_DIALECTS_INTERFACES_DERIVATIVERULES_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

#include "dialects/Interfaces/DerivativeRuleInterface.h.inc"

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace sextant {

/// Attach rules to the ops of a dialect once it is loaded.
void registerArithDerivatives(mlir::DialectRegistry &registry);
void registerMathDerivatives(mlir::DialectRegistry &registry);

inline void registerDerivativeRules(mlir::DialectRegistry &registry) {
  registerArithDerivatives(registry);
  registerMathDerivatives(registry);
}

} // namespace sextant

#endif // SEXTANT_DIALECTS_INTERFACES_DERIVATIVERULES_H

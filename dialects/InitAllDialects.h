//===- InitAllDialects.h - Every dialect of a Sextant program ---*- C++ -*-===//
//
// Tools register all dialects with one call: those of upstream, with derivative
// rules for arith and math, and those of Sextant.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_DIALECTS_INITALLDIALECTS_H
#define SEXTANT_DIALECTS_INITALLDIALECTS_H

#include "dialects/Exec/IR/Exec.h"
#include "dialects/Interfaces/DerivativeRules.h"
#include "dialects/Nn/IR/Nn.h"
#include "dialects/Pos/IR/Pos.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"

namespace sextant {

inline void registerAllDialects(mlir::DialectRegistry &registry) {
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  registerDerivativeRules(registry);
  registry.insert<exec::ExecDialect, nn::NnDialect, pos::PosDialect>();
}

} // namespace sextant

#endif // SEXTANT_DIALECTS_INITALLDIALECTS_H

//===- Spelling.h - Arithmetic of definitions as text ---------*- C++ -*-===//
//
// Sizes and initial values are values of a definition; messages and
// descriptions show them as text, in the notation that people use.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_FRONTEND_BINDINGS_SPELLING_H
#define SEXTANT_FRONTEND_BINDINGS_SPELLING_H

#include "mlir/IR/Value.h"
#include <string>

namespace sextant::bindings {

/// A number on options and extents in the notation of Python: "2 * reach + 1",
/// "-1 / sqrt(hidden)". Where an option chooses, what it may be: "heads or 1".
/// Conversions between integers and numbers are left out, and "..." stands for
/// what has no short form.
std::string spell(mlir::Value value);

} // namespace sextant::bindings

#endif // SEXTANT_FRONTEND_BINDINGS_SPELLING_H

//===- InputCheck.h - Whether inputs fit a function -------------*- C++ -*-===//

#ifndef SEXTANT_RUNTIME_INPUTCHECK_H
#define SEXTANT_RUNTIME_INPUTCHECK_H

#include "runtime/ArtifactReader.h"
#include "runtime/Tensor.h"

namespace sextant::runtime {

/// Whether the inputs fit the function: number, dtype, rank, static sizes, and
/// equal sizes where dimensions have one name. Errors name the argument.
Status checkInputs(const Function &function, std::span<const Tensor> inputs);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_INPUTCHECK_H

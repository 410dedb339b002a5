//===- Executor.h - Runs a function of a program ----------------*- C++ -*-===//
//
// The executor is the third step (parse, initialise, execute): it checks the
// inputs of a call and goes through the instructions of a function.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_EXECUTOR_H
#define SEXTANT_RUNTIME_EXECUTOR_H

#include "runtime/Program.h"
#include "runtime/Trace.h"

namespace sextant::runtime {

/// Checks the inputs and runs the instructions of function `number`. The third
/// step (parse, initialise, execute).
Result<std::vector<Tensor>> execute(const Program &program, size_t number,
                                    std::span<const Tensor> inputs,
                                    Trace &trace);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_EXECUTOR_H

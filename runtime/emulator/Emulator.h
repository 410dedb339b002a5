//===- Emulator.h - Runs kernels for a GPU on the host ----------*- C++ -*-===//
//
// What stands between programs and emulated blocks: it gives loaded code what
// it calls, and runs the work items of a launch. The first error of a block is
// one of the launch.
//
// SEXTANT_CHECK asks for checks: `races` for accesses that nothing orders, of
// threads and of work items, `memory` for those outside of all operands and for
// loads of what nobody has stored, `banks` for loads of matrices whose rows
// share banks of shared memory, for which a GPU waits. SEXTANT_SCHEDULE is a
// number that draws the order of threads: the same number, the same order.
// SEXTANT_ROUNDING is one that draws the errors of approximate instructions
// (Approximation.h).
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_EMULATOR_EMULATOR_H
#define SEXTANT_RUNTIME_EMULATOR_EMULATOR_H

#include "runtime/SharedObject.h"
#include "runtime/emulator/WarpCalls.h"

namespace sextant::runtime::emulator {

const WarpCalls &getWarpCalls();

/// Gives a loaded shared object what it calls; false if it calls nothing.
bool bind(const SharedObject &object);

/// Whether what kernels access of tensors is checked.
bool checksTensors();

/// What went wrong in a block since this was asked last, by its message.
Status takeFailure();

} // namespace sextant::runtime::emulator

#endif // SEXTANT_RUNTIME_EMULATOR_EMULATOR_H

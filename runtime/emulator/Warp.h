//===- Warp.h - Threads of a warp, run as fibers ----------------*- C++ -*-===//
//
// Code for warps of a GPU, tested without one: the threads of a warp are
// fibers, which run until they meet at an instruction of the whole warp. Which
// one runs next is drawn, so that what depends on an order that a GPU does not
// promise shows. Threads that meet at different instructions, or of which some
// have ended, are an error of the launch.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_EMULATOR_WARP_H
#define SEXTANT_RUNTIME_EMULATOR_WARP_H

#include "runtime/SharedObject.h"
#include "runtime/emulator/WarpCalls.h"

namespace sextant::runtime::emulator {

inline constexpr int warpThreads = 32;

const WarpCalls &getWarpCalls();

/// Gives a loaded shared object what it calls; false if it calls nothing.
bool bind(const SharedObject &object);

/// What went wrong in a warp since this was asked last, by its message.
Status takeFailure();

/// Draws orders of threads anew from here on: the same seed, the same orders.
void setSeed(uint64_t seed);

} // namespace sextant::runtime::emulator

#endif // SEXTANT_RUNTIME_EMULATOR_WARP_H

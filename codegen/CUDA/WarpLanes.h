//===- WarpLanes.h - From lanes of a vector to threads of a warp *- C++ -*-===//
//
// Kernels are written for vectors of a target's width. With 32 lanes a vector
// is a warp of a GPU: each thread takes one lane, and what was one instruction
// on a vector is one instruction that 32 threads run.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_WARPLANES_H
#define SEXTANT_CODEGEN_CUDA_WARPLANES_H

#include "llvm/IR/Function.h"
#include "llvm/Support/Error.h"

namespace sextant::codegen {

/// Makes a function on vectors of at most 32 lanes the function of one thread
/// of a warp. Threads see each other's stores, so that no argument is without
/// aliases any more.
///
///   load, store         at the address of the thread's lane
///   elementwise         on the thread's scalar
///   extract, shuffle    a shuffle of the warp, by a table of lanes
///   condition as bits   a ballot
///   masked access       a branch
///   scalar store        by one thread
///
/// Every store stands between two barriers of the warp; of two barriers with no
/// access to memory between them there is one. An instruction that has
/// no such form is an error, which names it.
llvm::Error distributeLanes(llvm::Function &function);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_WARPLANES_H

//===- RandomMask.h - Elements kept at random -------------------*- C++ -*-===//
//
// What the runtime draws on the host (runtime/torch/RandomOperators.cpp) a
// kernel draws on a device, with the same bits: element i takes word i mod 4 of
// the block i / 4 of Philox4x32-10, with the seed as key and the counter (i /
// 4, step, place). The three numbers are in the device's memory, where no host
// looks.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_ROWS_RANDOMMASK_H
#define SEXTANT_CODEGEN_ROWS_RANDOMMASK_H

#include "codegen/Emit/Lowering.h"

namespace sextant::codegen {

/// What a mask is drawn of: tensors of one i64 each.
struct Generator {
  mlir::Value seed, step, place;
};

/// A new tensor of the shape and type of `like`, whose elements are 1 with the
/// given probability, else 0. The lowering has no plan.
mlir::Value launchRandomMask(const Lowering &lowering, mlir::Value like,
                             const Generator &generator, double probability);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_RANDOMMASK_H

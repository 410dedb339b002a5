//===- PayloadMath.h - Functions of payloads by instructions ----*- C++ -*-===//
//
// Payloads of scores take functions that a GPU has an instruction for by that,
// multiply where they divide by a constant, and once where they multiply by
// several.
//
// Of a score the instructions are off by no more than what one rounding of its
// operands moves. What f32 knows, such as a trained value at a position, keeps
// the functions that it has elsewhere, but for a tanh, which is off by 2^-19 of
// itself at most: most of it stands in tables anyway. So is one of a score
// where rows are f16, since the instruction's is off by 2^-11.
//
// 1 - t^2, a factor of gradients of t = tanh x, is near 0 where t is near 1.
// There an error of t is many times that of the gradient, so it is computed by
// itself, of any x:
//
//   1 - tanh(x)^2 = e (1 + |tanh x|)^2,    e = 2^(-2 |x| log2(e)).
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_PAYLOADMATH_H
#define SEXTANT_CODEGEN_CUDA_SM80_PAYLOADMATH_H

#include "codegen/CUDA/Sm80/ThreadBuilder.h"

namespace sextant::codegen {

/// What has been computed with a score, or with its gradient, up to here may be
/// off as much as one rounding of that.
void allowErrorsOf(mlir::Value number);

/// In the function that the builder is in.
void usePayloadInstructions(ThreadBuilder &thread);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_PAYLOADMATH_H

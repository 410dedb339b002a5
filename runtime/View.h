//===- View.h - Another shape of the same memory ----------------*- C++ -*-===//
//
// A view gives memory another shape: dimensions are permuted, joined and split,
// and no element moves.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_VIEW_H
#define SEXTANT_RUNTIME_VIEW_H

#include "runtime/Result.h"
#include "runtime/Tensor.h"

namespace sextant::runtime {

/// Permutes the dimensions of `source` (an empty permutation keeps them), then
/// joins and splits them to `sizes` without moving an element. An error if the
/// number of elements differs or the strides do not allow it.
Result<Tensor> makeView(const Tensor &source,
                        std::span<const uint32_t> permutation,
                        std::span<const int64_t> sizes);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_VIEW_H

//===- Values.h - Elements of tensors as numbers ----------------*- C++ -*-===//
//
// Tools compare and print tensors of any dtype as numbers of f64.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_TOOLS_SUPPORT_VALUES_H
#define SEXTANT_TOOLS_SUPPORT_VALUES_H

#include "runtime/Result.h"
#include "runtime/Tensor.h"
#include <vector>

namespace sextant::tools {

/// All elements in the order of their indices, whatever dtype and strides.
std::vector<double> getValues(const runtime::Tensor &tensor);

/// A contiguous tensor of the values, rounded to `dtype`.
runtime::Result<runtime::Tensor> makeTensor(runtime::DType dtype,
                                            std::span<const int64_t> sizes,
                                            std::span<const double> values);

} // namespace sextant::tools

#endif // SEXTANT_TOOLS_SUPPORT_VALUES_H

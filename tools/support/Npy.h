//===- Npy.h - Arrays in NumPy's file format --------------------*- C++ -*-===//
//
// Arrays are read in versions 1.0 to 3.0 of NumPy's format, little endian and
// in C order. bf16, which NumPy lacks, is written as f32 and read from f32.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_TOOLS_SUPPORT_NPY_H
#define SEXTANT_TOOLS_SUPPORT_NPY_H

#include "runtime/Result.h"
#include "runtime/Tensor.h"

namespace sextant::tools {

/// Reads an array; errors name the file.
runtime::Result<runtime::Tensor> readNpy(const std::string &path);

/// Writes a tensor of any strides.
runtime::Status writeNpy(const std::string &path,
                         const runtime::Tensor &tensor);

} // namespace sextant::tools

#endif // SEXTANT_TOOLS_SUPPORT_NPY_H

//===- View.cpp - Another shape of the same memory ------------------------===//
//
// Dimensions of the source that form one stretch of memory are joined, and each
// stretch is cut into dimensions of the result.
//
//===----------------------------------------------------------------------===//

#include "runtime/View.h"

using namespace sextant::runtime;

/// Finds strides for `sizes` in the memory of `source`. Runs of dimensions that
/// are one stretch of memory are joined; each must be split exactly.
static bool computeStrides(const Tensor &source, Tensor &result) {
  if (source.elements() == 0)
    return true; // contiguous strides of no elements
  int64_t viewDim = static_cast<int64_t>(result.rank) - 1;
  int64_t stretch = 1; // elements of the current run, from its end
  int64_t covered = 1; // elements of it that the view's dimensions cover
  int64_t baseStride = 1;
  for (int64_t dim = static_cast<int64_t>(source.rank) - 1; dim >= 0; --dim) {
    if (stretch == 1)
      baseStride = source.strides[dim];
    stretch *= source.sizes[dim];
    bool ends = dim == 0 || (source.sizes[dim - 1] != 1 &&
                             source.strides[dim - 1] != stretch * baseStride);
    if (!ends)
      continue;
    while (viewDim >= 0 && (covered < stretch || result.sizes[viewDim] == 1)) {
      result.strides[viewDim] = covered * baseStride;
      covered *= result.sizes[viewDim];
      --viewDim;
    }
    if (covered != stretch)
      return false;
    stretch = covered = 1;
  }
  for (; viewDim >= 0; --viewDim) { // a scalar seen as [1, 1, ...]
    if (result.sizes[viewDim] != 1)
      return false;
    result.strides[viewDim] = 1;
  }
  return true;
}

Result<Tensor> sextant::runtime::makeView(const Tensor &source,
                                          std::span<const uint32_t> permutation,
                                          std::span<const int64_t> sizes) {
  Tensor permuted = source;
  for (size_t dim = 0; dim < permutation.size(); ++dim) {
    permuted.sizes[dim] = source.sizes[permutation[dim]];
    permuted.strides[dim] = source.strides[permutation[dim]];
  }
  Tensor result = permuted;
  int64_t count = countElements(source.dtype, sizes);
  if (count != source.elements())
    return makeError("a tensor of shape ", formatShape(source.shape()),
                     " cannot be seen as ", formatShape(sizes));
  if (std::equal(sizes.begin(), sizes.end(), permuted.sizes,
                 permuted.sizes + permuted.rank))
    return permuted;
  result.setShape(sizes);
  if (!computeStrides(permuted, result))
    return makeError(
        "a tensor of shape ", formatShape(permuted.shape()), " and strides ",
        formatShape({permuted.strides, permuted.rank}), " cannot be seen as ",
        formatShape(sizes), " without a copy");
  return result;
}

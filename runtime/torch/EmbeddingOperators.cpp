//===- EmbeddingOperators.cpp - Gradients of rows in one order on a GPU ---===//
//
// ATen's gradient of an embedding cuts many sorted indices into pieces on a
// GPU, and what pieces give to one row is added by atomic instructions: in the
// order in which threads come. Here rows are added to a table of zeros by the
// operator that assigns to indices. It sorts, too, but a single warp goes
// through all that belongs to a row; nothing waits for the GPU. On the host it
// is that operator which adds by atomic instructions where there are several
// threads, and the gradient of an embedding has one order: so only a GPU has
// another.
//
//===----------------------------------------------------------------------===//

#include "runtime/torch/DenseCall.h"
#include "runtime/torch/TorchTensor.h"

using namespace sextant::runtime;
using StableTensor = torch::stable::Tensor;
using Results = std::vector<StableTensor>;

static Tensor view(const CallArgument &argument) {
  Result<Tensor> tensor = fromTorch(argument.tensors.at(0));
  if (!tensor)
    throw std::runtime_error(tensor.error().message());
  return *tensor;
}

static CallArgument reshape(const CallArgument &tensor,
                            std::vector<int64_t> sizes, TorchPlace place) {
  return CallArgument::of(
      callByName("aten::reshape",
                 {tensor, CallArgument::ofList(std::move(sizes))}, place)
          .at(0));
}

static CallArgument convert(const CallArgument &tensor, DType dtype,
                            TorchPlace place) {
  CallArgument type =
      CallArgument::of(ArgumentKind::DType, static_cast<int64_t>(dtype));
  return CallArgument::of(
      callByName("aten::_to_copy", {tensor, type}, place).at(0));
}

static CallArgument makeZeros(DType dtype, std::vector<int64_t> sizes,
                              TorchPlace place) {
  Result<Tensor> made = allocateInTorch(dtype, sizes, place);
  if (!made)
    throw std::runtime_error(made.error().message());
  CallArgument zeros = CallArgument::of(toTorch(*made));
  callByName("aten::zero_", {zeros}, place);
  return zeros;
}

/// Of a gradient and the indices of its rows; then the number of rows of the
/// table, the index whose rows are left out, and whether a row is divided by
/// how often it was taken. Indices without a row, which the forward has
/// refused, wrap around: the operator is told not to check, for which it would
/// let the GPU fault.
static Results embeddingBackward(const CallArguments &arguments,
                                 TorchPlace place) {
  if (arguments[3].number != -1 || arguments[4].number != 0)
    throw std::runtime_error(
        "on a GPU each row counts once: padding_idx must be -1 and "
        "scale_grad_by_freq false");
  Tensor gradient = view(arguments[0]);
  int64_t taken = view(arguments[1]).elements();
  if (gradient.rank == 0)
    throw std::runtime_error("the gradient of rows has no dimension");
  int64_t columns = gradient.sizes[gradient.rank - 1];
  CallArgument rows = reshape(arguments[0], {taken, columns}, place);
  CallArgument indices = reshape(arguments[1], {taken}, place);
  // The operator rounds to the table's type at each addition.
  bool isNarrow = gradient.dtype == DType::BF16 || gradient.dtype == DType::F16;
  if (isNarrow)
    rows = convert(rows, DType::F32, place);
  CallArgument table = makeZeros(isNarrow ? DType::F32 : gradient.dtype,
                                 {arguments[2].number, columns}, place);
  CallArgument yes = CallArgument::of(ArgumentKind::Bool, 1);
  callByName("aten::_index_put_impl_",
             {table, CallArgument::ofList(indices.tensors), rows,
              /*accumulate=*/yes, /*unsafe=*/yes},
             place);
  if (isNarrow)
    table = convert(table, gradient.dtype, place);
  return table.tensors;
}

StandIn sextant::runtime::findGpuOperator(std::string_view op) {
  return op == "aten::embedding_dense_backward" ? embeddingBackward : nullptr;
}

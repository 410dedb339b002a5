//===- DenseCall.h - Calls ATen operators -----------------------*- C++ -*-===//
//
// The LibTorch device calls ATen operators through the dispatcher of the stable
// ABI. Arguments are matched with the operator's schema at load, once.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_TORCH_DENSECALL_H
#define SEXTANT_RUNTIME_TORCH_DENSECALL_H

#include "runtime/Device.h"
#include "runtime/torch/OperatorCall.h"

namespace sextant::runtime {

/// What is called instead of an operator, for a program that runs at `place`:
/// there lies what it gives.
using StandIn = std::vector<torch::stable::Tensor> (*)(
    const CallArguments &arguments, TorchPlace place);

/// For an operator that takes Scalars (ScalarOperators.cpp); null if there is
/// none.
StandIn findScalarOperator(std::string_view op);

/// For an operator that takes a generator (RandomOperators.cpp).
StandIn findRandomOperator(std::string_view op);

/// For an operator whose sums follow the number of threads (NormOperators.cpp).
StandIn findNormOperator(std::string_view op);

/// For a product of matrices that is faster by another library of LibTorch than
/// by the operator (ProductOperators.cpp).
StandIn findProductOperator(std::string_view op);

/// On a GPU, for an operator that adds there in the order in which threads come
/// (EmbeddingOperators.cpp).
StandIn findGpuOperator(std::string_view op);

/// What multiplies matrices of f32. `Both`: oneDNN where the first operand lies
/// row by row, BLAS the gradients of weights, whose first operand does not.
enum class ProductLibrary { Blas, OneDnn, Both };

/// As SEXTANT_PRODUCTS says (`blas`, `onednn` or `both`; throws for another
/// word), else the fastest as measured, once.
ProductLibrary chooseProductLibrary();

/// The word of SEXTANT_PRODUCTS that stands for what is chosen.
std::string_view nameProductLibrary();

/// The operations `resolve` and `call` of the LibTorch devices. `standIn`: what
/// the device calls instead where others call the operator. `place`: that of
/// the device.
Result<std::unique_ptr<ResolvedOperator>>
resolveDense(const Dense &call, StandIn standIn = nullptr);
Result<std::vector<Tensor>>
callDense(TorchPlace place, const ResolvedOperator &resolved, const Dense &call,
          std::span<const Tensor> tensors, std::span<const int64_t> integers);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_TORCH_DENSECALL_H

//===- RandomOperators.cpp - Operators that take a generator --------------===//
//
// LibTorch's stable ABI makes no generators, so what they would draw is drawn
// here; programs for GPUs have a kernel for it (codegen/Rows/RandomMask.h). A
// generator is three i64 tensors of rank 0: seed, step and place. What it gives
// depends on these and on the number of the element, and on nothing else: not
// on threads, on the machine or on what was drawn before. Element i takes word
// i mod 4 of the block i / 4 of Philox4x32-10 (Initialize.h), with the seed as
// key and the counter (i / 4, step, place), of 64, 32 and 32 bits.
//
//===----------------------------------------------------------------------===//

#include "runtime/Initialize.h"
#include "runtime/torch/DenseCall.h"
#include "runtime/torch/TorchTensor.h"
#include <cmath>
#include <torch/csrc/stable/c/shim.h>

using namespace sextant::runtime;
using StableTensor = torch::stable::Tensor;

namespace {

/// The stream of blocks of one generator.
struct Stream {
  std::array<uint32_t, 2> key;
  uint32_t step, place;

  std::array<uint32_t, 4> getBlock(int64_t number) const {
    return computePhilox({static_cast<uint32_t>(number),
                          static_cast<uint32_t>(number >> 32), step, place},
                         key);
  }
};

/// What the threads that fill a tensor share.
template <typename Element> struct Filling {
  const Stream &stream;
  uint64_t threshold; ///< words below it give `one`
  Element *data;
  int64_t elements;
  Element one;
};

} // namespace

//===----------------------------------------------------------------------===//
// Generators
//===----------------------------------------------------------------------===//

static int64_t readInteger(const StableTensor &tensor, const char *what) {
  Result<Tensor> value = fromTorch(tensor);
  if (!value)
    throw std::runtime_error(value.error().message());
  if (value->dtype != DType::I64 || value->rank != 0)
    throw std::runtime_error(
        std::string("the ") + what + " of a generator must be one i64, got " +
        getName(value->dtype) + " " + formatShape(value->shape()));
  return *static_cast<const int64_t *>(value->data);
}

/// Of 32 bits: two numbers that differ must give different streams.
static uint32_t readCounter(const StableTensor &tensor, const char *what) {
  int64_t value = readInteger(tensor, what);
  if (value < 0 || value > int64_t(UINT32_MAX))
    throw std::runtime_error(std::string("the ") + what +
                             " of a generator must be in 0 .. 2^32 - 1, got " +
                             std::to_string(value));
  return static_cast<uint32_t>(value);
}

static Stream readGenerator(const CallArgument &argument) {
  if (argument.tensors.size() != 3)
    throw std::runtime_error(
        "a generator is three tensors (seed, step and place), got " +
        std::to_string(argument.tensors.size()));
  auto seed = static_cast<uint64_t>(readInteger(argument.tensors[0], "seed"));
  return {{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
          readCounter(argument.tensors[1], "step"),
          readCounter(argument.tensors[2], "place")};
}

//===----------------------------------------------------------------------===//
// aten::bernoulli
//===----------------------------------------------------------------------===//

template <typename Element>
static void fillBlocks(int64_t begin, int64_t end, void *opaque) {
  const auto &filling = *static_cast<const Filling<Element> *>(opaque);
  for (int64_t block = begin; block < end; ++block) {
    std::array<uint32_t, 4> words = filling.stream.getBlock(block);
    int64_t first = 4 * block;
    int64_t count = std::min<int64_t>(4, filling.elements - first);
    for (int64_t i = 0; i < count; ++i)
      filling.data[first + i] =
          words[static_cast<size_t>(i)] < filling.threshold ? filling.one
                                                            : Element(0);
  }
}

/// `one` is the bits of 1.
template <typename Element>
static void fill(const Tensor &tensor, const Stream &stream, double p,
                 Element one) {
  // Rounded to a multiple of 2^-32; 1 is above every word.
  auto threshold = static_cast<uint64_t>(std::llround(std::ldexp(p, 32)));
  Filling<Element> filling{stream, threshold,
                           static_cast<Element *>(tensor.data),
                           tensor.elements(), one};
  constexpr int64_t grain = 1 << 12; // blocks of a thread at least: some 20 us
  checkTorch(torch_parallel_for(0, (tensor.elements() + 3) / 4, grain,
                                fillBlocks<Element>, &filling),
             "torch_parallel_for");
}

/// A tensor of the shape and dtype of the first argument, contiguous, whose
/// elements are 1 with the probability of the second, else 0.
static std::vector<StableTensor> bernoulli(const CallArguments &arguments,
                                           TorchPlace) {
  Result<Tensor> self = fromTorch(arguments[0].tensors[0]);
  if (!self)
    throw std::runtime_error(self.error().message());
  if (TorchPlace place = getPlace(arguments[0].tensors[0]); !place.isHost())
    throw std::runtime_error("the runtime draws random numbers on the CPU, "
                             "not on " +
                             place.describe() +
                             ": compile the model for that device, whose "
                             "kernels draw them");
  double p = arguments[1].real;
  if (!(p >= 0.0 && p <= 1.0))
    throw std::runtime_error("the probability must be in [0, 1], got " +
                             std::to_string(p));
  Stream stream = readGenerator(arguments[2]);
  Result<Tensor> made = allocateInTorch(self->dtype, self->shape(), {});
  if (!made)
    throw std::runtime_error(made.error().message());
  switch (made->dtype) {
  case DType::F32:
    fill<float>(*made, stream, p, 1.0f);
    break;
  case DType::F64:
    fill<double>(*made, stream, p, 1.0);
    break;
  case DType::BF16:
    fill<uint16_t>(*made, stream, p, 0x3f80);
    break;
  case DType::F16:
    fill<uint16_t>(*made, stream, p, 0x3c00);
    break;
  default:
    throw std::runtime_error(std::string("a tensor of floats is expected, "
                                         "got one of ") +
                             getName(made->dtype));
  }
  return {toTorch(*made)};
}

StandIn sextant::runtime::findRandomOperator(std::string_view op) {
  return op == "aten::bernoulli.p" ? bernoulli : nullptr;
}

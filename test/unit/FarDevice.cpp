//===- FarDevice.cpp - A device whose memory is out of reach --------------===//
//
// Each operation takes the bit off the addresses that it is given and puts it
// on those that it returns.
//
//===----------------------------------------------------------------------===//

#include "FarDevice.h"
#include <cstring>

using namespace sextant::runtime;
using sextant::test::FarDevice;

/// Not canonical: the processor refuses it, whatever is mapped.
static constexpr int64_t farBit = int64_t(1) << 62;

static void *toFar(void *address) {
  return reinterpret_cast<void *>(reinterpret_cast<int64_t>(address) | farBit);
}

template <typename T> static T *toNear(T *address) {
  return reinterpret_cast<T *>(reinterpret_cast<int64_t>(address) & ~farBit);
}

static FarDevice &get(void *state) { return *static_cast<FarDevice *>(state); }

/// The operations of the device, as functions of its struct.
struct FarDevice::Operations {
  /// What nobody wrote is NaN.
  static Result<Tensor> allocate(void *state, DType dtype,
                                 std::span<const int64_t> sizes) {
    const Device &near = get(state).near;
    Result<Tensor> tensor = near.allocate(near.state, dtype, sizes);
    if (!tensor)
      return tensor;
    if (size_t bytes = tensor->elements() * getByteSize(dtype))
      std::memset(tensor->data, 0xff, bytes);
    tensor->data = toFar(tensor->data);
    return tensor;
  }

  static Status fillZero(void *state, void *memory, int64_t bytes) {
    ++get(state).calls.fills;
    const Device &near = get(state).near;
    return near.fillZero(near.state, toNear(memory), bytes);
  }

  static Status copy(void *state, void *to, const void *from, int64_t bytes) {
    const Device &near = get(state).near;
    return near.copy(near.state, toNear(to), toNear(from), bytes);
  }

  static Status copyIn(void *state, void *to, const void *from, int64_t bytes) {
    ++get(state).calls.copiesIn;
    const Device &near = get(state).near;
    return near.copyIn(near.state, toNear(to), from, bytes);
  }

  static Status copyOut(void *state, void *to, const void *from,
                        int64_t bytes) {
    ++get(state).calls.copiesOut;
    const Device &near = get(state).near;
    return near.copyOut(near.state, to, toNear(from), bytes);
  }

  static Result<Session> begin(void *state) {
    const Device &near = get(state).near;
    return near.begin(near.state);
  }

  /// The size of the launch is found on the block of far addresses, as for code
  /// that runs elsewhere.
  static Result<int64_t> launch(void *state, void *session,
                                const Kernel &kernel,
                                std::span<const int64_t> arguments) {
    ++get(state).calls.launches;
    int64_t items = kernel.items(arguments.data());
    int64_t scratch = kernel.scratch(arguments.data());
    std::vector<int64_t> block(arguments.begin(), arguments.end());
    for (int64_t &word : block) // no size is that large
      if (word > 0)
        word &= ~farBit;
    if (items != kernel.items(block.data()) ||
        scratch != kernel.scratch(block.data()))
      return makeError("the size of a launch depends on addresses");
    const Device &near = get(state).near;
    return near.launch(near.state, session, kernel, block);
  }

  static Result<std::unique_ptr<ResolvedOperator>> resolve(void *state,
                                                           const Dense &call) {
    const Device &near = get(state).near;
    return near.resolve(near.state, call);
  }

  static Result<std::vector<Tensor>>
  call(void *state, const ResolvedOperator &resolved, const Dense &call,
       std::span<const Tensor> tensors, std::span<const int64_t> integers) {
    ++get(state).calls.dense;
    const Device &near = get(state).near;
    std::vector<Tensor> operands(tensors.begin(), tensors.end());
    for (Tensor &operand : operands)
      operand.data = toNear(operand.data);
    Result<std::vector<Tensor>> outputs =
        near.call(near.state, resolved, call, operands, integers);
    if (outputs)
      for (Tensor &output : *outputs)
        output.data = toFar(output.data);
    return outputs;
  }
};

FarDevice::FarDevice(const Device &near)
    : near(near),
      device{.name = "far",
             .state = this,
             .hasHostMemory = false,
             .allocate = Operations::allocate,
             .allocateTemporary = nullptr,
             .fillZero = Operations::fillZero,
             .copy = Operations::copy,
             .copyIn = Operations::copyIn,
             .copyOut = Operations::copyOut,
             .runs = nullptr,
             .loadCode = nullptr,
             .begin = Operations::begin,
             .isCaptured = nullptr,
             .launch = Operations::launch,
             .defer = nullptr,
             .mark = nullptr,
             .getTime = nullptr,
             .getPeak = nullptr,
             .resolve = near.resolve ? Operations::resolve : nullptr,
             .call = near.call ? Operations::call : nullptr} {}

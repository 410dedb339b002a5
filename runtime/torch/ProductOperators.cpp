//===- ProductOperators.cpp - Products of matrices by oneDNN --------------===//
//
// LibTorch brings two libraries that multiply matrices of f32. Its operators
// call BLAS, in the usual build MKL; oneDNN stands behind convolutions and what
// TorchInductor makes of linear layers. MKL keeps to vectors of 256 bits on
// processors of other vendors than its own: on one that has 512 it does less
// than half of what oneDNN does. So both are measured, once for a process, and
// the products of programs go to oneDNN where it is clearly faster.
//
// oneDNN's entry computes x w^T + b with x row by row and w in any order. The
// other products of a training step are the same: g w is g (w^T)^T, and the
// gradient of a weight, g^T x, is (g^T) (x^T)^T after its first operand has
// been written row by row.
//
//===----------------------------------------------------------------------===//

#include "runtime/torch/DenseCall.h"
#include "runtime/torch/TorchTensor.h"
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <dlfcn.h>
#include <torch/csrc/stable/c/shim.h>

using namespace sextant::runtime;
using StableTensor = torch::stable::Tensor;
using Results = std::vector<StableTensor>;
using Clock = std::chrono::steady_clock;

//===----------------------------------------------------------------------===//
// oneDNN
//===----------------------------------------------------------------------===//

using LinearPointwise = AOTITorchError (*)(
    AtenTensorHandle x, AtenTensorHandle weight, AtenTensorHandle *bias,
    const char *function, const double **scalars, int64_t numScalars,
    const char **algorithm, AtenTensorHandle *result);

/// Null in a LibTorch that was built without oneDNN.
static LinearPointwise getLinearPointwise() {
  static const auto entry = reinterpret_cast<LinearPointwise>(
      dlsym(RTLD_DEFAULT, "aoti_torch_cpu__linear_pointwise"));
  return entry;
}

/// x [.., k] times the transpose of `weight` [n, k], plus `bias` [n] or null.
static StableTensor multiplyByOneDnn(const StableTensor &x,
                                     const StableTensor &weight,
                                     const StableTensor *bias) {
  AtenTensorHandle biasHandle = bias ? bias->get() : nullptr;
  AtenTensorHandle result;
  checkTorch(getLinearPointwise()(x.get(), weight.get(),
                                  bias ? &biasHandle : nullptr, "none", nullptr,
                                  0, nullptr, &result),
             "mkldnn::_linear_pointwise");
  return StableTensor(result);
}

//===----------------------------------------------------------------------===//
// The choice
//===----------------------------------------------------------------------===//

static Tensor allocateMatrix(int64_t rows, int64_t columns) {
  Result<Tensor> made =
      allocateInTorch(DType::F32, std::array{rows, columns}, {});
  if (!made)
    throw std::runtime_error(made.error().message());
  return *made;
}

/// A tensor of ones of two dimensions.
static StableTensor makeOnes(int64_t rows, int64_t columns) {
  Tensor made = allocateMatrix(rows, columns);
  std::fill_n(static_cast<float *>(made.data), rows * columns, 1.0f);
  return toTorch(made);
}

template <typename Function> static double getSeconds(const Function &run) {
  Clock::time_point begin = Clock::now();
  run();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

static Results callByDefault(const char *op, const CallArguments &arguments) {
  Result<Schema> schema = findSchema(op);
  if (!schema)
    throw std::runtime_error(schema.error().message());
  return callOperator(*schema, arguments);
}

/// Some milliseconds of both in turn, the best of each: other processes disturb
/// single calls. The margin is far from both cases that were met, some 1.0 and
/// 2.2, so that all processes on a machine choose alike and a run goes on with
/// the bits that it would have had.
static bool isOneDnnFaster() {
  constexpr int turns = 7;
  constexpr double margin = 1.4;
  CallArgument x, weight, bias;
  x.kind = weight.kind = ArgumentKind::Tensor;
  x.tensors = {makeOnes(256, 512)};
  weight.tensors = {makeOnes(512, 512)};
  double blas = HUGE_VAL, oneDnn = HUGE_VAL;
  for (int turn = 0; turn < turns; ++turn) {
    blas = std::min(blas, getSeconds([&] {
                      callByDefault("aten::linear", {x, weight, bias});
                    }));
    oneDnn =
        std::min(oneDnn, getSeconds([&] {
                   multiplyByOneDnn(x.tensors[0], weight.tensors[0], nullptr);
                 }));
  }
  return oneDnn * margin < blas;
}

bool sextant::runtime::productsGoToOneDnn() {
  if (const char *wanted = std::getenv("SEXTANT_PRODUCTS"); wanted && *wanted) {
    std::string_view name = wanted;
    if (name != "blas" && name != "onednn")
      throw std::runtime_error(
          "SEXTANT_PRODUCTS must be blas or onednn, got '" + std::string(name) +
          "'");
    if (name == "onednn" && !getLinearPointwise())
      throw std::runtime_error(
          "SEXTANT_PRODUCTS is onednn, but this PyTorch was built without it");
    return name == "onednn";
  }
  static const bool faster = getLinearPointwise() && isOneDnnFaster();
  return faster;
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// The runtime's view of an operand that oneDNN's entry takes: f32 on the host
/// with two dimensions, or more if they lie row by row.
static std::optional<Tensor> viewOperand(const CallArgument &argument) {
  const StableTensor &tensor = argument.tensors[0];
  if (!getPlace(tensor).isHost())
    return std::nullopt;
  Result<Tensor> view = fromTorch(tensor);
  if (!view || view->dtype != DType::F32 || view->rank < 2 ||
      (view->rank > 2 && !view->isContiguous()))
    return std::nullopt;
  return *view;
}

/// Below it the fixed cost of a call, some 10 microseconds, is more than what
/// oneDNN wins.
static bool isWorthIt(int64_t rows, int64_t inner, int64_t columns) {
  constexpr int64_t fewest = 1 << 21; // multiply-adds
  return rows > 0 && inner > 0 && columns > 0 &&
         rows >= (fewest + inner * columns - 1) / (inner * columns);
}

static Tensor transpose(Tensor view) {
  std::swap(view.sizes[0], view.sizes[1]);
  std::swap(view.strides[0], view.strides[1]);
  return view;
}

/// A second operand as oneDNN's entry takes it: all its rows, or all its
/// columns, one after another. With something between them LibTorch multiplies
/// with wrong elements, and does not say so.
static std::optional<StableTensor> makeWeight(Tensor view) {
  if (view.rank != 2)
    return std::nullopt;
  if (view.isContiguous()) {
    view.strides[0] = view.sizes[1];
    view.strides[1] = 1;
  } else if (transpose(view).isContiguous()) {
    view.strides[0] = 1;
    view.strides[1] = view.sizes[0];
  } else {
    return std::nullopt;
  }
  return toTorch(view);
}

static Tensor getRows(const Tensor &view, int64_t begin, int64_t count) {
  Tensor rows = view;
  rows.sizes[0] = count;
  rows.data = static_cast<float *>(view.data) + begin * view.strides[0];
  return rows;
}

//===----------------------------------------------------------------------===//
// A first operand that lies column by column
//===----------------------------------------------------------------------===//

namespace {
/// Elements of a square that is written at once: a line of a cache.
constexpr int64_t side = 16;

struct Transposition {
  const Tensor &from; ///< column by column
  float *to;          ///< row by row
};
} // namespace

/// Through a square on the stack: rows and columns that lie powers of two apart
/// would throw each other out of the first cache.
static void transposeSquare(const Transposition &of, int64_t row,
                            int64_t column, int64_t rows, int64_t columns) {
  float square[side][side];
  const float *from = static_cast<const float *>(of.from.data) + row +
                      column * of.from.strides[1];
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = 0; i < rows; ++i)
      square[i][j] = from[j * of.from.strides[1] + i];
  int64_t width = of.from.sizes[1];
  for (int64_t i = 0; i < rows; ++i)
    std::copy_n(square[i], columns, of.to + (row + i) * width + column);
}

/// Work of a thread: all rows of some squares of columns.
static void transposeColumns(int64_t begin, int64_t end, void *opaque) {
  const auto &of = *static_cast<const Transposition *>(opaque);
  int64_t rows = of.from.sizes[0], columns = of.from.sizes[1];
  for (int64_t column = begin * side; column < std::min(end * side, columns);
       column += side)
    for (int64_t row = 0; row < rows; row += side)
      transposeSquare(of, row, column, std::min(side, rows - row),
                      std::min(side, columns - column));
}

static void writeRowByRow(const Tensor &from, const Tensor &to) {
  Transposition of{from, static_cast<float *>(to.data)};
  checkTorch(torch_parallel_for(0, (from.sizes[1] + side - 1) / side, 1,
                                transposeColumns, &of),
             "torch_parallel_for");
}

/// So many rows at a time that their copy stays in the last cache, and its
/// memory is used again: the gradient of the logits of a large vocabulary is
/// far larger than both.
static StableTensor multiplyColumns(const Tensor &a, const StableTensor &weight,
                                    int64_t columns) {
  constexpr int64_t most = 1 << 22; // elements of a copy
  int64_t rows = a.sizes[0];
  int64_t part = std::clamp<int64_t>(most / a.sizes[1], 1, rows);
  Tensor copy = allocateMatrix(part, a.sizes[1]);
  std::optional<Tensor> result;
  if (part < rows)
    result = allocateMatrix(rows, columns);
  for (int64_t begin = 0; begin < rows; begin += part) {
    int64_t count = std::min(part, rows - begin);
    Tensor some = getRows(copy, 0, count);
    writeRowByRow(getRows(a, begin, count), some);
    StableTensor product = multiplyByOneDnn(toTorch(some), weight, nullptr);
    if (!result)
      return product;
    checkTorch(aoti_torch_copy_(toTorch(getRows(*result, begin, count)).get(),
                                product.get(), 0),
               "aten::copy_");
  }
  return toTorch(*result);
}

//===----------------------------------------------------------------------===//
// The operators
//===----------------------------------------------------------------------===//

/// a [.., k] times b [k, n], or none where the operator is to do it.
static std::optional<StableTensor> multiply(const CallArguments &arguments) {
  std::optional<Tensor> a = viewOperand(arguments[0]);
  std::optional<Tensor> b = viewOperand(arguments[1]);
  int64_t inner = a ? a->sizes[a->rank - 1] : 0;
  if (inner == 0 || !b || b->rank != 2 || inner != b->sizes[0] ||
      !isWorthIt(a->elements() / inner, inner, b->sizes[1]))
    return std::nullopt;
  std::optional<StableTensor> weight = makeWeight(transpose(*b));
  if (!weight)
    return std::nullopt;
  if (a->rank == 2 && a->strides[0] == 1 && a->strides[1] != 1)
    return multiplyColumns(*a, *weight, b->sizes[1]);
  return multiplyByOneDnn(arguments[0].tensors[0], *weight, nullptr);
}

static Results mm(const CallArguments &arguments) {
  if (std::optional<StableTensor> product = multiply(arguments))
    return {*product};
  return callByDefault("aten::mm", arguments);
}

static Results matmul(const CallArguments &arguments) {
  if (std::optional<StableTensor> product = multiply(arguments))
    return {*product};
  return callByDefault("aten::matmul", arguments);
}

static bool isDense(const std::vector<StableTensor> &bias) {
  if (bias.empty())
    return true;
  Result<Tensor> view = fromTorch(bias[0]);
  return view && view->dtype == DType::F32 && view->isContiguous();
}

static Results linear(const CallArguments &arguments) {
  std::optional<Tensor> x = viewOperand(arguments[0]);
  std::optional<Tensor> w = viewOperand(arguments[1]);
  const std::vector<StableTensor> &bias = arguments[2].tensors;
  int64_t inner = x ? x->sizes[x->rank - 1] : 0;
  if (inner > 0 && w && w->rank == 2 && w->sizes[1] == inner && isDense(bias) &&
      isWorthIt(x->elements() / inner, inner, w->sizes[0]))
    if (std::optional<StableTensor> weight = makeWeight(*w))
      return {multiplyByOneDnn(arguments[0].tensors[0], *weight,
                               bias.empty() ? nullptr : bias.data())};
  return callByDefault("aten::linear", arguments);
}

StandIn sextant::runtime::findProductOperator(std::string_view op) {
  static constexpr std::pair<std::string_view, StandIn> table[] = {
      {"aten::linear", linear}, {"aten::matmul", matmul}, {"aten::mm", mm}};
  for (auto [name, function] : table)
    if (name == op)
      return productsGoToOneDnn() ? function : nullptr;
  return nullptr;
}

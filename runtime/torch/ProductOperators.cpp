//===- ProductOperators.cpp - Products of matrices by oneDNN --------------===//
//
// LibTorch brings two libraries that multiply matrices of f32. Its operators
// call BLAS, in the usual build MKL; oneDNN stands behind convolutions and what
// TorchInductor makes of linear layers. MKL keeps to vectors of 256 bits on
// processors of other vendors than its own: on one whose unit has 512 it does
// less than half of what oneDNN does, on one that takes two steps for 512 some
// nine tenths. So both are measured, once for a process, and the products of
// programs go to oneDNN where it is clearly faster.
//
// oneDNN's entry computes x w^T + b with x row by row and w in any order. The
// other products of a training step are the same: g w is g (w^T)^T, and the
// gradient of a weight, g^T x, is (g^T) (x^T)^T after its first operand has
// been written row by row. Writing it costs more than nine tenths win: there
// gradients of weights stay with BLAS.
//
//===----------------------------------------------------------------------===//

#include "runtime/torch/DenseCall.h"
#include "runtime/torch/TorchTensor.h"
#include <array>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <torch/csrc/stable/c/shim.h>

using namespace sextant::runtime;
using StableTensor = torch::stable::Tensor;
using Results = std::vector<StableTensor>;

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

namespace {
/// While it lives, this thread computes without others: on a busy machine most
/// of what several take is waiting for each other.
class OneThread {
public:
  OneThread() {
    if (setOfOpenMP && getOfOpenMP) {
      threads = getOfOpenMP();
      setOfOpenMP(1);
    }
    if (setOfMKL)
      threadsOfMKL = setOfMKL(1);
  }
  ~OneThread() {
    if (setOfOpenMP && getOfOpenMP)
      setOfOpenMP(threads);
    if (setOfMKL)
      setOfMKL(threadsOfMKL);
  }
  OneThread(const OneThread &) = delete;
  OneThread &operator=(const OneThread &) = delete;

private:
  template <typename Function> static Function *find(const char *name) {
    return reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
  }

  // Of the libraries that LibTorch is built with, where they are.
  int (*getOfOpenMP)() = find<int()>("omp_get_max_threads");
  void (*setOfOpenMP)(int) = find<void(int)>("omp_set_num_threads");
  int (*setOfMKL)(int) = find<int(int)>("MKL_Set_Num_Threads_Local");
  int threads = 0, threadsOfMKL = 0;
};
} // namespace

/// Of a processor, for this thread: not what it waits for one on a busy
/// machine.
static double getThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

template <typename Function> static double getSeconds(const Function &run) {
  double begin = getThreadSeconds();
  run();
  return getThreadSeconds() - begin;
}

static Results callByDefault(const char *op, const CallArguments &arguments,
                             TorchPlace place) {
  Result<Schema> schema = findSchema(op);
  if (!schema)
    throw std::runtime_error(schema.error().message());
  return callOperator(*schema, arguments, place);
}

/// Some milliseconds of both in turn, the best of each: other processes disturb
/// single calls. The margin is far from both
/// cases that were met, some 1.0 and 2.2, so that all processes on a machine
/// choose alike and a run goes on with the bits that it would have had.
static bool isOneDnnFaster() {
  constexpr int turns = 7;
  constexpr double margin = 1.4;
  CallArgument x, weight, bias;
  x.kind = weight.kind = ArgumentKind::Tensor;
  x.tensors = {makeOnes(256, 512)};
  weight.tensors = {makeOnes(512, 512)};
  OneThread alone;
  double blas = HUGE_VAL, oneDnn = HUGE_VAL;
  for (int turn = 0; turn < turns; ++turn) {
    blas = std::min(blas, getSeconds([&] {
                      callByDefault("aten::linear", {x, weight, bias}, {});
                    }));
    oneDnn =
        std::min(oneDnn, getSeconds([&] {
                   multiplyByOneDnn(x.tensors[0], weight.tensors[0], nullptr);
                 }));
  }
  return oneDnn * margin < blas;
}

/// Whether MKL keeps to half of the longest vectors, by what it looks at: the
/// vendor. Unlike a measurement of 1.1, that is the same for all processes on a
/// machine.
static bool leavesVectorsToOthers() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && !__builtin_cpu_is("intel");
#else
  return false;
#endif
}

static ProductLibrary findFastest() {
  if (!getLinearPointwise())
    return ProductLibrary::Blas;
  if (isOneDnnFaster())
    return ProductLibrary::OneDnn;
  return leavesVectorsToOthers() ? ProductLibrary::Both : ProductLibrary::Blas;
}

static constexpr std::pair<std::string_view, ProductLibrary> libraries[] = {
    {"blas", ProductLibrary::Blas},
    {"onednn", ProductLibrary::OneDnn},
    {"both", ProductLibrary::Both}};

static ProductLibrary parseLibrary(std::string_view wanted) {
  for (auto [name, library] : libraries)
    if (name == wanted) {
      if (library != ProductLibrary::Blas && !getLinearPointwise())
        throw std::runtime_error("SEXTANT_PRODUCTS is " + std::string(name) +
                                 ", but this PyTorch was built without oneDNN");
      return library;
    }
  throw std::runtime_error(
      "SEXTANT_PRODUCTS must be blas, onednn or both, got '" +
      std::string(wanted) + "'");
}

ProductLibrary sextant::runtime::chooseProductLibrary() {
  if (const char *wanted = std::getenv("SEXTANT_PRODUCTS"); wanted && *wanted)
    return parseLibrary(wanted);
  static const ProductLibrary fastest = findFastest();
  return fastest;
}

std::string_view sextant::runtime::nameProductLibrary() {
  ProductLibrary chosen = chooseProductLibrary();
  for (auto [name, library] : libraries)
    if (library == chosen)
      return name;
  return {};
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// The runtime's view of an operand that oneDNN's entry takes: f32 on the host
/// with two dimensions, or more if the elements of a row follow each other.
static std::optional<Tensor> viewOperand(const CallArgument &argument) {
  const StableTensor &tensor = argument.tensors[0];
  if (!getPlace(tensor).isHost())
    return std::nullopt;
  Result<Tensor> view = fromTorch(tensor);
  if (!view || view->dtype != DType::F32 || view->rank < 2 ||
      (view->rank > 2 && !view->isContiguous() &&
       view->strides[view->rank - 1] != 1))
    return std::nullopt;
  return *view;
}

/// Whether the first operand `a` and a second one with so many columns are for
/// oneDNN. In a small product the fixed cost of a call, some 10 microseconds,
/// is more than what oneDNN wins. In a narrow one it is the copy that its entry
/// makes of rows that do not follow each other, such as some lanes of wider
/// ones: with the copy two columns take 4 times what they take without.
static bool isWorthIt(const Tensor &a, int64_t columns) {
  constexpr int64_t fewest = 1 << 21; // multiply-adds
  constexpr int64_t fewestOfACopy = 64;
  int64_t inner = a.sizes[a.rank - 1];
  bool isCopied = a.rank > 2 && !a.isContiguous();
  if (inner == 0 || columns < (isCopied ? fewestOfACopy : 1))
    return false;
  int64_t rows = a.elements() / inner;
  return rows > 0 && rows >= (fewest + inner * columns - 1) / (inner * columns);
}

static Tensor transpose(Tensor view) {
  std::swap(view.sizes[0], view.sizes[1]);
  std::swap(view.strides[0], view.strides[1]);
  return view;
}

/// A second operand as oneDNN's entry takes it: its rows, or its columns, one
/// after another. Where something lies between them, as in a part of a weight,
/// oneDNN has plain loops only, which take a hundred times as long: it gets a
/// copy, which costs little beside a product with `rows` rows if these are
/// many.
static std::optional<StableTensor> makeWeight(Tensor view, int64_t rows) {
  constexpr int64_t fewestRows = 64;
  bool isByColumns = view.rank == 2 && view.strides[0] == 1;
  if (view.rank != 2 || (!isByColumns && view.strides[1] != 1))
    return std::nullopt;
  Tensor lines = isByColumns ? transpose(view) : view;
  if (lines.strides[0] == lines.sizes[1])
    return toTorch(view);
  if (rows < fewestRows)
    return std::nullopt;
  Tensor copy = allocateMatrix(lines.sizes[0], lines.sizes[1]);
  checkTorch(aoti_torch_copy_(toTorch(copy).get(), toTorch(lines).get(), 0),
             "aten::copy_");
  return toTorch(isByColumns ? transpose(copy) : copy);
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
  if (!a || !b || b->rank != 2 || a->sizes[a->rank - 1] != b->sizes[0] ||
      !isWorthIt(*a, b->sizes[1]))
    return std::nullopt;
  bool isByColumns = a->rank == 2 && a->strides[0] == 1 && a->strides[1] != 1;
  if (isByColumns && chooseProductLibrary() == ProductLibrary::Both)
    return std::nullopt;
  std::optional<StableTensor> weight =
      makeWeight(transpose(*b), a->elements() / b->sizes[0]);
  if (!weight)
    return std::nullopt;
  if (isByColumns)
    return multiplyColumns(*a, *weight, b->sizes[1]);
  return multiplyByOneDnn(arguments[0].tensors[0], *weight, nullptr);
}

static Results mm(const CallArguments &arguments, TorchPlace place) {
  if (std::optional<StableTensor> product = multiply(arguments))
    return {*product};
  return callByDefault("aten::mm", arguments, place);
}

static Results matmul(const CallArguments &arguments, TorchPlace place) {
  if (std::optional<StableTensor> product = multiply(arguments))
    return {*product};
  return callByDefault("aten::matmul", arguments, place);
}

static bool isDense(const std::vector<StableTensor> &bias) {
  if (bias.empty())
    return true;
  Result<Tensor> view = fromTorch(bias[0]);
  return view && view->dtype == DType::F32 && view->isContiguous();
}

static Results linear(const CallArguments &arguments, TorchPlace place) {
  std::optional<Tensor> x = viewOperand(arguments[0]);
  std::optional<Tensor> w = viewOperand(arguments[1]);
  const std::vector<StableTensor> &bias = arguments[2].tensors;
  if (x && w && w->rank == 2 && w->sizes[1] == x->sizes[x->rank - 1] &&
      isDense(bias) && isWorthIt(*x, w->sizes[0]))
    if (std::optional<StableTensor> weight =
            makeWeight(*w, x->elements() / w->sizes[1]))
      return {multiplyByOneDnn(arguments[0].tensors[0], *weight,
                               bias.empty() ? nullptr : bias.data())};
  return callByDefault("aten::linear", arguments, place);
}

StandIn sextant::runtime::findProductOperator(std::string_view op) {
  static constexpr std::pair<std::string_view, StandIn> table[] = {
      {"aten::linear", linear}, {"aten::matmul", matmul}, {"aten::mm", mm}};
  for (auto [name, function] : table)
    if (name == op)
      return chooseProductLibrary() == ProductLibrary::Blas ? nullptr
                                                            : function;
  return nullptr;
}

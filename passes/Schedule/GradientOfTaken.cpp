//===- GradientOfTaken.cpp - The gradient of elements that were taken -----===//
//
// ATen's operator for it adds by atomic instructions on a GPU, in any order,
// and two runs of a program would differ in bits. That of an embedding, for
// which the runtime calls another one there (EmbeddingOperators.cpp), has one
// order. It takes rows alone, so other tensors become such, mostly by views.
//
//===----------------------------------------------------------------------===//

#include "passes/Schedule/GradientOfTaken.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Schedule/DenseCalls.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

static RankedTensorType swap(RankedTensorType type, int64_t a, int64_t b) {
  SmallVector<int64_t> shape(type.getShape());
  std::swap(shape[a], shape[b]);
  return type.clone(shape);
}

/// Of two dimensions, a row for each entry of the first dimension of `type`.
static RankedTensorType rowsOf(RankedTensorType type) {
  int64_t columns = 1;
  for (int64_t size : type.getShape().drop_front())
    columns = ShapedType::isDynamic(size) || ShapedType::isDynamic(columns)
                  ? ShapedType::kDynamic
                  : columns * size;
  return type.clone({type.getDimSize(0), columns});
}

static Value transpose(OpBuilder &builder, Value value, int64_t dim) {
  auto type = cast<RankedTensorType>(value.getType());
  nn::AtenArguments call(builder);
  call.tensor(value);
  call.integer(0);
  call.integer(dim);
  return createDenseValue(builder, value.getLoc(), "aten::transpose.int",
                          call.get(), swap(type, 0, dim));
}

/// A call on a tensor and numbers.
static Value reshape(OpBuilder &builder, StringRef name, Value value,
                     ArrayRef<int64_t> numbers, Type result) {
  nn::AtenArguments call(builder);
  call.tensor(value);
  for (int64_t number : numbers)
    call.integer(number);
  return createDenseValue(builder, value.getLoc(), name, call.get(), result);
}

static Value toRows(OpBuilder &builder, Value value, int64_t dim) {
  Value turned = dim == 0 ? value : transpose(builder, value, dim);
  auto type = cast<RankedTensorType>(turned.getType());
  if (type.getRank() == 1)
    return reshape(builder, "aten::unsqueeze", turned, {1}, rowsOf(type));
  if (type.getRank() > 2)
    return reshape(builder, "aten::flatten.using_ints", turned, {1, -1},
                   rowsOf(type));
  return turned;
}

/// The inverse, of rows for dimension `dim` of a tensor like `like`: without
/// strides, as an operator of its own would give it.
static Value fromRows(OpBuilder &builder, Value rows, Value like, int64_t dim) {
  auto type = cast<RankedTensorType>(like.getType());
  if (type.getRank() == 1)
    return reshape(builder, "aten::squeeze.dim", rows, {1}, type);
  if (type.getRank() > 2) {
    SmallVector<int64_t> order =
        llvm::to_vector(llvm::seq<int64_t>(type.getRank()));
    std::swap(order[0], order[dim]);
    SmallVector<Value> sizes;
    for (int64_t axis : order)
      if (type.isDynamicDim(axis))
        sizes.push_back(
            tensor::DimOp::create(builder, rows.getLoc(), like, axis));
    RankedTensorType turned = swap(type, 0, dim);
    nn::AtenArguments view(builder);
    view.tensor(rows);
    view.shape(turned, sizes);
    rows = createDenseValue(builder, rows.getLoc(), "aten::view", view.get(),
                            turned);
  }
  return dim == 0 ? rows
                  : reshape(builder, "aten::contiguous",
                            transpose(builder, rows, dim), {}, type);
}

Value passes::createGradientOfTaken(OpBuilder &builder,
                                    nn::IndexSelectBackwardOp op) {
  Value input = op.getInput();
  auto dim = static_cast<int64_t>(op.getDim());
  auto type = cast<RankedTensorType>(input.getType());
  nn::AtenArguments call(builder);
  call.tensor(toRows(builder, op.getGradient(), dim));
  call.tensor(op.getIndices());
  call.dimensionOf(input, dim);
  call.integer(-1); // no index whose gradient is left out
  call.boolean(false);
  Value rows =
      createDenseValue(builder, op.getLoc(), "aten::embedding_dense_backward",
                       call.get(), rowsOf(swap(type, 0, dim)));
  return fromRows(builder, rows, input, dim);
}

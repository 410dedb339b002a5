//===- NnGradients.cpp - What derivatives are made of ---------------------===//
//
// An operand that was broadcast gets the sum of the gradients of its copies.
// Which dimensions were repeated is known from the types.
//
//===----------------------------------------------------------------------===//

#include "dialects/Nn/IR/NnGradients.h"
#include "dialects/Nn/IR/NnTypes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::nn;

SmallVector<int64_t> nn::allButLast(Value value) {
  return llvm::to_vector(llvm::seq<int64_t>(0, typeOf(value).getRank() - 1));
}

SmallVector<Value> nn::dynamicSizes(OpBuilder &builder, Location loc,
                                    Value value) {
  SmallVector<Value> sizes;
  for (auto [dim, size] : llvm::enumerate(typeOf(value).getShape()))
    if (ShapedType::isDynamic(size))
      sizes.push_back(tensor::DimOp::create(builder, loc, value, dim));
  return sizes;
}

Value nn::flattenRows(OpBuilder &builder, Location loc, Value value) {
  RankedTensorType type = typeOf(value);
  if (type.getRank() == 2)
    return value;
  int64_t rows = 1;
  Value dynamicRows;
  for (int64_t dim : allButLast(value))
    if (!type.isDynamicDim(dim))
      rows *= type.getDimSize(dim);
  for (int64_t dim : allButLast(value)) {
    if (!type.isDynamicDim(dim))
      continue;
    Value size = tensor::DimOp::create(builder, loc, value, dim);
    dynamicRows = dynamicRows
                      ? arith::MulIOp::create(builder, loc, dynamicRows, size)
                      : size;
  }
  if (dynamicRows && rows != 1)
    dynamicRows = arith::MulIOp::create(
        builder, loc, dynamicRows,
        arith::ConstantIndexOp::create(builder, loc, rows));
  int64_t shape[] = {dynamicRows ? ShapedType::kDynamic : rows,
                     type.getShape().back()};
  return ReshapeOp::create(
      builder, loc, RankedTensorType::get(shape, type.getElementType()), value,
      dynamicRows ? ValueRange(dynamicRows) : ValueRange());
}

Value nn::sum(OpBuilder &builder, Location loc, Value value,
              ArrayRef<int64_t> dims, bool keep) {
  if (dims.empty())
    return value;
  return SumOp::create(builder, loc, value, dims, keep);
}

Value nn::sumToShapeOf(OpBuilder &builder, Location loc, Value gradient,
                       Value operand) {
  RankedTensorType to = typeOf(operand);
  int64_t extra = typeOf(gradient).getRank() - to.getRank();
  gradient = sum(builder, loc, gradient,
                 llvm::to_vector(llvm::seq<int64_t>(0, extra)));
  SmallVector<int64_t> repeated;
  for (auto [dim, size] : llvm::enumerate(to.getShape()))
    if (size == 1 && typeOf(gradient).getDimSize(dim) != 1)
      repeated.push_back(dim);
  return sum(builder, loc, gradient, repeated, /*keep=*/true);
}

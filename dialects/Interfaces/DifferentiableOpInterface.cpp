//===- DifferentiableOpInterface.cpp - Derivatives of graph ops -----------===//
//
// This file holds what the derivatives of all ops of a graph use: zeros in the
// place of a cotangent that is missing, and tensors filled with a constant.
//
//===----------------------------------------------------------------------===//

#include "dialects/Interfaces/DifferentiableOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace sextant;

#include "dialects/Interfaces/DifferentiableOpInterface.cpp.inc"

Cotangents::~Cotangents() = default;

Value Cotangents::ofOrZeros(OpBuilder &builder, OpResult result) {
  if (Value cotangent = of(result))
    return cotangent;
  return createFilledLike(builder, result.getLoc(), result, 0.0);
}

Value sextant::createFilledLike(OpBuilder &builder, Location loc, Value like,
                                double constant) {
  auto type = cast<RankedTensorType>(like.getType());
  Value scalar = arith::ConstantOp::create(
      builder, loc, builder.getFloatAttr(type.getElementType(), constant));
  SmallVector<Value> sizes;
  for (auto [dim, size] : llvm::enumerate(type.getShape()))
    if (ShapedType::isDynamic(size))
      sizes.push_back(tensor::DimOp::create(builder, loc, like, dim));
  return tensor::SplatOp::create(builder, loc, scalar, type, sizes);
}

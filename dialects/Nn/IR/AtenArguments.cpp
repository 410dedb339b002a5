//===- AtenArguments.cpp - Arguments of a call of ATen --------------------===//
//
// Each method appends one argument of a call in the order of the operator's
// schema: a tensor, a number that is known, or sizes that are partly known.
//
//===----------------------------------------------------------------------===//

#include "dialects/Nn/IR/AtenArguments.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace sextant::nn;
using Kind = AtenArgument::Kind;

void AtenArguments::tensor(Value value) {
  if (value)
    arguments.push_back({Kind::Tensor, {value}});
  else
    none();
}

void AtenArguments::tensors(ValueRange values) {
  arguments.push_back({Kind::Tensors, llvm::to_vector(values)});
}

void AtenArguments::integer(int64_t value) {
  arguments.push_back({Kind::Constant, {}, builder.getI64IntegerAttr(value)});
}

void AtenArguments::integer(OpFoldResult value) {
  if (auto constant = dyn_cast<Attribute>(value))
    return integer(cast<IntegerAttr>(constant).getInt());
  arguments.push_back({Kind::Integer, {cast<Value>(value)}});
}

void AtenArguments::endOf(OpFoldResult start, OpFoldResult length) {
  std::optional<int64_t> first = getConstantIntValue(start),
                         count = getConstantIntValue(length);
  if (first && count) {
    int64_t end = *first + *count;
    bool atTheEnd = *first < 0 && end == 0;
    return integer(atTheEnd ? std::numeric_limits<int64_t>::max() : end);
  }
  Location loc = cast<Value>(first ? length : start).getLoc();
  Value end = arith::AddIOp::create(
      builder, loc, getValueOrCreateConstantIndexOp(builder, loc, start),
      getValueOrCreateConstantIndexOp(builder, loc, length));
  arguments.push_back({Kind::Integer, {end}});
}

void AtenArguments::real(const APFloat &value) {
  arguments.push_back(
      {Kind::Constant, {}, builder.getF64FloatAttr(value.convertToDouble())});
}

void AtenArguments::boolean(bool value) {
  arguments.push_back({Kind::Constant, {}, builder.getBoolAttr(value)});
}

void AtenArguments::integers(ArrayRef<int64_t> values) {
  arguments.push_back(
      {Kind::Constant, {}, builder.getDenseI64ArrayAttr(values)});
}

void AtenArguments::mask(ArrayRef<bool> values) {
  integers(llvm::map_to_vector(
      values, [](bool value) { return static_cast<int64_t>(value); }));
}

void AtenArguments::string(StringRef value) {
  arguments.push_back({Kind::Constant, {}, builder.getStringAttr(value)});
}

void AtenArguments::dtype(Type type) {
  arguments.push_back({Kind::Constant, {}, TypeAttr::get(type)});
}

void AtenArguments::none() {
  arguments.push_back({Kind::Constant, {}, builder.getUnitAttr()});
}

void AtenArguments::shape(Type type, ValueRange dynamicSizes) {
  auto tensor = cast<RankedTensorType>(type);
  if (tensor.hasStaticShape())
    return integers(tensor.getShape());
  AtenArgument argument{Kind::Sizes};
  Location loc = dynamicSizes.front().getLoc();
  for (int64_t size : tensor.getShape()) {
    if (ShapedType::isDynamic(size)) {
      argument.values.push_back(dynamicSizes.front());
      dynamicSizes = dynamicSizes.drop_front();
    } else {
      argument.values.push_back(
          arith::ConstantIndexOp::create(builder, loc, size));
    }
  }
  arguments.push_back(std::move(argument));
}

void AtenArguments::shapeOf(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<Value> sizes;
  for (auto [dim, size] : llvm::enumerate(type.getShape()))
    if (ShapedType::isDynamic(size))
      sizes.push_back(
          tensor::DimOp::create(builder, value.getLoc(), value, dim));
  shape(type, sizes);
}

void AtenArguments::dimensionOf(Value value, int64_t dimension) {
  auto type = cast<RankedTensorType>(value.getType());
  if (!type.isDynamicDim(dimension))
    return integer(type.getDimSize(dimension));
  Value size = tensor::DimOp::create(builder, value.getLoc(), value, dimension);
  arguments.push_back({Kind::Integer, {size}});
}

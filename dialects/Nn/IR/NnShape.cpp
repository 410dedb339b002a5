//===- NnShape.cpp - Shapes, parts and sums -------------------------------===//
//
// Types of results and derivatives of the ops of NnShape.td.
//
//===----------------------------------------------------------------------===//

#include "dialects/Nn/IR/NnGradients.h"
#include "dialects/Nn/IR/NnTypes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::nn;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *, Where loc,
                                            Adaptor op, Types &types) {
  if (failed(expectDim(loc, op.getFirst(), op.getInput())) ||
      failed(expectDim(loc, op.getSecond(), op.getInput())))
    return failure();
  SmallVector<int64_t> shape(typeOf(op.getInput()).getShape());
  std::swap(shape[op.getFirst()], shape[op.getSecond()]);
  types.push_back(tensorOf(shape, op.getInput()));
  return success();
}

/// A number, if it is known.
static std::optional<int64_t> numberOf(std::optional<uint64_t> attribute) {
  // Accessors are unsigned; a start that counts from the end is negative.
  return attribute ? std::optional(static_cast<int64_t>(*attribute))
                   : std::nullopt;
}

/// The size of dimension `dim` of `whole` in a range of it.
template <typename Adaptor>
static FailureOr<int64_t> inferRange(Where loc, Adaptor op, Value whole) {
  auto dim = static_cast<int64_t>(op.getDim());
  if (failed(expectDim(loc, dim, whole)))
    return failure();
  std::optional<int64_t> start = numberOf(op.getStart()),
                         length = numberOf(op.getLength());
  int64_t size = typeOf(whole).getDimSize(dim);
  if (start && *start < 0 && !length)
    return emitOptionalError(loc, "a start that counts from the end (", *start,
                             ") needs a length that is a number");
  int64_t first = start.value_or(0), count = length.value_or(0);
  bool inside = count >= 0 && (first >= 0 || first + count <= 0);
  if (!ShapedType::isDynamic(size))
    inside = inside && (first < 0 ? -first : first + count) <= size;
  if (!inside) {
    if (start)
      return emitOptionalError(loc, "range from ", first, " of length ", count,
                               " is outside dimension ", dim, " of ",
                               typeOf(whole));
    return emitOptionalError(loc, "range of length ", count,
                             " is outside dimension ", dim, " of ",
                             typeOf(whole));
  }
  return length.value_or(ShapedType::kDynamic);
}

LogicalResult SliceOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                        Types &types) {
  FailureOr<int64_t> length = inferRange(loc, op, op.getInput());
  if (failed(length))
    return failure();
  Shape shape(typeOf(op.getInput()).getShape());
  shape[op.getDim()] = *length;
  types.push_back(tensorOf(shape, op.getInput()));
  return success();
}

LogicalResult SliceBackwardOp::inferReturnTypes(MLIRContext *, Where loc,
                                                Adaptor op, Types &types) {
  if (failed(inferRange(loc, op, op.getInput())))
    return failure();
  types.push_back(op.getInput().getType());
  return success();
}

LogicalResult SplitOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                        Types &types) {
  if (failed(expectDim(loc, op.getDim(), op.getInput())))
    return failure();
  SmallVector<int64_t> shape(typeOf(op.getInput()).getShape());
  int64_t size = shape[op.getDim()], sum = 0;
  for (int64_t length : op.getLengths()) {
    if (length < 0)
      return emitOptionalError(loc, "lengths must not be negative, got ",
                               length);
    sum += length;
    shape[op.getDim()] = length;
    types.push_back(tensorOf(shape, op.getInput()));
  }
  return expectSize(loc, "sum of the lengths", size, sum);
}

LogicalResult ConcatOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                         Types &types) {
  if (op.getParts().empty())
    return emitOptionalError(loc, "expected at least one part");
  Value first = op.getParts().front();
  if (failed(expectDim(loc, op.getDim(), first)) ||
      failed(expectSameElements(loc, op.getParts())))
    return failure();
  SmallVector<int64_t> shape(typeOf(first).getShape());
  for (Value part : op.getParts().drop_front()) {
    if (failed(expectRank(loc, "every part", part, shape.size())))
      return failure();
    for (auto [dim, size] : llvm::enumerate(typeOf(part).getShape())) {
      if (dim == op.getDim()) {
        bool dynamic =
            ShapedType::isDynamic(size) || ShapedType::isDynamic(shape[dim]);
        shape[dim] = dynamic ? ShapedType::kDynamic : shape[dim] + size;
      } else if (failed(expectSize(loc, "other dimensions of every part",
                                   shape[dim], size))) {
        return failure();
      } else if (ShapedType::isDynamic(shape[dim])) {
        shape[dim] = size;
      }
    }
  }
  types.push_back(tensorOf(shape, first));
  return success();
}

/// Of an op that makes one element of all along some dimensions.
template <typename Adaptor>
static LogicalResult inferReduction(Where loc, Adaptor op, Types &types) {
  if (failed(expectDims(loc, op.getDims(), op.getInput())))
    return failure();
  Shape shape;
  for (auto [dim, size] : llvm::enumerate(typeOf(op.getInput()).getShape())) {
    if (!llvm::is_contained(op.getDims(), static_cast<int64_t>(dim)))
      shape.push_back(size);
    else if (op.getKeep())
      shape.push_back(1);
  }
  types.push_back(tensorOf(shape, op.getInput()));
  return success();
}

LogicalResult SumOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                      Types &types) {
  return inferReduction(loc, op, types);
}
LogicalResult MeanOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                       Types &types) {
  return inferReduction(loc, op, types);
}

/// Whether `small` can be repeated to the shape of `like`.
static LogicalResult expectRepeatable(Where loc, Value small, Value like) {
  FailureOr<Shape> shape = broadcast(loc, {small, like});
  if (failed(shape))
    return failure();
  ArrayRef<int64_t> to = typeOf(like).getShape();
  bool larger = shape->size() != to.size();
  for (auto [size, wanted] : llvm::zip(*shape, to))
    larger |= wanted == 1 && !ShapedType::isDynamic(size) && size != 1;
  if (!larger)
    return success();
  return emitOptionalError(loc, "cannot repeat ", typeOf(small),
                           " to the shape of ", typeOf(like));
}

LogicalResult BroadcastOp::inferReturnTypes(MLIRContext *, Where loc,
                                            Adaptor op, Types &types) {
  if (failed(expectRepeatable(loc, op.getInput(), op.getLike())))
    return failure();
  types.push_back(tensorOf(typeOf(op.getLike()).getShape(), op.getInput()));
  return success();
}

LogicalResult SumToOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                        Types &types) {
  if (failed(expectRepeatable(loc, op.getLike(), op.getInput())))
    return failure();
  types.push_back(tensorOf(typeOf(op.getLike()).getShape(), op.getInput()));
  return success();
}

LogicalResult IndexSelectOp::inferReturnTypes(MLIRContext *, Where loc,
                                              Adaptor op, Types &types) {
  if (failed(expectDim(loc, op.getDim(), op.getInput())))
    return failure();
  Shape shape(typeOf(op.getInput()).getShape());
  shape[op.getDim()] = typeOf(op.getIndices()).getDimSize(0);
  types.push_back(tensorOf(shape, op.getInput()));
  return success();
}

LogicalResult IndexSelectBackwardOp::verify() {
  Shape shape(typeOf(getInput()).getShape());
  if (failed(expectDim(getLoc(), getDim(), getInput())))
    return failure();
  shape[getDim()] = typeOf(getIndices()).getDimSize(0);
  if (failed(verifyCompatibleShape(shape, typeOf(getGradient()).getShape())))
    return emitOpError("expected a gradient of the shape of what was taken: ")
           << tensorOf(shape, getInput());
  return success();
}

StringRef ReshapeOp::getAtenName() { return "aten::reshape"; }
bool ReshapeOp::isView() { return true; }

void ReshapeOp::buildAtenArguments(AtenArguments &arguments) {
  arguments.tensor(getInput());
  arguments.shape(getType(), getSizes());
}

LogicalResult ReshapeOp::verify() {
  auto input = cast<RankedTensorType>(getInput().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  if (input.getElementType() != result.getElementType())
    return emitOpError("expected a result of ")
           << input.getElementType() << ", got " << result.getElementType();
  if (getSizes().size() != static_cast<size_t>(result.getNumDynamicDims()))
    return emitOpError(
               "expected one size per dynamic dimension of the result: ")
           << result.getNumDynamicDims() << ", got " << getSizes().size();
  if (input.hasStaticShape() && result.hasStaticShape() &&
      input.getNumElements() != result.getNumElements())
    return emitOpError("expected a result of ")
           << input.getNumElements() << " elements, got "
           << result.getNumElements();
  return success();
}

//===----------------------------------------------------------------------===//
// Derivatives
//===----------------------------------------------------------------------===//

LogicalResult ReshapeOp::buildGradients(OpBuilder &builder,
                                        Cotangents &cotangents) {
  if (cotangents.wants(getInputMutable()))
    cotangents.give(
        builder, getInputMutable(),
        ReshapeOp::create(builder, getLoc(), getInput().getType(),
                          cotangents.of(getOperation()->getResult(0)),
                          dynamicSizes(builder, getLoc(), getInput())));
  return success();
}

LogicalResult TransposeOp::buildGradients(OpBuilder &builder,
                                          Cotangents &cotangents) {
  if (cotangents.wants(getInputMutable()))
    cotangents.give(
        builder, getInputMutable(),
        TransposeOp::create(builder, getLoc(),
                            cotangents.of(getOperation()->getResult(0)),
                            getFirst(), getSecond()));
  return success();
}

LogicalResult SliceOp::buildGradients(OpBuilder &builder,
                                      Cotangents &cotangents) {
  if (cotangents.wants(getInputMutable()))
    cotangents.give(
        builder, getInputMutable(),
        SliceBackwardOp::create(builder, getLoc(),
                                cotangents.of(getOperation()->getResult(0)),
                                getInput(), getStartValue(), getLengthValue(),
                                getDimAttr(), getStartAttr(), getLengthAttr()));
  return success();
}

LogicalResult SplitOp::buildGradients(OpBuilder &builder,
                                      Cotangents &cotangents) {
  if (!cotangents.wants(getInputMutable()))
    return success();
  SmallVector<Value> parts;
  for (OpResult part : getOperation()->getResults())
    parts.push_back(cotangents.ofOrZeros(builder, part));
  cotangents.give(builder, getInputMutable(),
                  ConcatOp::create(builder, getLoc(), parts, getDim()));
  return success();
}

/// A range of a dimension whose start or length may be known.
static Value sliceOf(OpBuilder &builder, Location loc, Value value, int64_t dim,
                     OpFoldResult start, OpFoldResult length) {
  auto attribute = [](OpFoldResult each) {
    return cast_or_null<IntegerAttr>(dyn_cast<Attribute>(each));
  };
  return SliceOp::create(
      builder, loc, value, dyn_cast<Value>(start), dyn_cast<Value>(length),
      builder.getI64IntegerAttr(dim), attribute(start), attribute(length));
}

/// The sum of two sizes, each of which may be known.
static OpFoldResult addSizes(OpBuilder &builder, Location loc, OpFoldResult a,
                             OpFoldResult b) {
  std::optional<int64_t> x = getConstantIntValue(a), y = getConstantIntValue(b);
  if (x && y)
    return builder.getI64IntegerAttr(*x + *y);
  return arith::AddIOp::create(builder, loc,
                               getValueOrCreateConstantIndexOp(builder, loc, a),
                               getValueOrCreateConstantIndexOp(builder, loc, b))
      .getResult();
}

LogicalResult ConcatOp::buildGradients(OpBuilder &builder,
                                       Cotangents &cotangents) {
  Location loc = getLoc();
  auto dim = static_cast<int64_t>(getDim());
  Value dy = cotangents.of(getOperation()->getResult(0));
  OpFoldResult start = builder.getI64IntegerAttr(0);
  for (OpOperand &part : getPartsMutable()) {
    int64_t size = typeOf(part.get()).getDimSize(dim);
    OpFoldResult length = builder.getI64IntegerAttr(size);
    if (ShapedType::isDynamic(size))
      length = tensor::DimOp::create(builder, loc, part.get(), dim).getResult();
    if (cotangents.wants(part))
      cotangents.give(builder, part,
                      sliceOf(builder, loc, dy, dim, start, length));
    start = addSizes(builder, loc, start, length);
  }
  return success();
}

/// The gradient of a reduction with size 1 where the reduced dimensions were.
static Value keepDims(OpBuilder &builder, Location loc, Value gradient,
                      Value input, ArrayRef<int64_t> dims) {
  Shape shape(typeOf(input).getShape());
  for (int64_t dim : dims)
    shape[dim] = 1;
  SmallVector<Value> sizes;
  for (auto [dim, size] : llvm::enumerate(shape))
    if (ShapedType::isDynamic(size))
      sizes.push_back(tensor::DimOp::create(builder, loc, input, dim));
  return ReshapeOp::create(builder, loc, tensorOf(shape, input), gradient,
                           sizes);
}

LogicalResult SumOp::buildGradients(OpBuilder &builder,
                                    Cotangents &cotangents) {
  if (!cotangents.wants(getInputMutable()))
    return success();
  Value dy = cotangents.of(getOperation()->getResult(0));
  if (!getKeep())
    dy = keepDims(builder, getLoc(), dy, getInput(), getDims());
  cotangents.give(builder, getInputMutable(),
                  BroadcastOp::create(builder, getLoc(), dy, getInput()));
  return success();
}

/// A gradient divided by the number of elements along some dimensions.
static Value divideByCount(OpBuilder &builder, Location loc, Value gradient,
                           Value input, ArrayRef<int64_t> dims) {
  int64_t known = 1;
  Value dynamic;
  for (int64_t dim : dims) {
    if (!typeOf(input).isDynamicDim(dim)) {
      known *= typeOf(input).getDimSize(dim);
      continue;
    }
    Value size = tensor::DimOp::create(builder, loc, input, dim);
    dynamic =
        dynamic ? arith::MulIOp::create(builder, loc, dynamic, size) : size;
  }
  if (known != 1)
    gradient = ScaleOp::create(
        builder, loc, gradient,
        builder.getF64FloatAttr(1.0 / static_cast<double>(known)));
  if (!dynamic)
    return gradient;
  Value count = ScalarOp::create(builder, loc, tensorOf({}, input), dynamic);
  return DivOp::create(builder, loc, gradient, count);
}

LogicalResult MeanOp::buildGradients(OpBuilder &builder,
                                     Cotangents &cotangents) {
  if (!cotangents.wants(getInputMutable()))
    return success();
  Value dy = cotangents.of(getOperation()->getResult(0));
  if (!getKeep())
    dy = keepDims(builder, getLoc(), dy, getInput(), getDims());
  dy = divideByCount(builder, getLoc(), dy, getInput(), getDims());
  cotangents.give(builder, getInputMutable(),
                  BroadcastOp::create(builder, getLoc(), dy, getInput()));
  return success();
}

LogicalResult BroadcastOp::buildGradients(OpBuilder &builder,
                                          Cotangents &cotangents) {
  if (!cotangents.wants(getInputMutable()))
    return success();
  Value dy = cotangents.of(getOperation()->getResult(0));
  // What was repeated is known at run time only where sizes are dynamic.
  Value dx =
      typeOf(getInput()).hasStaticShape()
          ? sumToShapeOf(builder, getLoc(), dy, getInput())
          : SumToOp::create(builder, getLoc(), dy, getInput()).getResult();
  cotangents.give(builder, getInputMutable(), dx);
  return success();
}

LogicalResult IndexSelectOp::buildGradients(OpBuilder &builder,
                                            Cotangents &cotangents) {
  if (cotangents.wants(getInputMutable()))
    cotangents.give(builder, getInputMutable(),
                    IndexSelectBackwardOp::create(
                        builder, getLoc(),
                        cotangents.of(getOperation()->getResult(0)), getInput(),
                        getIndices(), getDim()));
  return success();
}

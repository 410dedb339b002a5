//===- NnShapes.cpp - Types of results ------------------------------------===//
//
// Infers the type of every result from the operands. A dynamic dimension
// matches any; where two operands share a dimension, a static size wins.
//
//===----------------------------------------------------------------------===//

#include "dialects/Nn/IR/Nn.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace sextant::nn;

using Where = std::optional<Location>;
using Types = SmallVectorImpl<Type>;

//===----------------------------------------------------------------------===//
// Helpers
//===----------------------------------------------------------------------===//

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static RankedTensorType tensorOf(ArrayRef<int64_t> shape, Value like) {
  return RankedTensorType::get(shape, typeOf(like).getElementType());
}

static bool differ(int64_t a, int64_t b) {
  return !ShapedType::isDynamic(a) && !ShapedType::isDynamic(b) && a != b;
}

static LogicalResult expectRank(Where loc, StringRef what, Value value,
                                int64_t rank) {
  if (typeOf(value).getRank() == rank)
    return success();
  return emitOptionalError(loc, what, " must have rank ", rank, ", got ",
                           typeOf(value));
}

static LogicalResult expectSize(Where loc, StringRef what, int64_t expected,
                                int64_t got) {
  if (!differ(expected, got))
    return success();
  return emitOptionalError(loc, what, " must be ", expected, ", got ", got);
}

static LogicalResult expectSameElements(Where loc, ValueRange values) {
  for (Value value : values)
    if (typeOf(value).getElementType() !=
        typeOf(values.front()).getElementType())
      return emitOptionalError(loc, "operands must share an element type, got ",
                               typeOf(values.front()), " and ", typeOf(value));
  return success();
}

static LogicalResult expectDim(Where loc, int64_t dim, Value value) {
  if (dim >= 0 && dim < typeOf(value).getRank())
    return success();
  return emitOptionalError(loc, "dimension ", dim, " is out of range of ",
                           typeOf(value));
}

static LogicalResult expectNotScalar(Where loc, StringRef what, Value value) {
  if (typeOf(value).getRank() > 0)
    return success();
  return emitOptionalError(loc, what, " must have at least one dimension, got ",
                           typeOf(value));
}

/// The shape of two tensors combined, as PyTorch broadcasts.
static FailureOr<SmallVector<int64_t>> broadcast(Where loc, Value left,
                                                 Value right) {
  ArrayRef<int64_t> a = typeOf(left).getShape(), b = typeOf(right).getShape();
  if (a.size() < b.size())
    std::swap(a, b);
  SmallVector<int64_t> shape(a);
  size_t shift = a.size() - b.size();
  for (auto [i, size] : llvm::enumerate(b)) {
    int64_t &other = shape[shift + i];
    if (size == 1)
      continue;
    if (other == 1 || ShapedType::isDynamic(other)) {
      other = size == ShapedType::kDynamic && other != 1 ? other : size;
      continue;
    }
    if (differ(other, size))
      return emitOptionalError(loc, "cannot broadcast ", typeOf(left), " and ",
                               typeOf(right));
  }
  return shape;
}

static LogicalResult inferBroadcast(Where loc, Value left, Value right,
                                    Types &types) {
  if (failed(expectSameElements(loc, {left, right})))
    return failure();
  FailureOr<SmallVector<int64_t>> shape = broadcast(loc, left, right);
  if (failed(shape))
    return failure();
  types.push_back(tensorOf(*shape, left));
  return success();
}

/// Both operands have the type of the result.
static LogicalResult inferSame(Where loc, Value a, Value b, Types &types) {
  if (failed(verifyCompatibleShape(a.getType(), b.getType())) ||
      failed(expectSameElements(loc, {a, b})))
    return emitOptionalError(loc, "operands must have one type, got ",
                             typeOf(a), " and ", typeOf(b));
  types.push_back(typeOf(b));
  return success();
}

//===----------------------------------------------------------------------===//
// Embeddings and matrix products
//===----------------------------------------------------------------------===//

LogicalResult EmbeddingOp::inferReturnTypes(MLIRContext *, Where loc,
                                            Adaptor op, Types &types) {
  if (failed(expectRank(loc, "weight", op.getWeight(), 2)))
    return failure();
  SmallVector<int64_t> shape(typeOf(op.getIndices()).getShape());
  shape.push_back(typeOf(op.getWeight()).getDimSize(1));
  types.push_back(tensorOf(shape, op.getWeight()));
  return success();
}

LogicalResult EmbeddingBackwardOp::inferReturnTypes(MLIRContext *, Where loc,
                                                    Adaptor op, Types &types) {
  if (failed(expectRank(loc, "weight", op.getWeight(), 2)))
    return failure();
  types.push_back(typeOf(op.getWeight()));
  return success();
}

LogicalResult LinearOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                         Types &types) {
  auto input = typeOf(op.getInput());
  if (failed(expectNotScalar(loc, "input", op.getInput())) ||
      failed(expectRank(loc, "weight", op.getWeight(), 2)))
    return failure();
  auto weight = typeOf(op.getWeight());
  if (failed(expectSameElements(loc, {op.getInput(), op.getWeight()})) ||
      failed(expectSize(loc, "size of the input's last dimension",
                        weight.getDimSize(1), input.getShape().back())))
    return failure();
  if (Value bias = op.getBias())
    if (failed(expectRank(loc, "bias", bias, 1)) ||
        failed(expectSize(loc, "size of the bias", weight.getDimSize(0),
                          typeOf(bias).getDimSize(0))))
      return failure();
  SmallVector<int64_t> shape(input.getShape().drop_back());
  shape.push_back(weight.getDimSize(0));
  types.push_back(tensorOf(shape, op.getInput()));
  return success();
}

LogicalResult MatmulOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                         Types &types) {
  auto left = typeOf(op.getLeft()), right = typeOf(op.getRight());
  if (failed(expectNotScalar(loc, "left operand", op.getLeft())) ||
      failed(expectRank(loc, "right operand", op.getRight(), 2)) ||
      failed(expectSameElements(loc, {op.getLeft(), op.getRight()})) ||
      failed(expectSize(loc, "size of the contracted dimension",
                        left.getShape().back(), right.getDimSize(0))))
    return failure();
  SmallVector<int64_t> shape(left.getShape().drop_back());
  shape.push_back(right.getDimSize(1));
  types.push_back(tensorOf(shape, op.getLeft()));
  return success();
}

//===----------------------------------------------------------------------===//
// Elementwise ops
//===----------------------------------------------------------------------===//

LogicalResult AddOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                      Types &types) {
  return inferBroadcast(loc, op.getLeft(), op.getRight(), types);
}
LogicalResult MulOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                      Types &types) {
  return inferBroadcast(loc, op.getLeft(), op.getRight(), types);
}
LogicalResult MaximumOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                          Types &types) {
  return inferBroadcast(loc, op.getLeft(), op.getRight(), types);
}
LogicalResult GeluOp::inferReturnTypes(MLIRContext *, Where, Adaptor op,
                                       Types &types) {
  types.push_back(op.getInput().getType());
  return success();
}
LogicalResult GeluBackwardOp::inferReturnTypes(MLIRContext *, Where loc,
                                               Adaptor op, Types &types) {
  return inferSame(loc, op.getGradient(), op.getInput(), types);
}
LogicalResult SiluOp::inferReturnTypes(MLIRContext *, Where, Adaptor op,
                                       Types &types) {
  types.push_back(op.getInput().getType());
  return success();
}
LogicalResult SiluBackwardOp::inferReturnTypes(MLIRContext *, Where loc,
                                               Adaptor op, Types &types) {
  return inferSame(loc, op.getGradient(), op.getInput(), types);
}

//===----------------------------------------------------------------------===//
// Losses
//===----------------------------------------------------------------------===//

LogicalResult LogSoftmaxOp::inferReturnTypes(MLIRContext *, Where loc,
                                             Adaptor op, Types &types) {
  if (failed(expectNotScalar(loc, "input", op.getInput())))
    return failure();
  types.push_back(op.getInput().getType());
  return success();
}
LogicalResult LogSoftmaxBackwardOp::inferReturnTypes(MLIRContext *, Where loc,
                                                     Adaptor op, Types &types) {
  return inferSame(loc, op.getGradient(), op.getOutput(), types);
}

LogicalResult NllLossOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                          Types &types) {
  auto rows = typeOf(op.getLogProbabilities());
  if (failed(
          expectRank(loc, "log probabilities", op.getLogProbabilities(), 2)) ||
      failed(expectSize(loc, "number of labels", rows.getDimSize(0),
                        typeOf(op.getLabels()).getDimSize(0))))
    return failure();
  SmallVector<int64_t> shape;
  if (op.getReduction() == Reduction::none)
    shape.push_back(rows.getDimSize(0));
  types.push_back(tensorOf(shape, op.getLogProbabilities()));
  types.push_back(tensorOf({}, op.getLogProbabilities()));
  return success();
}

LogicalResult NllLossBackwardOp::inferReturnTypes(MLIRContext *, Where loc,
                                                  Adaptor op, Types &types) {
  if (failed(expectRank(loc, "log probabilities", op.getLogProbabilities(), 2)))
    return failure();
  types.push_back(op.getLogProbabilities().getType());
  return success();
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

static LogicalResult expectRows(Where loc, Value input, ValueRange vectors) {
  if (failed(expectNotScalar(loc, "input", input)))
    return failure();
  for (Value vector : vectors) {
    if (failed(expectRank(loc, "weight and bias", vector, 1)))
      return failure();
    if (typeOf(vector).isDynamicDim(0))
      return emitOptionalError(loc, "weight must have a static size, got ",
                               typeOf(vector));
    if (failed(expectSize(loc, "size of the input's last dimension",
                          typeOf(vector).getDimSize(0),
                          typeOf(input).getShape().back())))
      return failure();
  }
  return success();
}

static Type onePerRow(Value input) {
  SmallVector<int64_t> shape(typeOf(input).getShape());
  shape.back() = 1;
  return tensorOf(shape, input);
}

LogicalResult LayerNormOp::inferReturnTypes(MLIRContext *, Where loc,
                                            Adaptor op, Types &types) {
  if (failed(expectRows(loc, op.getInput(), {op.getWeight(), op.getBias()})))
    return failure();
  types.append({op.getInput().getType(), onePerRow(op.getInput()),
                onePerRow(op.getInput())});
  return success();
}

LogicalResult LayerNormBackwardOp::inferReturnTypes(MLIRContext *, Where loc,
                                                    Adaptor op, Types &types) {
  if (failed(expectRows(loc, op.getInput(), {op.getWeight(), op.getBias()})))
    return failure();
  types.append({op.getInput().getType(), op.getWeight().getType(),
                op.getBias().getType()});
  return success();
}

LogicalResult RmsNormOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                          Types &types) {
  if (failed(expectRows(loc, op.getInput(), op.getWeight())))
    return failure();
  types.append({op.getInput().getType(), onePerRow(op.getInput())});
  return success();
}

//===----------------------------------------------------------------------===//
// Shapes, parts and sums
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

LogicalResult SliceOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                        Types &types) {
  if (failed(expectDim(loc, op.getDim(), op.getInput())))
    return failure();
  SmallVector<int64_t> shape(typeOf(op.getInput()).getShape());
  int64_t size = shape[op.getDim()], start = op.getStart(),
          length = op.getLength();
  bool inside = length >= 0 && (start >= 0 || start + length <= 0);
  if (!ShapedType::isDynamic(size))
    inside = inside && (start < 0 ? -start : start + length) <= size;
  if (!inside)
    return emitOptionalError(loc, "range from ", start, " of length ", length,
                             " is outside dimension ", op.getDim(), " of ",
                             typeOf(op.getInput()));
  shape[op.getDim()] = length;
  types.push_back(tensorOf(shape, op.getInput()));
  return success();
}

LogicalResult SliceBackwardOp::inferReturnTypes(MLIRContext *, Where loc,
                                                Adaptor op, Types &types) {
  if (failed(expectDim(loc, op.getDim(), op.getInput())))
    return failure();
  types.push_back(op.getInput().getType());
  return success();
}

int64_t SliceBackwardOp::getEnd() {
  // Accessors are unsigned; a start that counts from the end is negative.
  auto start = static_cast<int64_t>(getStart());
  int64_t end = start + static_cast<int64_t>(getLength());
  bool atTheEnd = start < 0 && end == 0;
  return atTheEnd ? std::numeric_limits<int64_t>::max() : end;
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

LogicalResult SumOp::inferReturnTypes(MLIRContext *, Where loc, Adaptor op,
                                      Types &types) {
  SmallVector<int64_t> shape;
  for (int64_t dim : op.getDims())
    if (failed(expectDim(loc, dim, op.getInput())))
      return failure();
  for (auto [dim, size] : llvm::enumerate(typeOf(op.getInput()).getShape())) {
    if (!llvm::is_contained(op.getDims(), static_cast<int64_t>(dim)))
      shape.push_back(size);
    else if (op.getKeep())
      shape.push_back(1);
  }
  types.push_back(tensorOf(shape, op.getInput()));
  return success();
}

LogicalResult BroadcastOp::inferReturnTypes(MLIRContext *, Where loc,
                                            Adaptor op, Types &types) {
  FailureOr<SmallVector<int64_t>> shape =
      broadcast(loc, op.getInput(), op.getLike());
  if (failed(shape))
    return failure();
  if (shape->size() != static_cast<size_t>(typeOf(op.getLike()).getRank()))
    return emitOptionalError(loc, "cannot repeat ", typeOf(op.getInput()),
                             " to the shape of ", typeOf(op.getLike()));
  types.push_back(tensorOf(typeOf(op.getLike()).getShape(), op.getInput()));
  return success();
}

StringRef ReshapeOp::getAtenName() { return "aten::reshape"; }
bool ReshapeOp::isView() { return true; }

void ReshapeOp::buildAtenArguments(AtenArguments &arguments) {
  arguments.tensor(getInput());
  arguments.shape(getType(), getSizes());
}

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

LogicalResult AdamWOp::inferReturnTypes(MLIRContext *, Where,
                                        ValueRange operands,
                                        DictionaryAttr attributes,
                                        OpaqueProperties properties,
                                        RegionRange regions, Types &types) {
  Adaptor op(operands, attributes, properties, regions);
  for (int group = 0; group < 3; ++group)
    llvm::append_range(types, op.getParams().getTypes());
  return success();
}

//===- NnTypes.cpp - Questions about types of operands --------------------===//
//
// Each function that begins with "expect" reports an error that names what was
// expected and what was found.
//
//===----------------------------------------------------------------------===//

#include "dialects/Nn/IR/NnTypes.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace sextant;

RankedTensorType nn::typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

RankedTensorType nn::tensorOf(ArrayRef<int64_t> shape, Value like) {
  return RankedTensorType::get(shape, typeOf(like).getElementType());
}

static bool differ(int64_t a, int64_t b) {
  return !ShapedType::isDynamic(a) && !ShapedType::isDynamic(b) && a != b;
}

LogicalResult nn::expectRank(Where loc, StringRef what, Value value,
                             int64_t rank) {
  if (typeOf(value).getRank() == rank)
    return success();
  return emitOptionalError(loc, what, " must have rank ", rank, ", got ",
                           typeOf(value));
}

LogicalResult nn::expectSize(Where loc, StringRef what, int64_t expected,
                             int64_t got) {
  if (!differ(expected, got))
    return success();
  return emitOptionalError(loc, what, " must be ", expected, ", got ", got);
}

LogicalResult nn::expectSameElements(Where loc, ValueRange values) {
  for (Value value : values)
    if (typeOf(value).getElementType() !=
        typeOf(values.front()).getElementType())
      return emitOptionalError(loc, "operands must share an element type, got ",
                               typeOf(values.front()), " and ", typeOf(value));
  return success();
}

LogicalResult nn::expectDim(Where loc, int64_t dim, Value value) {
  if (dim >= 0 && dim < typeOf(value).getRank())
    return success();
  return emitOptionalError(loc, "dimension ", dim, " is out of range of ",
                           typeOf(value));
}

LogicalResult nn::expectDims(Where loc, ArrayRef<int64_t> dims, Value value) {
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (failed(expectDim(loc, dim, value)))
      return failure();
    if (llvm::is_contained(dims.take_front(i), dim))
      return emitOptionalError(loc, "dimension ", dim, " is named twice");
  }
  // ATen takes no dimension for all of them.
  if (dims.empty() && typeOf(value).getRank() > 0)
    return emitOptionalError(loc, "expected at least one dimension of ",
                             typeOf(value));
  return success();
}

LogicalResult nn::expectNotScalar(Where loc, StringRef what, Value value) {
  if (typeOf(value).getRank() > 0)
    return success();
  return emitOptionalError(loc, what, " must have at least one dimension, got ",
                           typeOf(value));
}

bool nn::broadcastInto(Shape &shape, ArrayRef<int64_t> more) {
  if (shape.size() < more.size())
    shape.insert(shape.begin(), more.size() - shape.size(), 1);
  size_t shift = shape.size() - more.size();
  for (auto [i, size] : llvm::enumerate(more)) {
    int64_t &known = shape[shift + i];
    if (size == 1)
      continue;
    if (differ(known, size) && known != 1)
      return false;
    if (known == 1 || !ShapedType::isDynamic(size))
      known = size;
  }
  return true;
}

FailureOr<nn::Shape> nn::broadcast(Where loc, ValueRange values) {
  Shape shape;
  for (Value value : values) {
    if (broadcastInto(shape, typeOf(value).getShape()))
      continue;
    std::string types;
    llvm::raw_string_ostream os(types);
    llvm::interleave(
        values, [&](Value each) { os << "'" << each.getType() << "'"; },
        [&] { os << " and "; });
    return emitOptionalError(loc, "cannot broadcast ", types);
  }
  return shape;
}

LogicalResult nn::inferBroadcast(Where loc, ValueRange operands, Types &types) {
  if (failed(expectSameElements(loc, operands)))
    return failure();
  FailureOr<Shape> shape = broadcast(loc, operands);
  if (failed(shape))
    return failure();
  types.push_back(tensorOf(*shape, operands.front()));
  return success();
}

LogicalResult nn::inferSame(Where loc, Value a, Value b, Types &types) {
  if (failed(verifyCompatibleShape(a.getType(), b.getType())) ||
      failed(expectSameElements(loc, {a, b})))
    return emitOptionalError(loc, "operands must have one type, got ",
                             typeOf(a), " and ", typeOf(b));
  types.push_back(typeOf(b));
  return success();
}

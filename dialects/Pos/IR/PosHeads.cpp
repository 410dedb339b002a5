//===- PosHeads.cpp - Verification of vectors in payloads -----------------===//
//
// Verifiers here check the vectors of a score of all heads: extents of matrices
// and vectors must fit.
//
//===----------------------------------------------------------------------===//

#include "dialects/Pos/IR/Pos.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace sextant::pos;

static bool differ(int64_t a, int64_t b) {
  return !ShapedType::isDynamic(a) && !ShapedType::isDynamic(b) && a != b;
}

static int64_t getExtent(Value vector) {
  return cast<RankedTensorType>(vector.getType()).getDimSize(0);
}

LogicalResult ContractOp::verify() {
  auto matrix = cast<RankedTensorType>(getMatrix().getType());
  int64_t rows = matrix.getDimSize(0), columns = matrix.getDimSize(1);
  int64_t elements = getExtent(getVector());
  if (differ(rows, getExtent(getResult())))
    return emitOpError("result must have one element per row of the matrix "
                       "(M1): ")
           << rows << ", got " << getExtent(getResult());
  if (!getFirstColumn()) {
    if (differ(columns, elements))
      return emitOpError("matrix must have one column per element of the "
                         "vector (M2): ")
             << elements << ", got " << columns;
    return success();
  }
  APInt first;
  if (!matchPattern(getFirstColumn(), m_ConstantInt(&first)))
    return success();
  int64_t begin = first.getSExtValue();
  bool isKnown =
      !ShapedType::isDynamic(columns) && !ShapedType::isDynamic(elements);
  if (begin < 0 || (isKnown && begin + elements > columns)) {
    InFlightDiagnostic diag = emitOpError("columns from ") << begin;
    if (isKnown)
      diag << " to " << begin + elements - 1;
    return diag << " are not inside the matrix (M2): " << matrix;
  }
  return success();
}

LogicalResult ForHeadsOp::verifyRegions() {
  Block &block = getBody().front();
  if (block.getNumArguments() != getInputs().size() ||
      !llvm::all_of(block.getArgumentTypes(),
                    [](Type type) { return type.isF32(); }))
    return emitOpError("body must take one f32 per input: ")
           << getInputs().size();
  auto yield = block.empty() ? YieldOp() : dyn_cast<YieldOp>(block.back());
  if (!yield || yield.getNumOperands() != 1 ||
      !yield.getOperand(0).getType().isF32())
    return emitOpError("body must yield ('f32')");
  for (Value input : getInputs())
    if (differ(getExtent(input), getExtent(getResult())))
      return emitOpError("inputs and result must have one element per head: ")
             << getExtent(getResult()) << ", got " << getExtent(input);
  return success();
}

AxisSet HostOp::getOwnAxes() { return {Axis::score, Axis::row}; }

LogicalResult HostOp::verify() {
  auto score = (*this)->getParentOfType<ScoreOp>();
  if (!score)
    return emitOpError("may only stand in a score payload");
  Type type = score.getBody().front().getArgument(0).getType();
  if (!isa<ScoreOp>((*this)->getParentOp()))
    return emitOpError("may only stand in the payload itself, not in a region "
                       "of it");
  if (getType() != type)
    return emitOpError("must have the type of the score's argument: ")
           << type << ", got " << getType();
  return success();
}

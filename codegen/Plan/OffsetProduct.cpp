//===- OffsetProduct.cpp - Products with one row per offset ---------------===//
//
// Recognised is a sum in a score payload whose term is the product of a
// `pos.query_dot` at the sum's own column and a factor made of the column, the
// offset, extents and constants; and a `pos.query_dot` by itself whose index
// tells the offset. Any other sum stays one of its terms, any other product one
// with all rows of its table.
//
//===----------------------------------------------------------------------===//

#include "codegen/Plan/KernelPlan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Whether a hoisted value varies with the offset at most, and reads nothing.
static bool isOfOffset(pos::HoistOp hoist) {
  for (auto axis : hoist.getAxes().getAsRange<pos::AxisAttr>())
    if (axis.getValue() != pos::Axis::offset)
      return false;
  WalkResult found = hoist.walk([&](Operation *op) {
    bool reads = isa<pos::ReadOp>(op);
    for (Value operand : op->getOperands())
      if (auto other = operand.getDefiningOp<pos::HoistOp>())
        reads |= !isOfOffset(other);
    return reads ? WalkResult::interrupt() : WalkResult::advance();
  });
  return !found.wasInterrupted();
}

/// Whether a value is made of the offset, `column` (may be null), extents and
/// constants.
static bool isOfOffset(Value value, Value column) {
  if (value == column)
    return true;
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (auto hoist = dyn_cast<pos::HoistOp>(op))
    return isOfOffset(hoist);
  if (auto offset = dyn_cast<pos::OffsetOp>(op))
    return offset.getAxis() == 0;
  if (isa<pos::ExtentOp, pos::ScaleOp>(op) ||
      op->hasTrait<OpTrait::ConstantLike>())
    return true;
  return isPure(op) && op->getNumRegions() == 0 &&
         OpTrait::hasElementwiseMappableTraits(op) &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return isOfOffset(operand, column);
         });
}

/// Whether a value is the same for all scores.
static bool isOfExtents(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || isa<pos::HoistOp, pos::OffsetOp>(op))
    return false;
  return op->getNumOperands() == 0
             ? isOfOffset(value, Value())
             : isOfOffset(value, Value()) &&
                   llvm::all_of(op->getOperands(), isOfExtents);
}

/// Whether the kernel can make rows of what the op reads.
static bool readsParams(pos::QueryDotOp dot) {
  return isa<BlockArgument>(dot.getTable()) &&
         (!dot.getAddend() || isa<BlockArgument>(dot.getAddend()));
}

static std::optional<OffsetProduct> getSum(pos::SumOp sum) {
  Block &body = sum.getBody().front();
  Value column = body.getArgument(0);
  auto term =
      body.getTerminator()->getOperand(0).getDefiningOp<arith::MulFOp>();
  if (!term || term->getBlock() != &body || !isOfExtents(sum.getCount()))
    return std::nullopt;
  for (auto [row, factor] : {std::pair(term.getLhs(), term.getRhs()),
                             std::pair(term.getRhs(), term.getLhs())}) {
    auto dot = row.getDefiningOp<pos::QueryDotOp>();
    if (!dot || dot->getBlock() != &body || !dot.getColumns() ||
        dot.getIndex() != column || !readsParams(dot))
      continue;
    // Another use of the product would need it by itself.
    if (dot->hasOneUse() && isOfOffset(factor, column))
      return OffsetProduct{sum, getRowTable(dot), factor, Value()};
  }
  return std::nullopt;
}

/// Whether no more than two offsets give an integer the same value: it is the
/// offset or its magnitude, with either sign, plus what is the same for all
/// scores. One that is clipped or divided has few values, and a table few rows.
static bool tellsOffset(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (auto hoist = dyn_cast<pos::HoistOp>(op))
    return isOfOffset(hoist) &&
           tellsOffset(hoist.getBody().front().getTerminator()->getOperand(0));
  if (auto offset = dyn_cast<pos::OffsetOp>(op))
    return offset.getAxis() == 0;
  if (isa<math::AbsIOp>(op))
    return tellsOffset(op->getOperand(0));
  if (!isa<arith::AddIOp, arith::SubIOp>(op))
    return false;
  Value left = op->getOperand(0), right = op->getOperand(1);
  return (tellsOffset(left) && isOfExtents(right)) ||
         (isOfExtents(left) && tellsOffset(right));
}

std::optional<OffsetProduct> codegen::getOffsetProduct(Operation *op) {
  if (auto sum = dyn_cast<pos::SumOp>(op))
    return getSum(sum);
  auto dot = dyn_cast<pos::QueryDotOp>(op);
  if (!dot || !readsParams(dot) || !tellsOffset(dot.getIndex()))
    return std::nullopt;
  return OffsetProduct{dot, getRowTable(dot), Value(), dot.getIndex()};
}

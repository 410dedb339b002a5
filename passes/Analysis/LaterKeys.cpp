//===- LaterKeys.cpp - Whether a mask hides later keys --------------------===//
//
// The analysis follows integers as query * q + key * k + constant. A comparison
// of two of them says something of all keys where it depends on the difference
// t of the two indices only, and a later key has t >= 1:
//
//   key < query + 1     key - query - 1 < 0      t - 1 < 0     never for t >= 1
//   not (key > query)   key - query <= 0         t <= 0        never
//   query - key >= -1   query - key + 1 >= 0     -t + 1 >= 0   for t = 1
//
//===----------------------------------------------------------------------===//

#include "passes/Analysis/LaterKeys.h"
#include "dialects/Pos/IR/Pos.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include <cstdlib>

using namespace mlir;
using namespace sextant;

//===----------------------------------------------------------------------===//
// Linear forms
//===----------------------------------------------------------------------===//

namespace {
/// query * `query` + key * `key` + `constant`.
struct LinearForm {
  int64_t query = 0, key = 0, constant = 0;

  LinearForm times(int64_t factor) const {
    return {query * factor, key * factor, constant * factor};
  }
  LinearForm plus(const LinearForm &other) const {
    return {query + other.query, key + other.key, constant + other.constant};
  }
};

/// Finds the linear forms of integers of one mask.
class LinearForms {
public:
  explicit LinearForms(bool hasPositions) : hasPositions(hasPositions) {}

  /// The form of an i32, if it has one.
  std::optional<LinearForm> find(Value value) const;

private:
  std::optional<LinearForm> findPlace(Operation *op) const;

  bool hasPositions;
};
} // namespace

/// Above this, a value of lengths below 2^30 might not fit 32 bits.
static bool isExact(const LinearForm &form) {
  return std::abs(form.query) <= 1 && std::abs(form.key) <= 1 &&
         std::abs(form.constant) < (int64_t(1) << 30);
}

static std::optional<LinearForm> getIndex(pos::Side side) {
  if (side == pos::Side::self)
    return std::nullopt;
  return side == pos::Side::query ? LinearForm{1, 0, 0} : LinearForm{0, 1, 0};
}

/// What a payload asks about where it stands.
std::optional<LinearForm> LinearForms::findPlace(Operation *op) const {
  if (auto index = dyn_cast<pos::IndexOp>(op))
    return getIndex(index.getSide());
  if (auto row = dyn_cast<pos::TensorRowOp>(op);
      row && row.getSide() == pos::Side::key)
    return getIndex(pos::Side::key);
  if (hasPositions)
    return std::nullopt;
  if (auto coord = dyn_cast<pos::CoordOp>(op))
    return getIndex(coord.getSide());
  if (isa<pos::OffsetOp>(op))
    return LinearForm{-1, 1, 0};
  return std::nullopt;
}

std::optional<LinearForm> LinearForms::find(Value value) const {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant))) {
    LinearForm form{0, 0, constant.getSExtValue()};
    return isExact(form) ? std::optional(form) : std::nullopt;
  }
  Operation *op = value.getDefiningOp();
  if (!op || !isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op))
    return op ? findPlace(op) : std::nullopt;
  std::optional<LinearForm> left = find(op->getOperand(0));
  std::optional<LinearForm> right = find(op->getOperand(1));
  if (!left || !right)
    return std::nullopt;
  auto isConstant = [](const LinearForm &form) {
    return form.query == 0 && form.key == 0;
  };
  LinearForm form;
  if (isa<arith::AddIOp>(op))
    form = left->plus(*right);
  else if (isa<arith::SubIOp>(op))
    form = left->plus(right->times(-1));
  else if (isConstant(*left))
    form = right->times(left->constant);
  else if (isConstant(*right))
    form = left->times(right->constant);
  else
    return std::nullopt;
  return isExact(form) ? std::optional(form) : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Conditions
//===----------------------------------------------------------------------===//

/// Whether slope * t + constant compares with 0 in this way for no t >= 1.
static bool isNever(arith::CmpIPredicate predicate, int64_t slope,
                    int64_t constant) {
  using Predicate = arith::CmpIPredicate;
  int64_t first = slope + constant;
  switch (predicate) {
  case Predicate::slt:
    return slope >= 0 && first >= 0;
  case Predicate::sle:
    return slope >= 0 && first > 0;
  case Predicate::sgt:
    return slope <= 0 && first <= 0;
  case Predicate::sge:
    return slope <= 0 && first < 0;
  case Predicate::eq: // no root at or beyond 1
    return slope == 0 ? constant != 0
                      : constant % slope != 0 || -constant / slope < 1;
  case Predicate::ne:
    return slope == 0 && constant == 0;
  default: // of unsigned numbers
    return false;
  }
}

/// Whether a condition, or its negation, is false for later keys.
static bool isFalseForLaterKeys(Value condition, bool isNegated,
                                const LinearForms &forms) {
  APInt constant;
  if (matchPattern(condition, m_ConstantInt(&constant)))
    return constant.isZero() != isNegated;
  Operation *op = condition.getDefiningOp();
  if (!op)
    return false;
  auto isFalse = [&](unsigned operand, bool negates = false) {
    return isFalseForLaterKeys(op->getOperand(operand), isNegated != negates,
                               forms);
  };
  if (isa<arith::AndIOp>(op))
    return isNegated ? isFalse(0) && isFalse(1) : isFalse(0) || isFalse(1);
  if (isa<arith::OrIOp>(op))
    return isNegated ? isFalse(0) || isFalse(1) : isFalse(0) && isFalse(1);
  if (isa<arith::XOrIOp>(op) &&
      matchPattern(op->getOperand(1), m_ConstantInt(&constant)))
    return isFalse(0, /*negates=*/!constant.isZero());
  auto compare = dyn_cast<arith::CmpIOp>(op);
  if (!compare)
    return false;
  std::optional<LinearForm> left = forms.find(compare.getLhs());
  std::optional<LinearForm> right = forms.find(compare.getRhs());
  if (!left || !right)
    return false;
  LinearForm difference = left->plus(right->times(-1));
  arith::CmpIPredicate predicate = compare.getPredicate();
  if (isNegated)
    predicate = arith::invertPredicate(predicate);
  return difference.query == -difference.key &&
         isNever(predicate, difference.key, difference.constant);
}

bool passes::hidesLaterKeys(Value condition, bool hasPositions) {
  return isFalseForLaterKeys(condition, /*isNegated=*/false,
                             LinearForms(hasPositions));
}

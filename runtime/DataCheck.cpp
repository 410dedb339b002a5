//===- DataCheck.cpp - Relations of two integers --------------------------===//

#include "runtime/DataCheck.h"

using namespace sextant::runtime;

static bool holds(int64_t left, Predicate predicate, int64_t right) {
  switch (predicate) {
  case Predicate::Equal:
  case Predicate::Is:
    return left == right;
  case Predicate::AtMost:
    return left <= right;
  case Predicate::AtLeast:
    return left >= right;
  case Predicate::MultipleOf:
    return right == 0 ? left == 0 : right == -1 || left % right == 0;
  }
  return false;
}

Status sextant::runtime::compare(int64_t left, Predicate predicate,
                                 int64_t right, const std::string &message) {
  if (holds(left, predicate, right))
    return {};
  if (predicate == Predicate::Is)
    return makeError(message);
  return makeError(message, " (", left, " and ", right, ")");
}

//===- DataCheck.h - A check of what a tensor holds -------------*- C++ -*-===//
//
// Most checks of a program compare sizes, which are known at a call. This one
// compares an element that a kernel computes, when it is known.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_DATACHECK_H
#define SEXTANT_RUNTIME_DATACHECK_H

#include "runtime/ArtifactReader.h"

namespace sextant::runtime {

/// An i64 in memory of a device, and what it has to be.
struct DataCheck {
  const void *element;
  Predicate predicate;
  int64_t bound;
  std::string message;
};

/// The error of two numbers that are not so related: the message, and both
/// unless they stand for a condition.
Status compare(int64_t left, Predicate predicate, int64_t right,
               const std::string &message);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_DATACHECK_H

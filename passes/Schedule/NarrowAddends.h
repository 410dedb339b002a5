//===- NarrowAddends.h - Sums that widen an addend themselves ---*- C++ -*-===//
//
// A sum of f32 reads an addend that was widened for it as it was before.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_SCHEDULE_NARROWADDENDS_H
#define SEXTANT_PASSES_SCHEDULE_NARROWADDENDS_H

#include "mlir/IR/Block.h"

namespace sextant::passes {

/// Lets sums read narrow addends, and erases the casts that nothing reads then.
/// Such a sum is one of ATen's only, which promotes types: ops of nn have
/// operands of one type, so it becomes a call before the next verification.
void readNarrowAddends(mlir::Block &block);

} // namespace sextant::passes

#endif // SEXTANT_PASSES_SCHEDULE_NARROWADDENDS_H

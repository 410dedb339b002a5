//===- ReadLog.h - Which elements payloads ask for --------------*- C++ -*-===//
//
// Internal to codegen/Reference. A launch that checks reads keeps, for every
// dimension that a read op indexes, the least and the greatest index of the
// call; the program compares them with the parameter's sizes.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_REFERENCE_READLOG_H
#define SEXTANT_CODEGEN_REFERENCE_READLOG_H

#include "codegen/Tables/ArgumentPoint.h"

namespace sextant::codegen {

/// Notes the least and the greatest index of every read of a call.
class ReadLog {
public:
  /// Numbers the reads of the op's sites.
  explicit ReadLog(const Lowering &lowering);

  bool empty() const { return entries.empty(); }

  /// Adds the log to what a launch writes.
  void addTo(LaunchOperands &operands);

  /// Notes indices (i32) that `op` asks for, where `counts` (i1; null: always)
  /// holds. An index that is the element of the batch is taken modulo the size.
  void note(KernelBuilder &kernel, ArgumentBlock &arguments,
            mlir::Operation *op, mlir::ValueRange indices, mlir::Value batch,
            mlir::Value counts) const;

  /// Emits the errors of a call whose indices lie outside.
  void emitChecks() const;

private:
  /// Index `index` of an op is that of a dimension of a parameter.
  struct Entry {
    mlir::Operation *op;
    unsigned param, dim;
  };
  void add(mlir::Operation *op, mlir::Value table, unsigned dim);
  void emitCheck(size_t number) const;

  const Lowering &lowering;
  llvm::SmallVector<Entry> entries;
  llvm::DenseMap<mlir::Operation *, unsigned> firstEntry;
  /// i32 [2 entries]: the least index, or 0, and the greatest plus 1, or 0.
  mlir::Value buffer;
  unsigned tensor = 0;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_REFERENCE_READLOG_H

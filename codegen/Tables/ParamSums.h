//===- ParamSums.h - Gradients of parameters as they come in ----*- C++ -*-===//
//
// The gradient of a parameter is a sum that several launches add to. Launches
// whose items reach separate elements add to one tensor, one launch after the
// other. Where items reach the same elements, each range of the launch has sums
// of its own, and one launch at the end adds everything up in a fixed order:
// results do not depend on the number of threads.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TABLES_PARAMSUMS_H
#define SEXTANT_CODEGEN_TABLES_PARAMSUMS_H

#include "codegen/Emit/KernelFunction.h"
#include "codegen/Emit/Lowering.h"

namespace sextant::codegen {

/// Sums of one op's parameters, by the number of the parameter operand.
class ParamSums {
public:
  explicit ParamSums(const Lowering &lowering);

  bool isWanted(unsigned param) const {
    return lowering.plan.paramWantsGradient[param];
  }
  bool hasSum(unsigned param) const { return sums[param] != nullptr; }
  /// Lets `sum`, whose element type is the result's, take the gradient.
  void setSum(unsigned param, mlir::Value sum) { sums[param] = sum; }
  /// What launches add to one after the other: f64, unless it was set; null
  /// where no gradient is wanted.
  mlir::Value getSum(unsigned param);
  /// Into how many ranges to cut a launch whose items add to `params`: as
  /// below, but few enough that their sums are small.
  mlir::Value countRanges(mlir::Value extent, int64_t leastPerRange,
                          mlir::ArrayRef<unsigned> params) const;
  /// Zeros [ranges, the parameter's sizes] x f64, which the gradient includes.
  mlir::Value addRanges(unsigned param, mlir::Value ranges);
  /// Includes sums of that many elements as the parameter has, whatever their
  /// leading dimensions are; with `unlessTables` (OffsetRange.h) only where
  /// tables do not hold the offsets in use.
  void add(unsigned param, mlir::Value partials, mlir::Value unlessTables = {});
  /// The gradient in `element`, which a launch (`suffix` and the parameter's
  /// number) sums up unless it is there.
  mlir::Value finish(unsigned param, mlir::Type element,
                     llvm::StringRef suffix = "gradient_");

private:
  struct Part {
    mlir::Value partials, unlessTables;
  };
  mlir::Value getParam(unsigned param) const;

  const Lowering &lowering;
  llvm::SmallVector<mlir::Value> sums;
  llvm::SmallVector<llvm::SmallVector<Part>> parts;
};

/// Into how many ranges to cut a launch over `extent` elements (index), from
/// shapes only: enough for the threads of a large machine.
mlir::Value countRanges(const Lowering &lowering, mlir::Value extent,
                        int64_t leastPerRange);

/// Where a range of `extent` elements begins, if ranges are multiples of
/// `unit`; the end of the one before.
Index getRangeBegin(KernelBuilder &kernel, Index number, Index ranges,
                    Index extent, int64_t unit);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TABLES_PARAMSUMS_H

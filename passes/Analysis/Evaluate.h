//===- Evaluate.h - Compile-time values of a definition ---------*- C++ -*-===//
//
// An evaluator runs the arithmetic of a definition by the folders of its ops,
// with floats in f64. It finds shapes and initial values of parameters, ranges
// of lanes, and, for tests, whole payloads. There is no list of ops here: an op
// that folds can be evaluated.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_ANALYSIS_EVALUATE_H
#define SEXTANT_PASSES_ANALYSIS_EVALUATE_H

#include "dialects/Pos/IR/Pos.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OwningOpRef.h"
#include <functional>
#include <vector>

namespace sextant::passes {

/// Evaluates values of one definition. What was computed once is kept.
class Evaluator {
public:
  /// Values of ops that ask for something outside the definition (extents, the
  /// scale, indices, elements of parameters), given those of their operands; a
  /// null attribute says that it is not known. Floats are f64.
  using Resolver = std::function<mlir::Attribute(
      mlir::Operation *, llvm::ArrayRef<mlir::Attribute>)>;

  Evaluator(pos::EncodingOp definition, Resolver resolver);

  /// Values of the definition's extents: the usual resolver.
  static Resolver
  withExtents(std::function<std::optional<int64_t>(pos::Extent)> extents);

  /// The value (FloatAttr of f64, or IntegerAttr), or null when it is not
  /// known; `getUnknown` then names the op that stands in the way.
  mlir::Attribute evaluate(mlir::Value value);
  mlir::Operation *getUnknown() const { return unknown; }

  /// The values that a region of the definition yields for these arguments.
  llvm::SmallVector<mlir::Attribute>
  evaluate(mlir::Block &block, llvm::ArrayRef<mlir::Attribute> arguments);

  /// Sizes of a parameter or of an input; -1 for one that is not known.
  llvm::SmallVector<int64_t> getSizes(pos::ParamOp param);
  llvm::SmallVector<int64_t> getSizes(pos::InputOp input);

  /// Elements of a parameter of these sizes whose initial value is a region, in
  /// row-major order. Fails with a diagnostic at the op that is not known.
  mlir::FailureOr<std::vector<double>>
  getInitialValues(pos::ParamOp param, llvm::ArrayRef<int64_t> sizes);

private:
  llvm::SmallVector<int64_t> getIntegers(mlir::ValueRange values);
  mlir::Attribute lookup(mlir::Value value);
  mlir::LogicalResult run(mlir::Operation &op);
  mlir::LogicalResult runSum(pos::SumOp sum);
  llvm::SmallVector<mlir::Attribute>
  runBlock(mlir::Block &block, llvm::ArrayRef<mlir::Attribute> arguments);

  mlir::IRMapping copyOf;                  ///< from the definition to `copy`
  mlir::OwningOpRef<pos::EncodingOp> copy; ///< computes in f64
  Resolver resolver;
  llvm::DenseMap<mlir::Value, mlir::Attribute> values;
  mlir::Operation *unknown = nullptr;
};

} // namespace sextant::passes

#endif // SEXTANT_PASSES_ANALYSIS_EVALUATE_H

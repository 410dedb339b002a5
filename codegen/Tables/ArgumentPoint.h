//===- ArgumentPoint.h - Payloads over a launch's operands ------*- C++ -*-===//
//
// What every point of a launched kernel has in common: parameters,
// positions and extents come out of the argument block. The tables of hoisted
// values and the reference are built on it; a subclass says where the point
// stands.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TABLES_ARGUMENTPOINT_H
#define SEXTANT_CODEGEN_TABLES_ARGUMENTPOINT_H

#include "codegen/Emit/KernelFunction.h"
#include "codegen/Emit/Lowering.h"
#include "codegen/Payload/PayloadPoint.h"
#include "llvm/ADT/SmallSet.h"

namespace sextant::codegen {

/// The operands of a launch while they are collected: reads before writes.
struct LaunchOperands {
  llvm::SmallVector<mlir::Value> reads, writes, scalars;
  KernelOperands layout;

  unsigned read(mlir::Value tensor);
  unsigned write(mlir::Value tensor);
  unsigned scalar(mlir::Value index);
  /// `flops` (index) is what the launch costs, for profiles.
  void launch(const Lowering &lowering, llvm::StringRef suffix,
              mlir::Value flops = nullptr) const;
  /// Creates the kernel and launches it.
  void launch(const Lowering &lowering, llvm::StringRef suffix,
              const KernelBody &body) const;
};

/// Numbers of the operands that an ArgumentPoint needs.
struct PointLayout {
  llvm::DenseMap<unsigned, unsigned> params;         ///< by parameter operand
  llvm::DenseMap<unsigned, unsigned> paramGradients; ///< likewise, if wanted
  /// Parameters whose gradients are sums of a range each: see ParamSums.h.
  llvm::SmallSet<unsigned, 4> ofRanges;
  std::optional<unsigned> queryPositions, keyPositions, queryTail;
  std::optional<unsigned> bounds; ///< see PositionBounds.h
  unsigned firstScalar = 0;       ///< batch, heads, kv_heads, query, key
};

/// Adds extents, positions and the parameters for which `needs` holds to the
/// operands of a launch.
PointLayout addPointOperands(const Lowering &lowering, LaunchOperands &operands,
                             llvm::function_ref<bool(unsigned)> needs);

/// A point whose parameters, positions and extents are arguments of a kernel.
class ArgumentPoint : public PayloadPoint {
public:
  ArgumentPoint(KernelBuilder &kernel, ArgumentBlock &arguments,
                const PointLayout &layout, const KernelPlan &plan,
                mlir::FloatType computeType)
      : kernel(kernel), arguments(arguments), layout(layout), plan(plan),
        computeType(computeType) {}

  const KernelPlan &getPlan() const { return plan; }

  /// Says where the point stands; i32 values.
  void setHead(mlir::Value value) { headValue = value; }
  void setBatch(mlir::Value value) { batchValue = value; }
  /// Says whose sums gradients of `ofRanges` go to.
  void setRange(Index number) { range = kernel.toI32(number); }

  mlir::FloatType getComputeType() override { return computeType; }
  int64_t getLanes() override { return 1; }
  mlir::Value head(mlir::OpBuilder &) override { return headValue; }
  mlir::Value batch(mlir::OpBuilder &) override { return batchValue; }
  mlir::Value extent(mlir::OpBuilder &builder, pos::Extent extent) override;
  mlir::Value bound(mlir::OpBuilder &builder, pos::Bound bound, pos::Side side,
                    int64_t axis) override;
  mlir::Value scale(mlir::OpBuilder &builder) override;

  /// An element outside of the parameter reads as NaN (0 for integers). The
  /// element of the batch counts modulo the extent of the parameter.
  mlir::Value read(mlir::OpBuilder &builder, mlir::BlockArgument param,
                   mlir::ValueRange indices) override;
  /// Neighbours at once, else lane after lane; what is outside of the parameter
  /// is dropped.
  void addToRead(mlir::OpBuilder &builder, mlir::BlockArgument param,
                 mlir::ValueRange indices, mlir::Value cotangent) override;
  bool wantsGradient(mlir::BlockArgument param) override {
    return layout.paramGradients.contains(param.getArgNumber());
  }

protected:
  Index getExtent(pos::Extent extent);
  /// The given position of `row` (i32, scalar or vector), or null if none are
  /// given for this side.
  mlir::Value getPosition(pos::Side side, int64_t axis, mlir::Value row);
  /// Queries after those of the call, which are not given.
  Index getQueryTail();
  /// Index of the first row of the query tensor: queries, with those that
  /// follow, and keys are aligned at the end.
  Index getQueryShift();
  /// Row of the query tensor to index.
  mlir::Value getQueryIndex(mlir::Value row);

  // i32 arithmetic on scalars and vectors alike.
  mlir::Value addI(mlir::Value a, mlir::Value b);
  mlir::Value subI(mlir::Value a, mlir::Value b);
  mlir::Value mulI(mlir::Value a, mlir::Value b);
  /// Conversion between floating-point types, of scalars and vectors.
  mlir::Value convert(mlir::Value value, mlir::Type elementType);

  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const PointLayout &layout;
  const KernelPlan &plan;
  mlir::FloatType computeType;
  mlir::Value headValue, batchValue, range;

private:
  /// An element of a tensor: where those of all lanes are counted from, how far
  /// from there it is, an i32, and whether it lies inside.
  struct Element {
    mlir::Value base, offset, inside;
  };
  Element locate(unsigned tensor, mlir::ValueRange indices);
  mlir::Value load(mlir::Type type, const Element &element);
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TABLES_ARGUMENTPOINT_H

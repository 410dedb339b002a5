//===- HingeCells.h - Piecewise-linear functions of a tile ------*- C++ -*-===//
//
// A function is evaluated for a register tile of scores before its payloads,
// which load the values from scratch memory. First the arguments, their range
// and with it the segments that the tile reaches into: in most tiles one, whose
// line is the same for all points. Otherwise each point starts in the lowest of
// these segments and goes on by one per knot that it lies above. Nothing is
// gathered, and no gradient is scattered.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_HINGECELLS_H
#define SEXTANT_CODEGEN_CPU_HINGECELLS_H

#include "codegen/CPU/KernelSite.h"
#include "codegen/HingeTable.h"

namespace sextant::codegen {

class HingeCells {
public:
  /// For a tile of `rows` rows of `vectors` vectors; `memory` has `countWords`
  /// words. Slopes and cotangents are kept where `hasGradients`.
  HingeCells(KernelBuilder &kernel, ArgumentBlock &arguments,
             const KernelPlan &plan, const SiteOperands &operands,
             mlir::Value memory, int64_t rows, int64_t vectors,
             bool hasGradients);
  static int64_t countWords(const KernelPlan &plan, int64_t elements);

  /// Evaluates all functions of the tile. `moveTo` moves `site` to a vector of
  /// a row of it.
  mlir::LogicalResult
  fill(KernelSite &site,
       llvm::function_ref<void(Index row, Index vector)> moveTo);

  /// The value at a place of the tile: row * panel + lane.
  mlir::Value load(pos::HingeSumOp op, Index place) const;
  /// Takes the cotangent of the value and gives that of the argument.
  mlir::Value pull(pos::HingeSumOp op, Index place, mlir::Value cotangent);
  /// Adds the moments of the cotangents to those at `moments`, f64, one per
  /// plan.hinges (null: not wanted). Every place has been pulled.
  void addMoments(llvm::ArrayRef<mlir::Value> moments);

private:
  using Values = KernelBuilder::Values;
  enum Column { argument, result, slope, cotangent, numColumns };

  /// The segments from the lowest to the highest that the tile reaches into.
  struct Reach {
    mlir::Value low, high; ///< i64
    mlir::Value isOne;     ///< i1
  };

  mlir::FailureOr<Values>
  fillArguments(unsigned number, KernelSite &site,
                llvm::function_ref<void(Index row, Index vector)> moveTo);
  void emitLine(unsigned number, mlir::Value table);
  void emitSegments(unsigned number, mlir::Value table);
  void addAllMoments(unsigned number, mlir::Value moments);
  void addKnotMoments(unsigned number, mlir::Value table, mlir::Value moments);
  mlir::Value countKnots(mlir::Value table, const HingeLayout &layout,
                         mlir::arith::CmpFPredicate predicate,
                         mlir::Value place);
  mlir::Value reduce(mlir::Value vector, mlir::arith::CmpFPredicate predicate);
  mlir::Value pick(mlir::arith::CmpFPredicate predicate, mlir::Value a,
                   mlir::Value b);
  mlir::Value at(unsigned number, Column column, Index place) const;
  unsigned find(pos::HingeSumOp op) const;
  HingeLayout getLayout(unsigned number) const;
  mlir::Value getTable(unsigned number, KernelSite &site);
  /// Calls `body` with the place of each vector; carries values.
  Values forEachVector(mlir::ValueRange initial, KernelBuilder::LoopBody body);

  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const KernelPlan &plan;
  const SiteOperands &operands;
  mlir::Value memory;
  int64_t rows, vectors;
  bool hasGradients;

  // Of the tile at hand, as plan.hingeSums.
  llvm::SmallVector<Reach> reaches;
  llvm::SmallVector<mlir::Value> tables;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_HINGECELLS_H

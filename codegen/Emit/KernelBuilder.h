//===- KernelBuilder.h - Writes the loop nests of kernels -------*- C++ -*-===//
//
// A thin layer over OpBuilder for kernels that are written by hand: integer
// arithmetic that folds (ScalarBuilder), vectors of one width (VectorBuilder),
// pointers (MemoryBuilder), and here loops as lambdas and the numeric pieces
// that no upstream lowering does well enough.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_EMIT_KERNELBUILDER_H
#define SEXTANT_CODEGEN_EMIT_KERNELBUILDER_H

#include "codegen/Emit/MemoryBuilder.h"
#include "codegen/Emit/VectorTarget.h"

namespace sextant::codegen {

/// Writes a kernel for vectors of a target.
class KernelBuilder : public MemoryBuilder {
public:
  using LoopBody = llvm::function_ref<Values(mlir::Value, mlir::ValueRange)>;
  /// Numbers from `low` on that are below `high`.
  struct Range {
    Index low, high;
  };

  KernelBuilder(mlir::OpBuilder &builder, mlir::Location loc,
                mlir::Block &entry, const VectorTarget &target)
      : MemoryBuilder(builder, loc, entry, target.width), target(target) {
    isOfThread = target.isThread;
  }

  const VectorTarget target;

  //===--- Failure -------------------------------------------------------===//

  /// Takes note of a failure, whose cause has been reported: the kernel is
  /// thrown away once it is written to its end.
  void check(mlir::LogicalResult result) {
    if (mlir::failed(result))
      status = mlir::failure();
  }
  mlir::LogicalResult getStatus() const { return status; }

  //===--- Control flow --------------------------------------------------===//

  /// for (iv = low; iv < high; iv += step); the body takes the carried values
  /// and gives the next ones.
  Values loop(Index low, Index high, Index step, mlir::ValueRange initial,
              LoopBody body);
  void loop(Index low, Index high, Index step,
            llvm::function_ref<void(mlir::Value)> body);
  /// The same, which no later pass and no assembler unrolls.
  Values rolledLoop(Index low, Index high, Index step, mlir::ValueRange initial,
                    LoopBody body);
  /// Loops inside of each other, the first outermost; the body takes the
  /// numbers of all.
  Values
  nest(llvm::ArrayRef<Range> ranges, mlir::ValueRange initial,
       llvm::function_ref<Values(mlir::ValueRange, mlir::ValueRange)> body);
  void nest(llvm::ArrayRef<Range> ranges,
            llvm::function_ref<void(mlir::ValueRange)> body);
  /// Lets other threads run until `isTrue` holds, of what one of them stores.
  void waitUntil(llvm::function_ref<mlir::Value()> isTrue);
  /// Clears `elements` words of f32, a multiple of the vector.
  void clear(mlir::Value base, Index elements);
  void when(mlir::Value condition, llvm::function_ref<void()> then);
  void when(mlir::Value condition, llvm::function_ref<void()> then,
            llvm::function_ref<void()> otherwise);
  /// A conditional with results; both sides give as many values.
  Values choose(mlir::Value condition, mlir::TypeRange types,
                llvm::function_ref<Values()> then,
                llvm::function_ref<Values()> otherwise);

  //===--- Exponential and logarithm -------------------------------------===//
  // No flag promises that a NaN is absent: NaNs pass through.

  /// 2^x for x up to 127, off by 9e-8 of itself and exact at 0; for a result
  /// that is rounded to bf16 by 1.7e-7, one operation less. x = -inf gives 0,
  /// NaN gives NaN.
  mlir::Value exp2(mlir::Value x, bool isForBf16 = false);
  /// Natural logarithm of a positive normal number; NaN gives NaN.
  mlir::Value log(mlir::Value x);

  //===--- Pairs of bf16 -------------------------------------------------===//
  // A 32-bit unit holds two neighbours of a contraction; vectors of units have
  // the type vector<width x f32>, and pointers and strides count units.

  /// c + a.low * b.low + a.high * b.high, unit by unit.
  mlir::Value dot(mlir::Value a, mlir::Value b, mlir::Value c);
  /// Two vectors of f32 as 2 * width bf16 in order.
  mlir::Value truncatePair(mlir::Value low, mlir::Value high);
  /// Units (bf16(low[l]), bf16(high[l])).
  mlir::Value pairRows(mlir::Value low, mlir::Value high);
  /// Two rows of 2 * width bf16 each, as units: gives 2 * width units
  /// (first[l], second[l]), as two vectors.
  std::pair<mlir::Value, mlir::Value> interleave(mlir::Value first,
                                                 mlir::Value second);
  /// Conversion of `width` values.
  /// Elements of 16 bits as f32.
  mlir::Value extend(mlir::Value vector);
  /// f32 to the nearest bf16, ties to even.
  mlir::Value truncate(mlir::Value f32Vector);
  /// f32 as elements of a tensor: as they are, or to the nearest bf16 or f16,
  /// ties to even.
  mlir::Value roundTo(mlir::Value f32Vector, mlir::Type element);

private:
  mlir::Value asPairs(mlir::Value units);
  mlir::Value asUnits(mlir::Value pairs);

  mlir::LogicalResult status = mlir::success();
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_EMIT_KERNELBUILDER_H

//===- KernelBuilder.h - Writes the loop nests of kernels -------*- C++ -*-===//
//
// A thin layer over OpBuilder for kernels that are written by hand: integer
// arithmetic that folds, pointers, loops as lambdas, vectors of one width, and
// the numeric pieces (exp2, log2, transposition, pairs of bf16) that no
// upstream lowering does well enough.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_EMIT_KERNELBUILDER_H
#define SEXTANT_CODEGEN_EMIT_KERNELBUILDER_H

#include "codegen/Emit/VectorTarget.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/DenseMap.h"
#include <concepts>

namespace sextant::codegen {

/// To which cache a prefetch brings a line; the values are LLVM's localities.
/// The first has no room to spare but for what is read next.
enum class CacheLevel : uint32_t { Second = 2, First = 3 };

/// f32 of a line of cache.
constexpr int64_t cacheLine = 16;

/// An i64 that is a constant of the compiler or a value of the kernel.
class Index {
public:
  template <std::integral T> Index(T constant) : constant(constant) {}
  Index(mlir::Value value) : value(value) {}

  bool isConstant() const { return !value; }
  bool is(int64_t other) const { return !value && constant == other; }
  int64_t getConstant() const { return constant; }
  mlir::Value getValue() const { return value; }

private:
  int64_t constant = 0;
  mlir::Value value;
};

/// Writes at the insertion point of `builder`. Constants go to the start of
/// the function's entry block, once each.
class KernelBuilder {
public:
  using Values = llvm::SmallVector<mlir::Value>;
  using LoopBody = llvm::function_ref<Values(mlir::Value, mlir::ValueRange)>;
  /// Numbers from `low` on that are below `high`.
  struct Range {
    Index low, high;
  };

  KernelBuilder(mlir::OpBuilder &builder, mlir::Location loc,
                mlir::Block &entry, const VectorTarget &target);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  const VectorTarget target;
  /// Types: scalars, and vectors of `width` lanes.
  mlir::Type i1, i16, i32, i64, f32, f64, bf16, pointer;
  mlir::VectorType vf32, vf64, vi32, vi1;

  int64_t width() const { return target.width; }

  //===--- Failure -------------------------------------------------------===//

  /// Takes note of a failure, whose cause has been reported: the kernel is
  /// thrown away once it is written to its end.
  void check(mlir::LogicalResult result) {
    if (mlir::failed(result))
      status = mlir::failure();
  }
  mlir::LogicalResult getStatus() const { return status; }

  //===--- Constants -----------------------------------------------------===//

  mlir::Value constant(mlir::TypedAttr value);
  mlir::Value constantI1(bool value);
  mlir::Value constantI64(int64_t value);
  mlir::Value constantI32(int32_t value);
  mlir::Value constantF32(double value);
  /// The same value in all lanes.
  mlir::Value splatF32(double value);
  mlir::Value splatI32(int32_t value);
  /// Zero, or a vector of zeros.
  mlir::Value zero(mlir::Type type);

  //===--- Integers (i64) ------------------------------------------------===//

  /// The index as a value.
  mlir::Value value(Index index);
  Index add(Index a, Index b);
  Index sub(Index a, Index b);
  Index mul(Index a, Index b);
  /// Quotient and remainder of values that are not negative.
  Index div(Index a, Index b);
  Index rem(Index a, Index b);
  Index ceilDiv(Index a, Index b) { return div(add(a, sub(b, 1)), b); }
  Index roundUp(Index a, Index b) { return mul(ceilDiv(a, b), b); }
  Index min(Index a, Index b);
  Index max(Index a, Index b);
  Index select(mlir::Value condition, Index a, Index b);
  /// Signed comparison, an i1.
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, Index a, Index b);
  mlir::Value less(Index a, Index b);
  mlir::Value equal(Index a, Index b);
  mlir::Value differ(Index a, Index b);
  /// The index as an i32, and the other way round.
  mlir::Value toI32(Index index);
  Index fromI32(mlir::Value value);

  //===--- Conditions (i1 and vectors of i1) -----------------------------===//

  /// Where one operand is null, the other one.
  mlir::Value both(mlir::Value a, mlir::Value b);
  mlir::Value either(mlir::Value a, mlir::Value b);

  //===--- Memory --------------------------------------------------------===//

  /// `base` advanced by the sum of `offsets`, in elements of `type` (f32 by
  /// default). Constants are added last and become displacements.
  mlir::Value advance(mlir::Value base, llvm::ArrayRef<Index> offsets,
                      mlir::Type type = nullptr);
  mlir::Value load(mlir::Type type, mlir::Value pointer);
  void store(mlir::Value value, mlir::Value pointer);
  /// f32 scalars and vectors at `base` plus the sum of `offsets`.
  mlir::Value loadF32(mlir::Value base, llvm::ArrayRef<Index> offsets = {});
  mlir::Value loadVector(mlir::Value base, llvm::ArrayRef<Index> offsets = {});
  void storeVector(mlir::Value vector, mlir::Value base,
                   llvm::ArrayRef<Index> offsets = {});
  /// A scalar of memory in all lanes.
  mlir::Value loadBroadcast(mlir::Value base,
                            llvm::ArrayRef<Index> offsets = {});
  /// Asks for the lines of `words` f32 from base plus the sum of `offsets` on,
  /// which may lie outside the memory of `base`.
  void prefetch(mlir::Value base, llvm::ArrayRef<Index> offsets,
                int64_t words = 1, CacheLevel level = CacheLevel::Second);
  /// The first `count` (1 to width) lanes only; the others are zero.
  mlir::Value loadPart(mlir::VectorType type, mlir::Value pointer, Index count);
  void storePart(mlir::Value vector, mlir::Value pointer, Index count);
  /// base[indices], element by element; `indices` is a vector of i32.
  mlir::Value gather(mlir::Type element, mlir::Value base, mlir::Value indices);
  /// base[indices] = vector, element by element.
  void scatter(mlir::Value vector, mlir::Value base, mlir::Value indices);

  //===--- Control flow --------------------------------------------------===//

  /// for (iv = low; iv < high; iv += step); the body takes the carried values
  /// and gives the next ones.
  Values loop(Index low, Index high, Index step, mlir::ValueRange initial,
              LoopBody body);
  void loop(Index low, Index high, Index step,
            llvm::function_ref<void(mlir::Value)> body);
  /// Loops inside of each other, the first outermost; the body takes the
  /// numbers of all.
  Values
  nest(llvm::ArrayRef<Range> ranges, mlir::ValueRange initial,
       llvm::function_ref<Values(mlir::ValueRange, mlir::ValueRange)> body);
  void nest(llvm::ArrayRef<Range> ranges,
            llvm::function_ref<void(mlir::ValueRange)> body);
  /// Clears `elements` words of f32, a multiple of the vector.
  void clear(mlir::Value base, Index elements);
  void when(mlir::Value condition, llvm::function_ref<void()> then);
  void when(mlir::Value condition, llvm::function_ref<void()> then,
            llvm::function_ref<void()> otherwise);
  /// A conditional with results; both sides give as many values.
  Values choose(mlir::Value condition, mlir::TypeRange types,
                llvm::function_ref<Values()> then,
                llvm::function_ref<Values()> otherwise);

  //===--- Vectors -------------------------------------------------------===//

  /// The scalar in all lanes (of any element type); vectors pass through.
  mlir::Value broadcast(mlir::Value scalar);
  /// base, base + 1, ... as a vector of i32.
  mlir::Value lanes(Index base);
  /// Lanes below `count` as a vector of i1.
  mlir::Value lanesBelow(Index count);
  mlir::Value shuffle(mlir::Value a, mlir::Value b,
                      llvm::ArrayRef<int64_t> mask);
  /// Transposes `width` vectors.
  Values transpose(mlir::ValueRange rows);
  /// The sum of all lanes, in a fixed order.
  mlir::Value sumLanes(mlir::Value vector);

  //===--- Floating point (scalars and vectors) --------------------------===//
  // No flag promises that a NaN is absent: NaNs pass through.

  mlir::Value addF(mlir::Value a, mlir::Value b);
  mlir::Value subF(mlir::Value a, mlir::Value b);
  mlir::Value mulF(mlir::Value a, mlir::Value b);
  mlir::Value divF(mlir::Value a, mlir::Value b);
  mlir::Value fma(mlir::Value a, mlir::Value b, mlir::Value c);
  /// a > b ? a : b, one instruction: gives b where either is NaN.
  mlir::Value maxF(mlir::Value a, mlir::Value b);
  mlir::Value compareF(mlir::arith::CmpFPredicate predicate, mlir::Value a,
                       mlir::Value b);
  mlir::Value selectF(mlir::Value condition, mlir::Value a, mlir::Value b);
  /// f64 of f32, and f32 of f64.
  mlir::Value widen(mlir::Value value);
  mlir::Value narrow(mlir::Value value);
  /// The sum of numbers in f64, or of f32 to be widened.
  mlir::Value addF64(mlir::Value a, mlir::Value b);
  /// Adds likewise to the number or vector of f64 at `pointer`.
  void addToF64(mlir::Value pointer, mlir::Value addend);
  /// 2^x, off by 8e-8 of itself and exact at 0; for a result that is rounded to
  /// bf16 by 2.2e-7, one operation less. x = -inf gives 0 with scalef and
  /// 2^-126 without; NaN gives NaN.
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
  mlir::Value extend(mlir::Value bf16Vector);
  mlir::Value truncate(mlir::Value f32Vector);

private:
  mlir::Value asPairs(mlir::Value units);
  mlir::Value asUnits(mlir::Value pairs);

  mlir::Block &entry;
  mlir::LogicalResult status = mlir::success();
  llvm::DenseMap<mlir::Attribute, mlir::Value> constants;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_EMIT_KERNELBUILDER_H

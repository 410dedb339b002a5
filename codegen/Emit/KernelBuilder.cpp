//===- KernelBuilder.cpp - Writes the loop nests of kernels ---------------===//

#include "codegen/Emit/KernelBuilder.h"
#include "codegen/Emit/VectorArithmetic.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <cmath>
#include <numeric>

using namespace mlir;
using namespace sextant::codegen;

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

KernelBuilder::Values KernelBuilder::loop(Index low, Index high, Index step,
                                          ValueRange initial, LoopBody body) {
  auto loop = scf::ForOp::create(
      builder, loc, value(low), value(high), value(step), initial,
      [](OpBuilder &, Location, Value, ValueRange) {});
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  Values next = body(loop.getInductionVar(), loop.getRegionIterArgs());
  scf::YieldOp::create(builder, loc, next);
  return llvm::to_vector_of<Value>(loop.getResults());
}

void KernelBuilder::loop(Index low, Index high, Index step,
                         function_ref<void(Value)> body) {
  loop(low, high, step, {}, [&](Value iv, ValueRange) -> Values {
    body(iv);
    return {};
  });
}

KernelBuilder::Values KernelBuilder::rolledLoop(Index low, Index high,
                                                Index step, ValueRange initial,
                                                LoopBody body) {
  Operation *loop = nullptr;
  Values results = this->loop(low, high, step, initial,
                              [&](Value iv, ValueRange carried) -> Values {
                                loop = iv.getParentBlock()->getParentOp();
                                return body(iv, carried);
                              });
  MLIRContext *context = builder.getContext();
  auto unroll = LLVM::LoopUnrollAttr::get(
      context, /*disable=*/BoolAttr::get(context, true), /*count=*/{},
      /*runtimeDisable=*/{}, /*full=*/{}, /*followupUnrolled=*/{},
      /*followupRemainder=*/{}, /*followupAll=*/{});
  loop->setAttr("llvm.loop_annotation",
                LLVM::LoopAnnotationAttr::get(
                    context, /*disableNonforced=*/{}, /*vectorize=*/{},
                    /*interleave=*/{}, unroll, /*unrollAndJam=*/{}, /*licm=*/{},
                    /*distribute=*/{}, /*pipeline=*/{}, /*peeled=*/{},
                    /*unswitch=*/{}, /*mustProgress=*/{}, /*isVectorized=*/{},
                    /*startLoc=*/{}, /*endLoc=*/{}, /*parallelAccesses=*/{}));
  return results;
}

KernelBuilder::Values
KernelBuilder::nest(ArrayRef<Range> ranges, ValueRange initial,
                    function_ref<Values(ValueRange, ValueRange)> body) {
  Values point;
  auto run = [&](auto &run, ValueRange carried) -> Values {
    if (point.size() == ranges.size())
      return body(point, carried);
    const Range &range = ranges[point.size()];
    return loop(range.low, range.high, 1, carried,
                [&](Value number, ValueRange inner) {
                  point.push_back(number);
                  Values next = run(run, inner);
                  point.pop_back();
                  return next;
                });
  };
  return run(run, initial);
}

void KernelBuilder::nest(ArrayRef<Range> ranges,
                         function_ref<void(ValueRange)> body) {
  nest(ranges, {}, [&](ValueRange point, ValueRange) -> Values {
    body(point);
    return {};
  });
}

void KernelBuilder::waitUntil(function_ref<Value()> isTrue) {
  auto test = [&](OpBuilder &, Location, ValueRange) {
    Value isFalse =
        arith::XOrIOp::create(builder, loc, isTrue(), constantI1(true));
    scf::ConditionOp::create(builder, loc, isFalse, ValueRange());
  };
  auto wait = [&](OpBuilder &, Location, ValueRange) {
    target.letOthersRun(*this);
    scf::YieldOp::create(builder, loc);
  };
  OpBuilder::InsertionGuard guard(builder);
  scf::WhileOp::create(builder, loc, TypeRange(), ValueRange(), test, wait);
}

void KernelBuilder::clear(Value base, Index elements) {
  loop(0, elements, width(),
       [&](Value element) { storeVector(splatF32(0.0), base, {element}); });
}

void KernelBuilder::when(Value condition, function_ref<void()> then) {
  scf::IfOp::create(builder, loc, condition, [&](OpBuilder &, Location) {
    then();
    scf::YieldOp::create(builder, loc);
  });
}

void KernelBuilder::when(Value condition, function_ref<void()> then,
                         function_ref<void()> otherwise) {
  choose(
      condition, {},
      [&]() -> Values {
        then();
        return {};
      },
      [&]() -> Values {
        otherwise();
        return {};
      });
}

KernelBuilder::Values KernelBuilder::choose(Value condition, TypeRange types,
                                            function_ref<Values()> then,
                                            function_ref<Values()> otherwise) {
  auto branch = scf::IfOp::create(builder, loc, types, condition, true, true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(builder, loc, then());
  builder.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(builder, loc, otherwise());
  return llvm::to_vector_of<Value>(branch.getResults());
}

//===----------------------------------------------------------------------===//
// Exponential and logarithm
//===----------------------------------------------------------------------===//

// 2^x with the least greatest error in units of the result, of series that are
// 1 at 0: P of a row with one large score is 2^0, and errors of P do not cancel
// in sums over rows.
static constexpr double exp2From0[] = { // on [0, 1]
    1.000000000000e+00, 6.931469838276e-01, 2.402298363349e-01,
    5.548334196981e-02, 9.678840650835e-03, 1.243969378410e-03,
    2.170222683267e-04};
static constexpr double exp2From0ForBf16[] = {
    1.000000000000e+00, 6.931513114295e-01, 2.401644549256e-01,
    5.579989535692e-02, 9.017055363304e-03, 1.867118209105e-03};
static constexpr double exp2Around0[] = { // on [-1/2, 1/2]
    1.000000000000e+00, 6.931472028552e-01, 2.402264791369e-01,
    5.550332470907e-02, 9.618437350644e-03, 1.339887448042e-03,
    1.535336376686e-04};
static constexpr double exp2Around0ForBf16[] = {
    1.000000000000e+00, 6.931469775999e-01, 2.402224208561e-01,
    5.550733743907e-02, 9.671512635227e-03, 1.326472685071e-03};
static constexpr double exp2Near0[] = { // on [-1/16, 1/16]
    1.000000000000e+00, 6.931472142604e-01, 2.402576298696e-01,
    5.549622180011e-02};

/// What turns a number of eighths, shifted so that its whole part is an
/// exponent, into the power: the fraction of 2^(i/8) less the bits of i, which
/// have come to the fraction's place.
static Value getEighths(KernelBuilder &kernel) {
  SmallVector<int32_t> words;
  for (int32_t i = 0; i < 8; ++i) {
    auto power = static_cast<float>(std::exp2(i / 8.0));
    words.push_back((llvm::bit_cast<int32_t>(power) & 0x7fffff) - (i << 20));
  }
  return kernel.constant(DenseElementsAttr::get(kernel.vi32, ArrayRef(words)));
}

Value KernelBuilder::exp2(Value x, bool isForBf16) {
  VectorArithmetic arithmetic(builder, loc, vf32);
  if (target.scalef) {
    Value power = arithmetic.polynomial(target.fraction(*this, x),
                                        isForBf16 ? ArrayRef(exp2From0ForBf16)
                                                  : ArrayRef(exp2From0));
    return target.scalef(*this, power, x);
  }
  // 2^-127 has no exponent bits: it is 0, and what lies above it and below
  // 2^-126 is denormal, which is read as 0. NaN stays, as the second operand.
  x = maxF(splatF32(-127.0), x);
  // A sum near 1.5 2^23 is rounded to a whole number, whose low bits are those
  // of the sum: the exponent of 2^n, which is shifted to its place. Nothing
  // here is more than an addition or a multiplication, and the bias is part of
  // the sum, which VectorArithmetic adds later; a product by 2^n keeps a NaN,
  // which a sum of exponent bits would not. Near 1.5 2^20 it is rounded to
  // eighths, whose powers lanes look up: with them a series has half as many
  // terms.
  int fractionBits = target.lookUp ? 3 : 0;
  Value toMultiple = splatF32(std::ldexp(0x1.8p23, -fractionBits) + 127);
  Value biased = addF(x, toMultiple);
  Value bits = arith::BitcastOp::create(builder, loc, vi32, biased);
  Value scale =
      arith::ShLIOp::create(builder, loc, bits, splatI32(23 - fractionBits));
  ArrayRef<double> series =
      isForBf16 ? ArrayRef(exp2Around0ForBf16) : ArrayRef(exp2Around0);
  if (target.lookUp) {
    scale = arith::AddIOp::create(
        builder, loc, scale, target.lookUp(*this, getEighths(*this), bits));
    series = exp2Near0;
  }
  Value rest = subF(x, subF(biased, toMultiple));
  return mulF(arithmetic.polynomial(rest, series),
              arith::BitcastOp::create(builder, loc, vf32, scale));
}

Value KernelBuilder::log(Value x) {
  // x = 2^e m with m in [sqrt(1/2), sqrt(2)); ln m by the series of atanh.
  Value bits = arith::BitcastOp::create(builder, loc, vi32, x);
  Value biased = arith::SubIOp::create(builder, loc, bits,
                                       splatI32(0x3f3504f3)); // sqrt(1/2)
  Value exponent = arith::ShRSIOp::create(builder, loc, biased, splatI32(23));
  Value exponentBits =
      arith::ShLIOp::create(builder, loc, exponent, splatI32(23));
  Value mantissaBits = arith::SubIOp::create(builder, loc, bits, exponentBits);
  Value m = arith::BitcastOp::create(builder, loc, vf32, mantissaBits);
  Value e = arith::SIToFPOp::create(builder, loc, vf32, exponent);
  Value one = splatF32(1.0);
  Value z = divF(subF(m, one), addF(m, one));
  Value square = mulF(z, z);
  Value series = splatF32(2.0 / 9);
  for (int odd : {7, 5, 3, 1})
    series = fma(series, square, splatF32(2.0 / odd));
  Value isNaN = compareF(arith::CmpFPredicate::UNO, x, x);
  return selectF(isNaN, x,
                 fma(e, splatF32(llvm::numbers::ln2), mulF(series, z)));
}

//===----------------------------------------------------------------------===//
// Elements of 16 bits
//===----------------------------------------------------------------------===//

Value KernelBuilder::asPairs(Value units) {
  return vector::BitCastOp::create(builder, loc,
                                   VectorType::get(2 * width(), bf16), units);
}

Value KernelBuilder::asUnits(Value pairs) {
  return vector::BitCastOp::create(builder, loc, vf32, pairs);
}

Value KernelBuilder::dot(Value a, Value b, Value c) {
  return target.bf16Dot(*this, c, asPairs(a), asPairs(b));
}

Value KernelBuilder::truncatePair(Value low, Value high) {
  SmallVector<int64_t> inOrder(2 * width());
  std::iota(inOrder.begin(), inOrder.end(), 0);
  return truncate(shuffle(low, high, inOrder));
}

Value KernelBuilder::pairRows(Value low, Value high) {
  Value both = truncatePair(low, high);
  SmallVector<int64_t> alternating;
  for (int64_t lane = 0; lane < width(); ++lane)
    alternating.append({lane, width() + lane});
  return asUnits(shuffle(both, both, alternating));
}

std::pair<Value, Value> KernelBuilder::interleave(Value first, Value second) {
  Value a = asPairs(first), b = asPairs(second);
  auto half = [&](int64_t from) {
    SmallVector<int64_t> alternating;
    for (int64_t lane = from; lane < from + width(); ++lane)
      alternating.append({lane, 2 * width() + lane});
    return asUnits(shuffle(a, b, alternating));
  };
  return {half(0), half(width())};
}

Value KernelBuilder::extend(Value vector) {
  return arith::ExtFOp::create(builder, loc, withElement(vector, f32), vector);
}

Value KernelBuilder::roundTo(Value f32Vector, Type element) {
  if (element.isF32())
    return f32Vector;
  if (element.isBF16())
    return truncate(f32Vector);
  // Targets that have f16 have an instruction for it.
  return arith::TruncFOp::create(builder, loc, withElement(f32Vector, element),
                                 f32Vector);
}

Value KernelBuilder::truncate(Value f32Vector) {
  if (target.roundsToBf16)
    return arith::TruncFOp::create(builder, loc, withElement(f32Vector, bf16),
                                   f32Vector);
  // To the nearest, ties to even; a NaN stays one.
  Type word = withElement(f32Vector, i32);
  auto splat = [&](int32_t number) -> Value {
    auto attribute = builder.getI32IntegerAttr(number);
    if (auto type = dyn_cast<VectorType>(word))
      return constant(DenseElementsAttr::get(type, attribute));
    return constant(attribute);
  };
  Value bits = arith::BitcastOp::create(builder, loc, word, f32Vector);
  Value high = arith::ShRUIOp::create(builder, loc, bits, splat(16));
  Value odd = arith::AndIOp::create(builder, loc, high, splat(1));
  Value half = arith::AddIOp::create(builder, loc, odd, splat(0x7fff));
  Value rounded = arith::AddIOp::create(builder, loc, bits, half);
  Value quiet = arith::OrIOp::create(builder, loc, bits, splat(0x400000));
  Value isNaN = compareF(arith::CmpFPredicate::UNO, f32Vector, f32Vector);
  Value chosen = selectF(isNaN, quiet, rounded);
  Value top = arith::ShRUIOp::create(builder, loc, chosen, splat(16));
  Value narrow =
      arith::TruncIOp::create(builder, loc, withElement(f32Vector, i16), top);
  return arith::BitcastOp::create(builder, loc, withElement(f32Vector, bf16),
                                  narrow);
}

//===- VectorMathTest.cpp - Accuracy of functions on vectors --------------===//
//
// Functions of f32 are compared with libm in double, functions of f64 with
// libm in long double (64 bits of mantissa): over random arguments of all
// magnitudes of a range, and at the ends.
//
//===----------------------------------------------------------------------===//

#include "ProgramRunner.h"
#include "codegen/Driver/Targets.h"
#include "codegen/Emit/KernelBuilder.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "gtest/gtest.h"
#include <cmath>
#include <random>

using namespace sextant::test;

namespace {
/// An elementary function, its reference, and the error that is stated for it.
struct Function {
  const char *name;
  long double (*reference)(long double);
  double low, high; ///< magnitudes, log-uniform
  bool negative;    ///< both signs
  double ulpF32, ulpF64;
  bool aroundOne = false; ///< 1 plus the argument
  bool ulpOfOne = false;  ///< error near zeros counts in ulp of 1
};
} // namespace

static const Function functions[] = {
    {"exp", expl, 1e-30, 88, true, 2, 2},
    {"exp2", exp2l, 1e-30, 127, true, 2, 2},
    {"expm1", expm1l, 1e-30, 88, true, 3, 3},
    {"log", logl, 1e-37, 1e38, false, 3, 3},
    {"log", logl, 1e-6, 0.5, true, 3, 3, true},
    {"log2", log2l, 1e-37, 1e38, false, 3, 3},
    {"log10", log10l, 1e-37, 1e38, false, 3, 3},
    {"log1p", log1pl, 1e-30, 1e38, false, 3, 3},
    {"log1p", log1pl, 1e-30, 0.99, true, 3, 3},
    {"tanh", tanhl, 1e-30, 30, true, 4, 4},
    {"sinh", sinhl, 1e-30, 88, true, 4, 4},
    {"cosh", coshl, 1e-30, 88, true, 4, 4},
    {"asinh", asinhl, 1e-30, 1e38, true, 6, 6},
    {"acosh", acoshl, 1e-6, 1e38, false, 6, 6, true},
    {"atanh", atanhl, 1e-30, 0.999, true, 6, 6},
    {"sin", sinl, 1e-30, 1e6, true, 1, 2, false, true},
    {"cos", cosl, 1e-30, 1e6, true, 1, 2, false, true},
    {"tan", tanl, 1e-30, 1.4, true, 1, 4},
    {"round", roundl, 1e-3, 1e6, true, 0, 0},
};

template <typename T> static const char *typeName() {
  return sizeof(T) == 4 ? "f32" : "f64";
}

static std::string moduleOf(const std::string &op, const std::string &type,
                            int lanes, bool binary) {
  std::string vector = "vector<" + std::to_string(lanes) + "x" + type + ">";
  std::string n = std::to_string(lanes);
  std::string load = " {alignment = 4 : i64} : !llvm.ptr -> " + vector;
  std::string gep = " : (!llvm.ptr, i64) -> !llvm.ptr, " + type;
  return "module { module @kernels { func.func @apply(%x: !llvm.ptr, %y: "
         "!llvm.ptr, %out: !llvm.ptr, %n: i64) {\n"
         "  %zero = arith.constant 0 : i64\n  %step = arith.constant " +
         n +
         " : i64\n  scf.for %i = %zero to %n step %step : i64 {\n"
         "    %px = llvm.getelementptr %x[%i]" +
         gep + "\n    %py = llvm.getelementptr %y[%i]" + gep +
         "\n    %po = llvm.getelementptr %out[%i]" + gep +
         "\n    %a = llvm.load %px" + load + "\n    %b = llvm.load %py" + load +
         "\n    %r = math." + op + (binary ? " %a, %b : " : " %a : ") + vector +
         "\n    llvm.store %r, %po {alignment = 4 : i64} : " + vector +
         ", !llvm.ptr\n  }\n  return\n} } }";
}

using Lowering = std::function<mlir::LogicalResult(mlir::ModuleOp)>;

static mlir::LogicalResult keep(mlir::ModuleOp) { return mlir::success(); }

template <typename T>
static std::vector<T> apply(const std::string &op, const std::string &target,
                            int lanes, std::vector<T> xs, std::vector<T> ys,
                            const Lowering &lower = keep) {
  size_t count = xs.size();
  while (xs.size() % lanes)
    xs.push_back(1);
  ys.resize(xs.size(), 1);
  auto program =
      Program::compile(moduleOf(op, typeName<T>(), lanes, op == "powf"), target,
                       nullptr, "", lower);
  EXPECT_TRUE(program);
  std::vector<T> results(xs.size());
  auto run = reinterpret_cast<void (*)(T *, T *, T *, int64_t)>(
      program->symbol("apply"));
  EXPECT_TRUE(run);
  run(xs.data(), ys.data(), results.data(), xs.size());
  results.resize(count);
  return results;
}

/// The error in units of the last place of `want`.
template <typename T>
static double ulpError(T got, long double want, bool ulpOfOne) {
  T rounded = static_cast<T>(want);
  if ((std::isnan(got) && std::isnan(rounded)) || got == rounded)
    return 0;
  if (!std::isfinite(got) || !std::isfinite(rounded))
    return std::isfinite(got) == std::isfinite(rounded) ? INFINITY
           : std::fabs(want) > 0.999L * std::numeric_limits<T>::max()
               ? 0
               : INFINITY;
  T magnitude = std::fabs(rounded);
  T unit =
      std::nextafter(magnitude, std::numeric_limits<T>::infinity()) - magnitude;
  unit = std::max(unit, std::numeric_limits<T>::denorm_min());
  if (ulpOfOne)
    unit = std::max(unit, std::numeric_limits<T>::epsilon() / 2);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - want) /
                             unit);
}

template <typename T>
static void check(const Function &f, const std::string &target, int lanes) {
  std::mt19937 engine(freshSeed());
  std::uniform_real_distribution<double> exponent(std::log(f.low),
                                                  std::log(f.high));
  std::vector<T> xs;
  for (int i = 0; i < 20000; ++i) {
    double x = std::exp(exponent(engine));
    if (f.negative && i % 2)
      x = -x;
    xs.push_back(static_cast<T>(f.aroundOne ? 1 + x : x));
  }
  std::vector<T> got = apply<T>(f.name, target, lanes, xs, {});
  double worst = 0, bound = sizeof(T) == 4 ? f.ulpF32 : f.ulpF64;
  T at = 0;
  for (size_t i = 0; i < xs.size(); ++i) {
    double error = ulpError<T>(got[i], f.reference(xs[i]), f.ulpOfOne);
    if (error > worst) {
      worst = error;
      at = xs[i];
    }
  }
  EXPECT_LE(worst, bound) << f.name << " of " << typeName<T>() << " at " << at;
  std::printf("%-6s %s %s x %d: %.3f ulp\n", f.name, target.c_str(),
              typeName<T>(), lanes, worst);
}

template <typename T>
static void checkEnds(const Function &f, const std::string &target, int lanes) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  std::vector<T> xs{0,
                    -T(0),
                    infinity,
                    -infinity,
                    std::numeric_limits<T>::quiet_NaN(),
                    1,
                    -1,
                    std::numeric_limits<T>::denorm_min(),
                    std::numeric_limits<T>::min() / 2,
                    std::numeric_limits<T>::max(),
                    -std::numeric_limits<T>::max(),
                    T(1e-20),
                    -2};
  bool isPeriodic = std::string(f.name) == "sin" ||
                    std::string(f.name) == "cos" ||
                    std::string(f.name) == "tan";
  std::vector<T> got = apply<T>(f.name, target, lanes, xs, {});
  for (size_t i = 0; i < xs.size(); ++i) {
    if (isPeriodic && std::fabs(xs[i]) > 1e6 && std::isfinite(xs[i]))
      continue; // outside of the stated range
    // 4 ulp, where results may be denormal.
    EXPECT_LE(ulpError<T>(got[i], f.reference(xs[i]), f.ulpOfOne), 4)
        << f.name << " of " << typeName<T>() << " at " << xs[i] << ": "
        << got[i];
  }
}

static std::vector<std::string> vectorTargets() {
  std::vector<std::string> names;
  for (llvm::StringRef name : sextant::codegen::getHostTargets())
    if (name == "cpu:avx2" || name == "cpu:avx512")
      names.push_back(name.str());
  return names;
}

/// For each target and function.
class VectorMath
    : public testing::TestWithParam<std::tuple<std::string, Function>> {};

TEST_P(VectorMath, IsWithinTheStatedError) {
  auto [target, f] = GetParam();
  int lanes = target == "cpu:avx2" ? 8 : 16;
  check<float>(f, target, lanes);
  check<double>(f, target, lanes);
}

TEST_P(VectorMath, HasTheEndsOfLibm) {
  auto [target, f] = GetParam();
  checkEnds<float>(f, target, 16);
  checkEnds<double>(f, target, 8);
}

INSTANTIATE_TEST_SUITE_P(Functions, VectorMath,
                         testing::Combine(testing::ValuesIn(vectorTargets()),
                                          testing::ValuesIn(functions)));

template <typename T>
static void checkPower(const std::string &target, int lanes, double bound) {
  std::mt19937 engine(freshSeed());
  std::uniform_real_distribution<double> base(-20, 20), exponent(-6, 6);
  std::vector<T> xs, ys;
  for (int i = 0; i < 20000; ++i) {
    xs.push_back(static_cast<T>(std::exp(base(engine))));
    ys.push_back(static_cast<T>(exponent(engine)));
    if (i % 4 == 0) { // whole exponents of bases of either sign
      ys.back() = std::round(ys.back());
      xs.back() = i % 8 ? xs.back() : -xs.back();
    }
    long double result = powl(xs.back(), ys.back());
    if (!(std::fabs(result) < 1e37L && std::fabs(result) > 1e-37L))
      xs.back() = ys.back() = 1;
  }
  std::vector<T> got = apply<T>("powf", target, lanes, xs, ys);
  double worst = 0;
  for (size_t i = 0; i < xs.size(); ++i)
    worst = std::max(worst, ulpError<T>(got[i], powl(xs[i], ys[i]), false));
  EXPECT_LE(worst, bound);
  std::printf("powf %s: %.3f ulp\n", typeName<T>(), worst);
  std::vector<T> bases{0, 0, 0, -2, -2, 1, 4, 0.25, -1},
      exponents{0, 2, -1, 3, 0.5, 100, 0.5, -2, 2};
  got = apply<T>("powf", target, lanes, bases, exponents);
  for (size_t i = 0; i < bases.size(); ++i)
    EXPECT_LE(ulpError<T>(got[i], powl(bases[i], exponents[i]), false), 2)
        << bases[i] << "^" << exponents[i] << ": " << got[i];
}

TEST(VectorPowers, PowersAreWithinTheStatedError) {
  for (const std::string &target : vectorTargets()) {
    checkPower<float>(target, 16, 1);
    checkPower<double>(target, 8, 160);
  }
}

/// The exponential that kernels make their probabilities with.
static std::vector<float> applyKernelExp2(const std::string &target,
                                          const std::vector<float> &xs,
                                          bool isForBf16) {
  auto vector = llvm::cantFail(sextant::codegen::findTarget(target)).vector;
  auto lower = [&](mlir::ModuleOp module) {
    module.walk([&](mlir::math::Exp2Op op) {
      auto function = op->getParentOfType<mlir::func::FuncOp>();
      mlir::OpBuilder builder(op);
      sextant::codegen::KernelBuilder kernel(builder, op.getLoc(),
                                             function.front(), vector);
      op.replaceAllUsesWith(kernel.exp2(op.getOperand(), isForBf16));
      op.erase();
    });
    return mlir::success();
  };
  return apply<float>("exp2", target, vector.width, xs, {}, lower);
}

TEST(KernelExponentials, AreOffByWhatIsDocumented) {
  std::mt19937 engine(freshSeed());
  std::uniform_real_distribution<float> far(-126, 127), near(-1.5, 1.5);
  std::vector<float> xs;
  for (int i = 0; i != 40000; ++i)
    xs.push_back(i % 2 ? far(engine) : near(engine));
  for (int i = -126; i != 127; ++i)
    for (float half : {0.0F, 0.5F})
      xs.push_back(static_cast<float>(i) + half);
  for (const std::string &target : vectorTargets()) {
    auto vector = llvm::cantFail(sextant::codegen::findTarget(target)).vector;
    for (bool isForBf16 : {false, true}) {
      // A table of eighths has roundings of its own.
      double bound = isForBf16 || vector.lookUp ? 1.7e-7 : 9e-8;
      std::vector<float> got = applyKernelExp2(target, xs, isForBf16);
      double largest = 0, sum = 0;
      for (size_t i = 0; i != xs.size(); ++i) {
        double exact = std::exp2(static_cast<double>(xs[i]));
        double error = (got[i] - exact) / exact;
        largest = std::max(largest, std::fabs(error));
        sum += i % 2 ? error : 0; // of what lies evenly
      }
      EXPECT_LE(largest, bound) << target;
      EXPECT_GE(largest, 0.6 * bound) << target;
      EXPECT_LE(std::fabs(sum) / (xs.size() / 2), 2e-8) << target;
    }
  }
}

TEST(KernelExponentials, EndsAreExact) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  // What is below 2^-126 may be 0, as kernels take it to be.
  std::vector<float> xs{0,    -0.0F, 1,      -1,        -126, -127,
                        -140, -1e4F, -3e38F, -infinity, nan,  -nan};
  std::vector<float> want{1, 1, 2, 0.5F, 0x1p-126F, 0, 0, 0, 0, 0, nan, nan};
  for (const std::string &target : vectorTargets())
    for (bool isForBf16 : {false, true}) {
      std::vector<float> got = applyKernelExp2(target, xs, isForBf16);
      for (size_t i = 0; i != xs.size(); ++i)
        EXPECT_TRUE(std::isnan(want[i]) ? std::isnan(got[i])
                                        : std::fabs(got[i] - want[i]) <=
                                              (want[i] == 0 ? 0x1p-126F : 0))
            << target << " at " << xs[i] << ": " << got[i];
    }
}

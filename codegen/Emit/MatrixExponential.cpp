//===- MatrixExponential.cpp - Exponentials of small matrices -------------===//

#include "codegen/Emit/MatrixExponential.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// More squarings than the last would need a norm that leaves its angles
/// without digits.
static constexpr int64_t maxSquarings = 60;

/// The polynomial of degree 18 as five sums B of 1, X, X^2, X^3 and X^6:
/// with P = B[0] B[4] + B[3] it is B[1] + (B[2] + P) P.
static constexpr int64_t numPowers = 5;
static constexpr double coefficients[numPowers][numPowers] = {
    {0.0, -1.00365581030144618291e-01, -8.02924648241156932449e-03,
     -8.92138498045729985177e-04, 0.0},
    {0.0, 3.97849749499645077844e-01, 1.36783778460411720168e+00,
     4.98289622525382669416e-01, -6.37898194594723280150e-04},
    {-1.09676396052962061844e+01, 1.68015813878906206114e+00,
     5.71779846478865511061e-02, -6.98210122488052056106e-03,
     3.34975017086070470649e-05},
    {-9.04316832390810593223e-02, -6.76404519071381882256e-02,
     6.75961301770459654925e-02, 2.95552570429315521194e-02,
     -1.39180257516060693404e-05},
    {0.0, 0.0, -9.23364619367118555360e-02, -1.69364939002081722752e-02,
     -1.40086798182036094347e-05},
};

MatrixExponential::MatrixExponential(KernelBuilder &kernel, int64_t size)
    : kernel(kernel), size(size), product(kernel, size),
      f64(kernel.builder.getF64Type()) {}

int64_t MatrixExponential::getElements() const {
  constexpr int64_t elementsPerLine = 8;
  return llvm::alignTo(size * getStride(), elementsPerLine);
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

Value MatrixExponential::constant(double value) {
  return kernel.constant(kernel.builder.getF64FloatAttr(value));
}

Value MatrixExponential::broadcast(Value scalar) {
  return vector::BroadcastOp::create(kernel.builder, kernel.loc,
                                     product.getVector(), scalar);
}

Value MatrixExponential::load(Value matrix, Index row, Index column) {
  return kernel.load(
      f64, kernel.advance(matrix, {kernel.mul(row, getStride()), column}, f64));
}

void MatrixExponential::store(Value value, Value matrix, Index row,
                              Index column) {
  kernel.store(value, kernel.advance(
                          matrix, {kernel.mul(row, getStride()), column}, f64));
}

Value MatrixExponential::getVector(Value matrix, Index element) {
  return kernel.load(product.getVector(),
                     kernel.advance(matrix, {element}, f64));
}

void MatrixExponential::setVector(Value value, Value matrix, Index element) {
  kernel.store(value, kernel.advance(matrix, {element}, f64));
}

void MatrixExponential::forEachVector(function_ref<void(Index)> body) {
  kernel.loop(0, size * getStride(), product.getLanes(),
              [&](Value element) { body(element); });
}

void MatrixExponential::clear(Value matrix, Index rows) {
  clearElements(matrix, kernel.mul(rows, getStride()));
}

void MatrixExponential::clearElements(Value address, Index count) {
  Value zero = broadcast(constant(0.0));
  kernel.loop(0, count, product.getLanes(),
              [&](Value element) { setVector(zero, address, element); });
}

void MatrixExponential::add(Value matrix, Value to) {
  forEachVector([&](Index element) {
    setVector(kernel.addF(getVector(to, element), getVector(matrix, element)),
              to, element);
  });
}

/// The largest sum of a column's magnitudes.
Value MatrixExponential::getNorm(Value matrix) {
  Value zero = broadcast(constant(0.0));
  Value largest = kernel.loop(
      0, getStride(), product.getLanes(), {zero},
      [&](Value column, ValueRange largest) -> Values {
        Value sum = kernel.loop(
            0, size, 1, {zero}, [&](Value row, ValueRange sums) -> Values {
              Value elements = getVector(
                  matrix, kernel.add(kernel.mul(row, getStride()), column));
              Value magnitudes =
                  math::AbsFOp::create(kernel.builder, kernel.loc, elements);
              return {kernel.addF(sums[0], magnitudes)};
            })[0];
        return {kernel.maxF(sum, largest[0])};
      })[0];
  return vector::ReductionOp::create(kernel.builder, kernel.loc,
                                     vector::CombiningKind::MAXNUMF, largest);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

void MatrixExponential::multiply(ArrayRef<MatrixProduct::Term> terms,
                                 Value result, bool adds) {
  product.multiply(terms, result, size, size, adds);
}

void MatrixExponential::multiplyEach(ArrayRef<Product> products) {
  if (!kernel.target.wantsShortCode) {
    for (const Product &each : products)
      multiply(each.terms, each.result);
    return;
  }
  kernel.loop(0, products.size(), 1, [&](Value number) {
    auto choose = [&](function_ref<Value(const Product &)> get) {
      Value chosen = get(products.back());
      for (size_t i = products.size() - 1; i-- > 0;)
        chosen = arith::SelectOp::create(kernel.builder, kernel.loc,
                                         kernel.equal(number, i),
                                         get(products[i]), chosen);
      return chosen;
    };
    Product product = products.front();
    product.result = choose([](const Product &of) { return of.result; });
    for (auto [place, term] : llvm::enumerate(product.terms)) {
      term.a = choose([&](const Product &of) { return of.terms[place].a; });
      term.b = choose([&](const Product &of) { return of.terms[place].b; });
    }
    multiply(product.terms, product.result);
  });
}

void MatrixExponential::multiplyRows(Value rows, Index count, Value matrix,
                                     Value result) {
  product.multiply({product.term(rows, matrix)}, result, count, size);
}

void MatrixExponential::addOuterProducts(Value a, Value b, Index count,
                                         Value sum) {
  product.multiply({{a, 1, getStride(), b}}, sum, size, count, /*adds=*/true);
}

//===----------------------------------------------------------------------===//
// The exponential
//===----------------------------------------------------------------------===//

/// Halves the matrix, and the direction where there is one, until the norm is
/// at most 1; gives how often, which the norm's exponent says.
Index MatrixExponential::scale(Value matrix, Value direction) {
  OpBuilder &builder = kernel.builder;
  Location loc = kernel.loc;
  Value bits =
      arith::BitcastOp::create(builder, loc, kernel.i64, getNorm(matrix));
  Value biased =
      arith::ShRUIOp::create(builder, loc, bits, kernel.constantI64(52));
  constexpr int64_t bias = 1023;
  Index squarings =
      kernel.min(kernel.max(kernel.sub(biased, bias - 1), 0), maxSquarings);
  Value power = arith::ShLIOp::create(builder, loc,
                                      kernel.value(kernel.sub(bias, squarings)),
                                      kernel.constantI64(52));
  Value halved = broadcast(arith::BitcastOp::create(builder, loc, f64, power));
  forEachVector([&](Index element) {
    setVector(kernel.mulF(getVector(matrix, element), halved), matrix, element);
    if (direction)
      setVector(kernel.mulF(getVector(direction, element), halved), direction,
                element);
  });
  return squarings;
}

/// Makes the sums B[1], B[2], B[3], B[4] and B[0] of X, X^2, X^3 and X^6.
void MatrixExponential::combine(Work work, bool addsIdentity) {
  constexpr int64_t sumAt[numPowers] = {1, 2, 3, 4, 0};
  forEachVector([&](Index element) {
    Values powers;
    for (Value power : work.drop_back())
      powers.push_back(getVector(power, element));
    for (auto [place, matrix] : llvm::enumerate(work)) {
      Value sum;
      for (auto [at, power] : llvm::enumerate(powers)) {
        double factor = coefficients[sumAt[place]][at + 1];
        if (factor == 0.0)
          continue;
        Value part = kernel.mulF(power, broadcast(constant(factor)));
        sum = sum ? kernel.addF(sum, part) : part;
      }
      setVector(sum, matrix, element);
    }
  });
  if (addsIdentity)
    kernel.loop(0, size, 1, [&](Value i) {
      for (auto [place, matrix] : llvm::enumerate(work))
        if (double one = coefficients[sumAt[place]][0])
          store(kernel.addF(load(matrix, i, i), constant(one)), matrix, i, i);
    });
}

/// Makes T(X) of X, in place, and its derivative of the direction.
void MatrixExponential::evaluate(Work work, Work directions) {
  Value x = work[0], x2 = work[1], x3 = work[2], x6 = work[3];
  auto times = [&](Value a, Value b) { return product.term(a, b); };
  multiplyEach(
      {{{times(x, x)}, x2}, {{times(x2, x)}, x3}, {{times(x3, x3)}, x6}});
  if (!directions.empty()) {
    Value d = directions[0], d2 = directions[1], d3 = directions[2];
    multiplyEach({{{times(d, x), times(x, d)}, d2},
                  {{times(d2, x), times(x2, d)}, d3},
                  {{times(d3, x3), times(x3, d3)}, directions[3]}});
    combine(directions, /*addsIdentity=*/false);
  }
  combine(work, /*addsIdentity=*/true);

  Value sum = work[0], factor = work[1], p = work[2], b4 = work[3],
        b0 = work[4];
  multiply({times(b0, b4)}, p, /*adds=*/true);
  add(p, factor);
  multiply({times(factor, p)}, sum, /*adds=*/true);
  if (directions.empty())
    return;
  Value dFactor = directions[1], dP = directions[2];
  multiply({times(directions[4], b4), times(b0, directions[3])}, dP, true);
  add(dP, dFactor);
  multiply({times(dFactor, p), times(factor, dP)}, directions[0], true);
}

MatrixExponential::WithDerivative MatrixExponential::run(Work work,
                                                         Work directions) {
  bool isDerived = !directions.empty();
  Index squarings = scale(work[0], isDerived ? directions[0] : Value());
  evaluate(work, directions);
  // What a square is made of and where it goes change places.
  Values places{work[0], work[1]};
  if (isDerived)
    places.append({directions[0], directions[1]});
  places = kernel.loop(
      0, squarings, 1, places, [&](Value, ValueRange places) -> Values {
        Value root = places[0], square = places[1];
        multiply({product.term(root, root)}, square);
        if (!isDerived)
          return {square, root};
        Value d = places[2];
        multiply({product.term(d, root), product.term(root, d)}, places[3]);
        return {square, root, places[3], d};
      });
  return {places[0], isDerived ? places[2] : Value()};
}

Value MatrixExponential::exponential(Work work) { return run(work, {}).result; }

MatrixExponential::WithDerivative
MatrixExponential::exponential(Work work, Work directions) {
  return run(work, directions);
}

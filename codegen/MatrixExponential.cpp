//===- MatrixExponential.cpp - Exponentials of small matrices -------------===//

#include "codegen/MatrixExponential.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// Terms of the polynomial after the identity, and the norm that they hold for:
/// 2^-normBits. More squarings than the last would need a norm that leaves its
/// angles without digits.
static constexpr int64_t degree = 10, normBits = 3, maxSquarings = 60;

/// Rows and vectors of a product that are in registers at once.
static constexpr int64_t rowsAtOnce = 4;

MatrixExponential::MatrixExponential(KernelBuilder &kernel, int64_t size)
    : kernel(kernel), size(size),
      lanes(std::max<int64_t>(kernel.width() / 2, 1)),
      stride(llvm::alignTo(size, std::max<int64_t>(lanes, rowsAtOnce))),
      f64(kernel.builder.getF64Type()), vector(VectorType::get(lanes, f64)) {}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

Value MatrixExponential::constant(double value) {
  return kernel.constant(kernel.builder.getF64FloatAttr(value));
}

Value MatrixExponential::broadcast(Value scalar) {
  return vector::BroadcastOp::create(kernel.builder, kernel.loc, vector,
                                     scalar);
}

Value MatrixExponential::load(Value matrix, Index row, Index column) {
  return kernel.load(
      f64, kernel.advance(matrix, {kernel.mul(row, stride), column}, f64));
}

Value MatrixExponential::loadVector(Value matrix, Index row, Index column) {
  return kernel.load(
      vector, kernel.advance(matrix, {kernel.mul(row, stride), column}, f64));
}

void MatrixExponential::store(Value value, Value matrix, Index row,
                              Index column) {
  kernel.store(value,
               kernel.advance(matrix, {kernel.mul(row, stride), column}, f64));
}

void MatrixExponential::clear(Value address, int64_t count) {
  Value zero = broadcast(constant(0.0));
  kernel.loop(0, count, lanes, [&](Value element) {
    kernel.store(zero, kernel.advance(address, {element}, f64));
  });
}

void MatrixExponential::scale(Value from, Value factor, Value to,
                              bool addsIdentity) {
  Value factors = broadcast(factor);
  kernel.loop(0, getElements(), lanes, [&](Value element) {
    Value old = kernel.load(vector, kernel.advance(from, {element}, f64));
    kernel.store(kernel.mulF(old, factors), kernel.advance(to, {element}, f64));
  });
  if (addsIdentity)
    kernel.loop(0, size, 1, [&](Value i) {
      store(kernel.addF(load(to, i, i), constant(1.0)), to, i, i);
    });
}

/// The largest sum of a row's magnitudes.
Value MatrixExponential::getNorm(Value matrix) {
  Value zero = constant(0.0);
  return kernel.loop(
      0, size, 1, {zero}, [&](Value row, ValueRange largest) -> Values {
        Value sum = kernel.loop(
            0, size, 1, {zero}, [&](Value column, ValueRange sums) -> Values {
              Value magnitude = math::AbsFOp::create(kernel.builder, kernel.loc,
                                                     load(matrix, row, column));
              return {kernel.addF(sums[0], magnitude)};
            })[0];
        Value isLarger =
            kernel.compareF(arith::CmpFPredicate::OGT, sum, largest[0]);
        return {kernel.selectF(isLarger, sum, largest[0])};
      })[0];
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

void MatrixExponential::multiply(Value a, Value b, Value c, int64_t rows,
                                 bool adds) {
  int64_t perBlock = rows == 1 ? 1 : rowsAtOnce;
  int64_t vectors = stride / lanes;
  int64_t atOnce = kernel.target.registers >= 32 ? 4 : 2;
  kernel.loop(0, rows, perBlock, [&](Value row) {
    for (int64_t first = 0; first < vectors; first += atOnce) {
      int64_t count = std::min(atOnce, vectors - first);
      auto columnOf = [&](int64_t i) { return Index((first + i) * lanes); };
      Values sums;
      for (int64_t r = 0; r < perBlock; ++r)
        for (int64_t i = 0; i < count; ++i)
          sums.push_back(adds ? loadVector(c, kernel.add(row, r), columnOf(i))
                              : broadcast(constant(0.0)));
      sums = kernel.loop(0, size, 1, sums, [&](Value k, ValueRange old) {
        Values next, columns;
        for (int64_t i = 0; i < count; ++i)
          columns.push_back(loadVector(b, k, columnOf(i)));
        for (int64_t r = 0; r < perBlock; ++r) {
          Value factor = broadcast(load(a, kernel.add(row, r), k));
          // Contracted to one instruction where the target has it.
          for (int64_t i = 0; i < count; ++i)
            next.push_back(kernel.addF(old[r * count + i],
                                       kernel.mulF(factor, columns[i])));
        }
        return next;
      });
      for (int64_t r = 0; r < perBlock; ++r)
        for (int64_t i = 0; i < count; ++i)
          store(sums[r * count + i], c, kernel.add(row, r), columnOf(i));
    }
  });
}

void MatrixExponential::multiplyRow(Value row, Value matrix, Value result) {
  multiply(row, matrix, result, 1, /*adds=*/false);
}

void MatrixExponential::addRow(Value factor, Value row, Value address) {
  Value factors = broadcast(factor);
  kernel.loop(0, stride, lanes, [&](Value column) {
    Value to = kernel.advance(address, {column}, f64);
    Value addend = kernel.mulF(
        factors, kernel.load(vector, kernel.advance(row, {column}, f64)));
    kernel.store(kernel.addF(kernel.load(vector, to), addend), to);
  });
}

//===----------------------------------------------------------------------===//
// The exponential
//===----------------------------------------------------------------------===//

void MatrixExponential::run(Value matrix, Value result, Value work,
                            const Derivative *derivative) {
  OpBuilder &builder = kernel.builder;
  Location loc = kernel.loc;
  // The norm's exponent says how often to halve.
  Value bits =
      arith::BitcastOp::create(builder, loc, kernel.i64, getNorm(matrix));
  Value biased =
      arith::ShRUIOp::create(builder, loc, bits, kernel.constantI64(52));
  constexpr int64_t bias = 1023;
  Index squarings = kernel.min(
      kernel.max(kernel.sub(biased, bias - 1 - normBits), 0), maxSquarings);
  Value power = arith::ShLIOp::create(builder, loc,
                                      kernel.value(kernel.sub(bias, squarings)),
                                      kernel.constantI64(52));
  Value halved = arith::BitcastOp::create(builder, loc, f64, power);
  scale(matrix, halved, matrix, /*addsIdentity=*/false);
  if (derivative)
    scale(derivative->direction, halved, derivative->direction, false);

  // Horner's rule: P <- I + X P / k for k = degree - 1 .. 1.
  Value last = constant(1.0 / degree);
  scale(matrix, last, result, /*addsIdentity=*/true);
  if (derivative)
    scale(derivative->direction, last, derivative->result, false);
  kernel.loop(1, degree, 1, [&](Value step) {
    Value k = arith::SIToFPOp::create(builder, loc, f64,
                                      kernel.value(kernel.sub(degree, step)));
    Value factor = kernel.divF(constant(1.0), k);
    if (derivative) {
      multiply(derivative->direction, result, derivative->work, stride, false);
      multiply(matrix, derivative->result, derivative->work, stride, true);
      scale(derivative->work, factor, derivative->result, false);
    }
    multiply(matrix, result, work, stride, false);
    scale(work, factor, result, /*addsIdentity=*/true);
  });

  Value one = constant(1.0);
  kernel.loop(0, squarings, 1, [&](Value) {
    if (derivative) {
      multiply(derivative->result, result, derivative->work, stride, false);
      multiply(result, derivative->result, derivative->work, stride, true);
      scale(derivative->work, one, derivative->result, false);
    }
    multiply(result, result, work, stride, false);
    scale(work, one, result, false);
  });
}

void MatrixExponential::exponential(Value matrix, Value result, Value work) {
  run(matrix, result, work, nullptr);
}

void MatrixExponential::exponential(Value matrix, Value result, Value work,
                                    const Derivative &derivative) {
  run(matrix, result, work, &derivative);
}

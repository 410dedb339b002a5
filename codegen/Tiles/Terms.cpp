//===- Terms.cpp - Numbers of f32 as sums of bf16 -------------------------===//

#include "codegen/Tiles/Terms.h"
#include "codegen/Tiles/UnitProduct.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace sextant::codegen;

/// Lanes [first, first + width) of a vector.
static Value getHalf(KernelBuilder &kernel, Value wide, int64_t first) {
  SmallVector<int64_t> lanes(kernel.width());
  std::iota(lanes.begin(), lanes.end(), first);
  return kernel.shuffle(wide, wide, lanes);
}

static Value bitCast(KernelBuilder &kernel, Value vector, Type type) {
  return vector::BitCastOp::create(kernel.builder, kernel.loc, type, vector);
}

static Terms roundToTerms(KernelBuilder &kernel, Value low, Value high,
                          Pairs pairs) {
  int64_t width = kernel.width();
  SmallVector<int64_t> ofRows;
  for (int64_t lane = 0; lane < width; ++lane)
    ofRows.append({lane, width + lane});
  Terms terms;
  for (Value &term : terms) {
    Value both = kernel.truncatePair(low, high);
    term = bitCast(kernel,
                   pairs == Pairs::Rows ? kernel.shuffle(both, both, ofRows)
                                        : both,
                   kernel.vf32);
    if (&term == &terms.back())
      break;
    Value wide = kernel.extend(both);
    low = kernel.subF(low, getHalf(kernel, wide, 0));
    high = kernel.subF(high, getHalf(kernel, wide, width));
  }
  return terms;
}

static Terms cutToTerms(KernelBuilder &kernel, Value low, Value high,
                        Pairs pairs) {
  OpBuilder &builder = kernel.builder;
  Value mask = kernel.splatI32(int32_t(0xffff0000));
  auto getBits = [&](Value x) { return bitCast(kernel, x, kernel.vi32); };
  auto cut = [&](Value x) -> Value {
    return arith::AndIOp::create(builder, kernel.loc, getBits(x), mask);
  };
  auto pairRows = [&](Value low, Value highBits) -> Value {
    Value word = arith::ShRUIOp::create(builder, kernel.loc, getBits(low),
                                        kernel.splatI32(16));
    return arith::OrIOp::create(builder, kernel.loc, word, highBits);
  };
  // The upper halves of words.
  auto pairNeighbours = [&](Value low, Value high) -> Value {
    auto type =
        VectorType::get(2 * kernel.width(), kernel.builder.getI16Type());
    SmallVector<int64_t> upper;
    for (int64_t half = 1; half < 4 * kernel.width(); half += 2)
      upper.push_back(half);
    return kernel.shuffle(bitCast(kernel, low, type),
                          bitCast(kernel, high, type), upper);
  };
  Terms terms;
  for (Value &term : terms) {
    Value highBits = cut(high);
    Value words = pairs == Pairs::Rows ? pairRows(low, highBits)
                                       : pairNeighbours(low, high);
    term = bitCast(kernel, words, kernel.vf32);
    if (&term == &terms.back())
      break;
    low = kernel.subF(low, bitCast(kernel, cut(low), kernel.vf32));
    high = kernel.subF(high, bitCast(kernel, highBits, kernel.vf32));
  }
  return terms;
}

Terms sextant::codegen::splitPair(KernelBuilder &kernel, Value low, Value high,
                                  Pairs pairs, Split split) {
  return split == Split::Rounds ? roundToTerms(kernel, low, high, pairs)
                                : cutToTerms(kernel, low, high, pairs);
}

void sextant::codegen::storeTerms(KernelBuilder &kernel, const Terms &terms,
                                  Value to, Index distance) {
  for (auto [number, term] : llvm::enumerate(terms))
    kernel.storeVector(term, to,
                       {kernel.mul(static_cast<int64_t>(number), distance)});
}

int64_t sextant::codegen::getTermWords(int64_t elements) {
  return llvm::alignTo(elements, UnitProduct::depth) / 2;
}

/// `count` elements of a row from `first` on, zeros behind them.
static Value loadElements(KernelBuilder &kernel, Value row, Index first,
                          int64_t count) {
  return count
             ? kernel.loadPart(kernel.vf32, kernel.advance(row, {first}), count)
             : kernel.splatF32(0);
}

/// Calls `body` for the vectors of a row of terms, with how many elements each
/// has: in a loop for whole ones.
static void forVectors(KernelBuilder &kernel, int64_t elements,
                       function_ref<void(Index first, int64_t count)> body) {
  int64_t width = kernel.width(), whole = elements / width * width;
  kernel.loop(0, whole, width, [&](Value first) { body(first, width); });
  for (int64_t first = whole; first < 2 * getTermWords(elements);
       first += width)
    body(first, std::max<int64_t>(elements - first, 0));
}

void sextant::codegen::splitTransposed(KernelBuilder &kernel,
                                       ArrayRef<Value> rows, int64_t elements,
                                       Split split, Value to, int64_t stride,
                                       Index distance, double factor) {
  forVectors(kernel, elements, [&](Index first, int64_t count) {
    KernelBuilder::Values columns;
    for (Value row : rows)
      columns.push_back(loadElements(kernel, row, first, count));
    columns = kernel.transpose(columns);
    if (factor != 1.0)
      for (Value &column : columns)
        column = kernel.mulF(column, kernel.splatF32(factor));
    Value target =
        kernel.advance(to, {kernel.mul(kernel.div(first, 2), stride)});
    for (int64_t k = 0; k < kernel.width(); k += 2)
      storeTerms(
          kernel,
          splitPair(kernel, columns[k], columns[k + 1], Pairs::Rows, split),
          kernel.advance(target, {k / 2 * stride}), distance);
  });
}

void sextant::codegen::splitRows(KernelBuilder &kernel, const RowsOfTerms &rows,
                                 Index count, Split split, Value to,
                                 Index distance) {
  int64_t width = kernel.width(), rowWords = getTermWords(rows.elements);
  kernel.loop(0, count, 1, [&](Value row) {
    Value from = kernel.advance(rows.from, {kernel.mul(row, rows.stride)});
    Value target = kernel.advance(to, {kernel.mul(row, rowWords)});
    auto load = [&](int64_t first) {
      int64_t rest = std::clamp<int64_t>(rows.elements - first, 0, width);
      return loadElements(kernel, from, first, rest);
    };
    for (int64_t word = 0; word < rowWords; word += width)
      storeTerms(kernel,
                 splitPair(kernel, load(2 * word), load(2 * word + width),
                           Pairs::Neighbours, split),
                 kernel.advance(target, {word}), distance);
  });
}

void sextant::codegen::splitTurned(KernelBuilder &kernel,
                                   const RowsOfTerms &rows, Value to,
                                   int64_t stride, Index distance) {
  constexpr int64_t side = MatrixUnit::side;
  forVectors(kernel, rows.elements, [&](Index first, int64_t count) {
    KernelBuilder::Values halves[2];
    for (auto [half, square] : llvm::enumerate(halves)) {
      for (int64_t n = 0; n < side; ++n) {
        int64_t row = static_cast<int64_t>(half) * side + n;
        square.push_back(
            loadElements(kernel, kernel.advance(rows.from, {row * rows.stride}),
                         first, count));
      }
      square = kernel.transpose(square);
    }
    Value target = kernel.advance(to, {kernel.mul(first, stride)});
    for (int64_t n = 0; n < side; ++n)
      storeTerms(kernel,
                 splitPair(kernel, halves[0][n], halves[1][n],
                           Pairs::Neighbours, Split::Rounds),
                 kernel.advance(target, {n * stride}), distance);
  });
}

//===- UnitProduct.cpp - A product of a matrix unit -----------------------===//

#include "codegen/Tiles/UnitProduct.h"

using namespace mlir;
using namespace sextant::codegen;

static constexpr int64_t side = MatrixUnit::side;

/// Steps of a contraction that are written out, at most; of terms, whose steps
/// are longer.
static constexpr int64_t writtenSteps = 4, writtenStepsOfTerms = 2;

namespace {
/// The numbers of the registers: two by two sums, and a column and a row of
/// factors.
struct Registers {
  static int64_t sum(int64_t row, int64_t column) { return 2 * row + column; }
  static int64_t a(int64_t row) { return 4 + row; }
  static int64_t b(int64_t column) { return 6 + column; }
};
} // namespace
static_assert(MatrixUnit::registers == 8);

namespace {
/// Numbers of the terms of `a` and `b` that are multiplied.
struct TermPair {
  int64_t a, b;
};
} // namespace

/// Neighbours share a term, whose tiles then stay in registers. The greatest
/// product comes last.
static constexpr TermPair termPairs[MatrixUnit::productsOfF32] = {
    {2, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}, {0, 0}};

/// The pairs in the order in which `product` adds them up; one pair of operands
/// that are bf16 themselves.
static SmallVector<TermPair> getTermPairs(const UnitProduct &product) {
  if (!product.terms)
    return {{0, 0}};
  SmallVector<TermPair> pairs(ArrayRef<TermPair>{termPairs});
  if (product.terms->haveChangedPlaces)
    for (TermPair &pair : pairs)
      std::swap(pair.a, pair.b);
  return pairs;
}

/// A block of sums, of two rows and two columns of tiles.
static void emitBlock(KernelBuilder &kernel, const UnitProduct &product,
                      Index row) {
  const MatrixUnit &unit = *kernel.target.matrixUnit;
  Value aStride = kernel.value(product.aStride);
  Value bStride = kernel.value(product.bStride);
  Value stride = kernel.value(product.stride);
  Value a = kernel.advance(product.a, {kernel.mul(row, aStride)});
  Value to = kernel.advance(product.sums, {kernel.mul(row, stride)});
  auto forSums = [&](auto body) {
    for (int64_t r = 0; r < 2; ++r)
      for (int64_t c = 0; c < 2; ++c)
        body(Registers::sum(r, c),
             kernel.advance(to, {kernel.mul(r * side, stride), c * side}));
  };
  forSums([&](int64_t tile, Value at) {
    product.adds ? unit.load(kernel, tile, at, stride)
                 : unit.clear(kernel, tile);
  });
  auto apart = product.terms.value_or(UnitProduct::TermPlaces());
  auto addPair = [&](Index word, TermPair pair, TermPair before) {
    if (pair.b != before.b)
      for (int64_t c = 0; c < 2; ++c)
        unit.load(
            kernel, Registers::b(c),
            kernel.advance(product.b, {kernel.mul(word, product.bStride),
                                       kernel.mul(pair.b, apart.b), c * side}),
            bStride);
    for (int64_t r = 0; r < 2; ++r) {
      if (pair.a != before.a)
        unit.load(kernel, Registers::a(r),
                  kernel.advance(a, {kernel.mul(word, product.aStep),
                                     kernel.mul(pair.a, apart.a),
                                     kernel.mul(r * side, aStride)}),
                  aStride);
      for (int64_t c = 0; c < 2; ++c)
        unit.multiply(kernel, Registers::sum(r, c), Registers::a(r),
                      Registers::b(c));
    }
  };
  SmallVector<TermPair> pairs = getTermPairs(product);
  auto addStep = [&](Index word) {
    TermPair before = {-1, -1};
    for (TermPair pair : pairs) {
      addPair(word, pair, before);
      before = pair;
    }
  };
  int64_t written = product.terms ? writtenStepsOfTerms : writtenSteps;
  if (product.words.isConstant() &&
      product.words.getConstant() <= written * side)
    for (int64_t word = 0; word < product.words.getConstant(); word += side)
      addStep(word);
  else
    kernel.loop(0, product.words, side, [&](Value word) { addStep(word); });
  forSums(
      [&](int64_t tile, Value at) { unit.store(kernel, tile, at, stride); });
}

void sextant::codegen::emitUnitProduct(KernelBuilder &kernel,
                                       const UnitProduct &product) {
  kernel.loop(0, product.rows, UnitProduct::block,
              [&](Value row) { emitBlock(kernel, product, row); });
}

void sextant::codegen::turnPairs(KernelBuilder &kernel, Value from,
                                 int64_t distance, int64_t elements, Value to,
                                 int64_t stride) {
  kernel.loop(0, elements / UnitProduct::depth, 1, [&](Value number) {
    Value rows = kernel.advance(from, {kernel.mul(number, side)});
    Value out =
        kernel.advance(to, {kernel.mul(number, UnitProduct::depth * stride)});
    KernelBuilder::Values squares[2];
    for (int64_t pair = 0; pair < side; ++pair) {
      auto [low, high] = kernel.interleave(
          kernel.loadVector(rows, {2 * pair * distance}),
          kernel.loadVector(rows, {(2 * pair + 1) * distance}));
      squares[0].push_back(low);
      squares[1].push_back(high);
    }
    for (auto [half, square] : llvm::enumerate(squares))
      for (auto [n, vector] : llvm::enumerate(kernel.transpose(square)))
        kernel.storeVector(
            vector, out,
            {(static_cast<int64_t>(half) * side + static_cast<int64_t>(n)) *
             stride});
  });
}

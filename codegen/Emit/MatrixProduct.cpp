//===- MatrixProduct.cpp - Products of small matrices in double -----------===//

#include "codegen/Emit/MatrixProduct.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// A contraction of at most so many elements is written out.
static constexpr int64_t unrolledDepth = 8;

/// Few columns take a short vector: lanes past the last would be work as well.
static int64_t countLanes(const KernelBuilder &kernel, int64_t columns) {
  return std::min<int64_t>(kernel.target.countDoubleLanes(),
                           llvm::PowerOf2Ceil(columns));
}

/// The number of sums at a time: as many as hide the latency of their
/// additions, and no more than leave registers for the factors.
static int64_t countSums(const KernelBuilder &kernel) {
  return kernel.target.hasManyRegisters() ? 16 : 8;
}

MatrixProduct::MatrixProduct(KernelBuilder &kernel, int64_t columns)
    : kernel(kernel), columns(columns), lanes(countLanes(kernel, columns)),
      stride(llvm::alignTo(columns, lanes)), f64(kernel.builder.getF64Type()),
      vector(VectorType::get(lanes, f64)) {}

void MatrixProduct::multiplyTile(ArrayRef<Term> terms, Value result,
                                 const Tile &tile, Index depth, bool adds) {
  Value to = kernel.advance(
      result,
      {kernel.mul(tile.row, stride), kernel.mul(tile.firstVector, lanes)}, f64);
  auto getSum = [&](int64_t r, int64_t i) {
    return kernel.advance(to, {r * stride + i * lanes}, f64);
  };
  Value zero =
      kernel.constant(cast<TypedAttr>(kernel.builder.getZeroAttr(vector)));
  Values sums;
  for (int64_t r = 0; r < tile.rows; ++r)
    for (int64_t i = 0; i < tile.vectors; ++i)
      sums.push_back(adds ? kernel.load(vector, getSum(r, i)) : zero);

  for (const Term &term : terms) {
    Value a = kernel.advance(term.a, {kernel.mul(tile.row, term.rowStep)}, f64);
    Value b =
        kernel.advance(term.b, {kernel.mul(tile.firstVector, lanes)}, f64);
    auto addAt = [&](Index k, ValueRange old) -> Values {
      Value factors = kernel.advance(a, {kernel.mul(k, term.depthStep)}, f64);
      Value row = kernel.advance(b, {kernel.mul(k, stride)}, f64);
      Values vectors, next;
      for (int64_t i = 0; i < tile.vectors; ++i)
        vectors.push_back(
            kernel.load(vector, kernel.advance(row, {i * lanes}, f64)));
      for (int64_t r = 0; r < tile.rows; ++r) {
        Value factor =
            kernel.load(f64, kernel.advance(factors, {r * term.rowStep}, f64));
        Value everywhere = vector::BroadcastOp::create(
            kernel.builder, kernel.loc, vector, factor);
        // Contracted to one instruction where the target has it.
        for (int64_t i = 0; i < tile.vectors; ++i)
          next.push_back(kernel.addF(old[r * tile.vectors + i],
                                     kernel.mulF(everywhere, vectors[i])));
      }
      return next;
    };
    if (depth.isConstant() && depth.getConstant() <= unrolledDepth)
      for (int64_t k = 0; k < depth.getConstant(); ++k)
        sums = addAt(k, sums);
    else // there are many products in a kernel: ptxas unrolls by four, and
         // then takes twice as long
      sums = kernel.rolledLoop(0, depth, 1, sums, addAt);
  }
  for (int64_t r = 0; r < tile.rows; ++r)
    for (int64_t i = 0; i < tile.vectors; ++i)
      kernel.store(sums[r * tile.vectors + i], getSum(r, i));
}

void MatrixProduct::multiplyPanel(ArrayRef<Term> terms, Value result,
                                  Index firstVector, int64_t vectors,
                                  Index rows, Index depth, bool adds) {
  Tile tile{0, rowsAtOnce, firstVector, vectors};
  auto run = [&](Index row) {
    tile.row = row;
    multiplyTile(terms, result, tile, depth, adds);
  };
  if (!rows.isConstant()) {
    kernel.loop(0, rows, rowsAtOnce, [&](Value row) { run(row); });
    return;
  }
  int64_t count = rows.getConstant();
  tile.rows = std::min(count, countSums(kernel) / vectors);
  int64_t whole = count / tile.rows * tile.rows;
  if (whole == tile.rows)
    run(0);
  else
    kernel.loop(0, whole, tile.rows, [&](Value row) { run(row); });
  if (whole == count)
    return;
  tile.rows = count - whole;
  run(whole);
}

void MatrixProduct::multiply(ArrayRef<Term> terms, Value result, Index rows,
                             Index depth, bool adds) {
  int64_t mostVectors = countSums(kernel) / 4;
  int64_t vectors = llvm::divideCeil(columns, lanes);
  int64_t panels = llvm::divideCeil(vectors, mostVectors);
  // Panels of two widths, one apart: a loop over those of each, so that there
  // is no more code for many columns. A panel of b stays in the first cache
  // while rows of a pass by.
  int64_t width = vectors / panels, wide = vectors % panels;
  auto runPanels = [&](int64_t first, int64_t end, int64_t width) {
    auto run = [&](Index at) {
      multiplyPanel(terms, result, at, width, rows, depth, adds);
    };
    if (first + width == end)
      run(first);
    else if (first != end)
      kernel.loop(first, end, width, [&](Value at) { run(at); });
  };
  runPanels(0, wide * (width + 1), width + 1);
  runPanels(wide * (width + 1), vectors, width);
}

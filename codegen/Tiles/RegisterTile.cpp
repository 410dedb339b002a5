//===- RegisterTile.cpp - A product kept in vector registers --------------===//

#include "codegen/Tiles/RegisterTile.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

SmallVector<TileRow> sextant::codegen::getTileRows(Value first, int64_t count,
                                                   int64_t distance) {
  SmallVector<TileRow> rows;
  for (int64_t row = 0; row < count; ++row)
    rows.push_back({first, row * distance});
  return rows;
}

/// The scalar of a row at a step, in all lanes. Compilers join what is known to
/// be aligned.
static Value loadScalar(KernelBuilder &kernel, const RegisterTile &tile,
                        const TileRow &row, Value pointer, int64_t step) {
  Index place = kernel.add(kernel.mul(step, tile.rowStep), row.offset);
  if (tile.alignment == 4 || !place.isConstant())
    return kernel.loadBroadcast(pointer,
                                {kernel.mul(step, tile.rowStep), row.offset});
  int64_t bytes = std::gcd(tile.alignment, 4 * place.getConstant());
  return kernel.broadcast(LLVM::LoadOp::create(
      kernel.builder, kernel.loc, kernel.f32, kernel.advance(pointer, {place}),
      static_cast<unsigned>(bytes)));
}

static Value loadLanes(KernelBuilder &kernel, const RegisterTile &tile,
                       Value base, ArrayRef<Index> offsets) {
  if (tile.laneStep == 1)
    return kernel.loadVector(base, offsets);
  SmallVector<int32_t> places;
  for (int64_t lane = 0; lane < kernel.width(); ++lane)
    places.push_back(static_cast<int32_t>(lane * tile.laneStep));
  return kernel.gather(
      kernel.f32, kernel.advance(base, offsets),
      kernel.constant(DenseElementsAttr::get(kernel.vi32, ArrayRef(places))));
}

/// Vector `number` of a row of bf16.
static Value loadWidened(KernelBuilder &kernel, Value base, Index words,
                         int64_t number) {
  Value row = kernel.advance(base, {words});
  return kernel.extend(
      kernel.load(VectorType::get(kernel.width(), kernel.bf16),
                  kernel.advance(row, {number * kernel.width()}, kernel.bf16)));
}

/// Steps k0 .. k0 + steps - 1. Rows with the same pointer share the address
/// computation; their offsets become displacements.
static Values emitSteps(KernelBuilder &kernel, const RegisterTile &tile,
                        Index k0, int64_t steps, ValueRange initial) {
  Values accumulators(initial);
  Value base = kernel.advance(tile.base, {kernel.mul(k0, tile.vectorStep)});
  Index rowOffset = kernel.mul(k0, tile.rowStep);
  llvm::MapVector<Value, Value> pointers; // in a fixed order
  for (const TileRow &row : tile.rows) {
    Value &pointer = pointers[row.pointer];
    if (!pointer)
      pointer = kernel.advance(row.pointer, {rowOffset});
  }
  int64_t distance = tile.vectorDistance ? tile.vectorDistance : kernel.width();
  for (int64_t step = 0; step < steps; ++step) {
    Values vectors;
    Index ofStep = kernel.mul(step, tile.vectorStep);
    for (int64_t v = 0; v < tile.vectors; ++v)
      vectors.push_back(
          tile.widens ? loadWidened(kernel, base, ofStep, v)
                      : loadLanes(kernel, tile, base, {ofStep, v * distance}));
    for (auto [r, row] : llvm::enumerate(tile.rows)) {
      Value scalar = loadScalar(kernel, tile, row, pointers[row.pointer], step);
      for (int64_t v = 0; v < tile.vectors; ++v) {
        Value &accumulator = accumulators[r * tile.vectors + v];
        accumulator = tile.pairs ? kernel.dot(scalar, vectors[v], accumulator)
                                 : kernel.fma(scalar, vectors[v], accumulator);
      }
    }
  }
  return accumulators;
}

/// Whether an element of a row that is aligned is so at every step.
static bool isAlignedAtEveryStep(const RegisterTile &tile) {
  return tile.rowStep.isConstant() &&
         4 * tile.rowStep.getConstant() % tile.alignment == 0;
}

Values sextant::codegen::emitTile(KernelBuilder &kernel,
                                  const RegisterTile &tile,
                                  ValueRange initial) {
  auto run = [&](Index low, Index high, int64_t unroll, ValueRange values) {
    RegisterTile part = tile;
    if (unroll * sizeof(float) < static_cast<uint64_t>(tile.alignment) &&
        !isAlignedAtEveryStep(tile))
      part.alignment = 4;
    return kernel.loop(low, high, unroll, values,
                       [&](Value k, ValueRange carried) {
                         if (tile.meanwhile)
                           tile.meanwhile(k);
                         return emitSteps(kernel, part, k, unroll, carried);
                       });
  };
  Values values(initial);
  if (tile.isWhole)
    return run(0, tile.count, tile.unroll, values);
  Index whole = kernel.mul(kernel.div(tile.count, tile.unroll), tile.unroll);
  if (!whole.is(0))
    values = run(0, whole, tile.unroll, values);
  if (!tile.count.isConstant())
    return tile.unroll == 1 ? values : run(whole, tile.count, 1, values);
  int64_t rest = tile.count.getConstant() - whole.getConstant();
  return rest ? emitSteps(kernel, tile, whole, rest, values) : values;
}

void sextant::codegen::addTile(KernelBuilder &kernel, const RegisterTile &tile,
                               Value to, int64_t stride) {
  int64_t rows = tile.rows.size();
  Values sums;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t v = 0; v < tile.vectors; ++v)
      sums.push_back(kernel.loadVector(to, {r * stride + v * kernel.width()}));
  if (kernel.target.near.bytes) {
    // Threads have registers for what memory holds until it has arrived: added
    // behind the product, nobody waits for it.
    Values products = emitTile(
        kernel, tile, Values(rows * tile.vectors, kernel.splatF32(0.0)));
    for (auto [sum, product] : llvm::zip_equal(sums, products))
      sum = kernel.addF(sum, product);
  } else {
    sums = emitTile(kernel, tile, sums);
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t v = 0; v < tile.vectors; ++v)
      kernel.storeVector(sums[r * tile.vectors + v], to,
                         {r * stride + v * kernel.width()});
}

void sextant::codegen::addRows(KernelBuilder &kernel, RegisterTile tile,
                               Value to, int64_t length) {
  int64_t step = tile.vectors * kernel.width();
  int64_t whole = length / step * step;
  Value base = tile.base;
  auto addColumns = [&](Index lane) {
    tile.base = kernel.advance(base, {lane});
    addTile(kernel, tile, kernel.advance(to, {lane}), length);
  };
  if (whole)
    kernel.loop(0, whole, step, addColumns);
  tile.vectors = (length - whole) / kernel.width();
  if (tile.vectors)
    addColumns(whole);
}

//===- RegisterTile.cpp - A product kept in vector registers --------------===//

#include "codegen/Tiles/RegisterTile.h"
#include "llvm/ADT/MapVector.h"

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
    for (int64_t v = 0; v < tile.vectors; ++v)
      vectors.push_back(kernel.loadVector(
          base, {kernel.mul(step, tile.vectorStep), v * distance}));
    for (auto [r, row] : llvm::enumerate(tile.rows)) {
      Value scalar = kernel.loadBroadcast(
          pointers[row.pointer], {kernel.mul(step, tile.rowStep), row.offset});
      for (int64_t v = 0; v < tile.vectors; ++v) {
        Value &accumulator = accumulators[r * tile.vectors + v];
        accumulator = tile.pairs ? kernel.dot(scalar, vectors[v], accumulator)
                                 : kernel.fma(scalar, vectors[v], accumulator);
      }
    }
  }
  return accumulators;
}

Values sextant::codegen::emitTile(KernelBuilder &kernel,
                                  const RegisterTile &tile,
                                  ValueRange initial) {
  auto run = [&](Index low, Index high, int64_t unroll, ValueRange values) {
    return kernel.loop(low, high, unroll, values,
                       [&](Value k, ValueRange carried) {
                         return emitSteps(kernel, tile, k, unroll, carried);
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
  sums = emitTile(kernel, tile, sums);
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

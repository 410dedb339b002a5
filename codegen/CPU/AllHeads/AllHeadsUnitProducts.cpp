//===- AllHeadsUnitProducts.cpp - Products of a matrix unit ---------------===//

#include "codegen/CPU/AllHeads/AllHeadsUnitProducts.h"
#include "codegen/Tiles/UnitProduct.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

VectorTarget codegen::getTargetOfAllHeads(const VectorTarget &target,
                                          Type element) {
  VectorTarget result = target;
  if (target.matrixUnit && element.isBF16())
    return result;
  result.bf16Dot = nullptr;
  result.matrixUnit = nullptr;
  return result;
}

AllHeadsUnitProducts::AllHeadsUnitProducts(AllHeadsTiles &tiles, KeyTile &keys,
                                           QueryBlock &queries)
    : tiles(tiles), keys(keys), queries(queries) {
  int64_t words = shape.countTermWords(shape.keys);
  probabilities = at.reserve(words);
  gradients = at.reserve(words);
  gradientRows = at.reserve(words);
}

AllHeadsUnitProducts::Steps AllHeadsUnitProducts::getSteps(Index low,
                                                           Index high) const {
  auto [first, end] = UnitSteps(kernel, low, high);
  Index words = kernel.sub(end, first);
  return {kernel.mul(first, 2), kernel.mul(words, 2), first, words};
}

//===----------------------------------------------------------------------===//
// S and dP
//===----------------------------------------------------------------------===//

void AllHeadsUnitProducts::multiply(const Steps &steps, Value streamed,
                                    const KeyTile::Operand &packed, Value sums,
                                    bool adds) {
  int64_t words = packed.row / shape.perStep();
  UnitProduct product;
  product.a = kernel.advance(streamed, {kernel.mul(steps.firstRow, words)});
  product.aStride = words;
  product.b = keys.ofHead(packed.transposed, words);
  product.bStride = packed.stride;
  product.sums = tiles.getRow(sums, at.head, steps.firstRow);
  product.stride = shape.keys;
  product.rows = steps.rows;
  product.words = words;
  product.adds = adds;
  emitUnitProduct(kernel, product);
}

/// What dP is added to.
void AllHeadsUnitProducts::startAtDelta(const Steps &steps) {
  Value delta =
      kernel.advance(tiles.delta, {kernel.mul(at.head, shape.queries)});
  Index end = kernel.add(steps.firstRow, steps.rows);
  kernel.loop(steps.firstRow, end, 1, [&](Value row) {
    Value ofRow = kernel.loadBroadcast(delta, {row});
    Value to = tiles.getRow(tiles.gradients, at.head, row);
    for (int64_t v = 0; v < shape.vectors; ++v)
      kernel.storeVector(ofRow, to, {v * kernel.width()});
  });
}

void AllHeadsUnitProducts::emitProducts(Index low, Index high) {
  Steps steps = getSteps(low, high);
  multiply(steps, queries.getQueries().rows, keys.getKeys(), tiles.scores,
           /*adds=*/false);
  startAtDelta(steps);
  multiply(steps, queries.getOutputGradients().rows, keys.getValues(),
           tiles.gradients, /*adds=*/true);
}

//===----------------------------------------------------------------------===//
// dV, dK and dQ
//===----------------------------------------------------------------------===//

/// P and dS of the head as pairs. Rows of the steps beside the range, whose
/// payloads have not been computed, are zero.
void AllHeadsUnitProducts::storePairs(const Steps &steps, Index low,
                                      Index high) {
  Index end = kernel.add(steps.firstRow, steps.rows);
  kernel.loop(steps.firstRow, end, 2, [&](Value first) {
    auto load = [&](Value tile, int64_t r) {
      Index row = kernel.add(first, r);
      Value isSeen = kernel.both(kernel.less(row, high),
                                 kernel.less(kernel.sub(low, 1), row));
      Value from = tiles.getRow(tile, at.head, row);
      Values vectors;
      for (int64_t v = 0; v < shape.vectors; ++v)
        vectors.push_back(kernel.selectF(
            isSeen, kernel.loadVector(from, {v * kernel.width()}),
            kernel.splatF32(0)));
      return vectors;
    };
    auto store = [&](ValueRange low, ValueRange high, Value pairs) {
      Value to =
          kernel.advance(pairs, {kernel.mul(kernel.div(first, 2), shape.keys)});
      for (int64_t v = 0; v < shape.vectors; ++v)
        kernel.storeVector(kernel.pairRows(low[v], high[v]), to,
                           {v * kernel.width()});
    };
    store(load(tiles.scores, 0), load(tiles.scores, 1), probabilities);
    Values rows[] = {load(tiles.gradients, 0), load(tiles.gradients, 1)};
    store(rows[0], rows[1], gradients);
    for (int64_t r = 0; r < 2; ++r)
      for (int64_t v = 0; v < shape.vectors; v += 2)
        kernel.store(
            kernel.truncatePair(rows[r][v], rows[r][v + 1]),
            kernel.advance(gradientRows,
                           {kernel.mul(kernel.add(first, r), shape.keys / 2),
                            v / 2 * kernel.width()}));
  });
}

/// gradient[row lanes][keys] += columns^T times the pairs of the steps.
void AllHeadsUnitProducts::addKeyGradient(const Steps &steps, Value columns,
                                          Value pairs,
                                          const KeyTile::Operand &packed) {
  UnitProduct product;
  product.a = kernel.advance(columns, {steps.first});
  product.aStride = shape.queries / 2;
  product.b = kernel.advance(pairs, {kernel.mul(steps.first, shape.keys)});
  product.bStride = shape.keys;
  product.sums = keys.ofHead(packed.gradient, packed.row);
  product.stride = shape.panel;
  product.rows = packed.row;
  product.words = steps.words;
  product.adds = true;
  emitUnitProduct(kernel, product);
}

/// dQ[rows][lanes] += dS[rows][keys] K[keys][lanes].
void AllHeadsUnitProducts::addQueryGradient(const Steps &steps) {
  int64_t words = shape.keys / 2;
  Value base = at.arguments.getAddress(
      *at.launch.queryGradient, {at.getCopy(), at.batch, at.head,
                                 kernel.add(at.firstQuery, steps.firstRow)});
  UnitProduct product;
  product.a = kernel.advance(gradientRows, {kernel.mul(steps.firstRow, words)});
  product.aStride = words;
  product.stride = shape.headRow;
  product.rows = steps.rows;
  product.words = words;
  product.adds = true;
  keys.forEachSlab(keys.getSlabs(),
                   [&](Index lane, int64_t vectors, Value slab) {
                     product.b = slab;
                     product.bStride = vectors * kernel.width();
                     product.sums = kernel.advance(base, {lane});
                     emitUnitProduct(kernel, product);
                   });
}

void AllHeadsUnitProducts::addGradients(Index low, Index high) {
  Steps steps = getSteps(low, high);
  storePairs(steps, low, high);
  addKeyGradient(steps, queries.getOutputGradients().columns, probabilities,
                 keys.getValues());
  addKeyGradient(steps, queries.getQueries().columns, gradients,
                 keys.getKeys());
  addQueryGradient(steps);
}

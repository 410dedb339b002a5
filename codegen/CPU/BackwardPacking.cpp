//===- BackwardPacking.cpp - Copies and packed operands of the backward
//-----===//

#include "codegen/CPU/BackwardKernel.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// Clears `elements` f32, a multiple of the vector.
void BackwardKernel::clear(Value base, Index elements) {
  kernel.loop(0, elements, kernel.width(), [&](Value element) {
    kernel.storeVector(kernel.splatF32(0.0), base, {element});
  });
}

/// Copies rows [first, first + valid) of a tensor at (batch, head) to f32 rows
/// of `row` elements; the rest of `total` rows, and of each row, is zero.
void BackwardKernel::copyRows(unsigned tensor, Index tensorHead, Index first,
                              Index valid, Index total, int64_t dim,
                              int64_t row, Value to) {
  Type element = task.element;
  Value base = arguments.getAddress(tensor, {batch, tensorHead, first});
  Index rowStride = arguments.getStride(tensor, 2);
  Index laneStride = arguments.getStride(tensor, 3);
  int64_t width = kernel.width(), whole = dim / width * width;
  auto widen = [&](Value value) {
    return element.isF32() ? value : kernel.extend(value);
  };
  auto lanes = VectorType::get(width, element);
  kernel.loop(0, valid, 1, [&](Value number) {
    Value from = kernel.advance(base, {kernel.mul(number, rowStride)}, element);
    Value out = kernel.advance(to, {kernel.mul(number, row)});
    kernel.when(
        kernel.equal(laneStride, 1),
        [&]() {
          kernel.loop(0, whole, width, [&](Value lane) {
            kernel.storeVector(
                widen(
                    kernel.load(lanes, kernel.advance(from, {lane}, element))),
                out, {lane});
          });
          if (whole != dim)
            kernel.storeVector(
                widen(kernel.loadPart(lanes,
                                      kernel.advance(from, {whole}, element),
                                      dim - whole)),
                out, {whole});
        },
        [&]() {
          if (whole != dim)
            kernel.storeVector(kernel.splatF32(0.0), out, {whole});
          kernel.loop(0, dim, 1, [&](Value lane) {
            Value value = kernel.load(
                element,
                kernel.advance(from, {kernel.mul(lane, laneStride)}, element));
            kernel.store(widen(value), kernel.advance(out, {lane}));
          });
        });
    for (int64_t lane = llvm::alignTo(dim, width); lane < row; lane += width)
      kernel.storeVector(kernel.splatF32(0.0), out, {lane});
  });
  clear(kernel.advance(to, {kernel.mul(valid, row)}),
        kernel.mul(kernel.sub(total, valid), row));
}

/// rows[panel * panels + lane][k] becomes to[panel][k][lane], times `scale`.
void BackwardKernel::packTile(Value rows, int64_t row, double scale, Value to) {
  int64_t width = kernel.width();
  kernel.loop(0, panelCount, 1, [&](Value panel) {
    Value from = kernel.advance(rows, {kernel.mul(panel, shape.panel * row)});
    Value out = kernel.advance(to, {kernel.mul(panel, shape.panel * row)});
    kernel.loop(0, row, width, [&](Value lane) {
      for (int64_t v = 0; v < shape.vectors; ++v) {
        Values square;
        for (int64_t r = 0; r < width; ++r)
          square.push_back(
              kernel.loadVector(from, {lane, (v * width + r) * row}));
        square = kernel.transpose(square);
        for (int64_t k = 0; k < width; ++k)
          kernel.storeVector(
              scale == 1.0 ? square[k]
                           : kernel.mulF(square[k], kernel.splatF32(scale)),
              out,
              {kernel.mul(lane, shape.panel), k * shape.panel + v * width});
      }
    });
  });
}

void BackwardKernel::beginTile() {
  Index total = kernel.mul(panelCount, shape.panel);
  copyRows(task.value, kvHead, firstKey, keyCount, total, shape.valueDim,
           shape.valueRow, rowsBuffer);
  packTile(rowsBuffer, shape.valueRow, 1.0, values.transposed);
  copyRows(task.key, kvHead, firstKey, keyCount, total, shape.headDim,
           shape.headRow, rowsBuffer);
  packTile(rowsBuffer, shape.headRow, task.plan.scale, keys.transposed);
  clear(keys.gradient, kernel.mul(total, shape.headRow));
  clear(values.gradient, kernel.mul(total, shape.valueRow));
}

void BackwardKernel::beginBlock() {
  copyRows(task.query, head, firstQuery, queryCount, groupEnd, shape.headDim,
           shape.headRow, queries.rows);
  copyRows(task.outputGradient, head, firstQuery, queryCount, groupEnd,
           shape.valueDim, shape.valueRow, outputGradients.rows);
}

/// Transposes a gradient [panel][k][lane] into rows of a tensor.
void BackwardKernel::storeGradient(Value gradient, int64_t dim, int64_t row,
                                   double scale, unsigned tensor) {
  int64_t width = kernel.width();
  // As rows of f32 in `rowsBuffer` first: edges are cut there.
  kernel.loop(0, panelCount, 1, [&](Value panel) {
    Value from =
        kernel.advance(gradient, {kernel.mul(panel, shape.panel * row)});
    Value out =
        kernel.advance(rowsBuffer, {kernel.mul(panel, shape.panel * row)});
    kernel.loop(0, row, width, [&](Value lane) {
      for (int64_t v = 0; v < shape.vectors; ++v) {
        Values square;
        for (int64_t k = 0; k < width; ++k)
          square.push_back(
              kernel.loadVector(from, {kernel.mul(lane, shape.panel),
                                       k * shape.panel + v * width}));
        square = kernel.transpose(square);
        for (int64_t r = 0; r < width; ++r)
          kernel.storeVector(
              scale == 1.0 ? square[r]
                           : kernel.mulF(square[r], kernel.splatF32(scale)),
              out, {lane, (v * width + r) * row});
      }
    });
  });
  Type element = task.element;
  Value base = arguments.getAddress(tensor, {batch, kvHead, firstKey});
  Index rowStride = arguments.getStride(tensor, 2);
  kernel.loop(0, keyCount, 1, [&](Value number) {
    Value from = kernel.advance(rowsBuffer, {kernel.mul(number, row)});
    Value to = kernel.advance(base, {kernel.mul(number, rowStride)}, element);
    auto narrow = [&](Index lane) {
      Value value = kernel.loadVector(from, {lane});
      return element.isF32() ? value : kernel.truncate(value);
    };
    int64_t whole = dim / width * width;
    kernel.loop(0, whole, width, [&](Value lane) {
      kernel.store(narrow(lane), kernel.advance(to, {lane}, element));
    });
    if (whole != dim)
      kernel.storePart(narrow(whole), kernel.advance(to, {whole}, element),
                       dim - whole);
  });
}

void BackwardKernel::endTile() {
  storeGradient(values.gradient, shape.valueDim, shape.valueRow, 1.0,
                task.valueGradient);
  storeGradient(keys.gradient, shape.headDim, shape.headRow, task.plan.scale,
                task.keyGradient);
}

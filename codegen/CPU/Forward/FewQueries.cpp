//===- FewQueries.cpp - Products of a few queries -------------------------===//

#include "codegen/CPU/Forward/FewQueries.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// Vectors of a row that a pass over it takes: of an output they are sums, as
/// many as hide how long a product takes.
static constexpr int64_t vectorsAtOnce = 8;

void codegen::packRows(KernelBuilder &kernel, ArrayRef<Value> rows,
                       int64_t elements, int64_t stride, Value to,
                       double factor) {
  forParts(kernel, elements, kernel.width(), [&](Index first, int64_t count) {
    for (auto [number, row] : llvm::enumerate(rows)) {
      Value part =
          kernel.loadPart(kernel.vf32, kernel.advance(row, {first}), count);
      kernel.storeVector(kernel.mulF(part, kernel.splatF32(factor)), to,
                         {first, static_cast<int64_t>(number) * stride});
    }
  });
}

/// Adds vectors up, two by two.
static Value emitSum(KernelBuilder &kernel, Values vectors) {
  for (; vectors.size() > 1; vectors.truncate(vectors.size() / 2))
    for (size_t i = 0; i < vectors.size() / 2; ++i)
      vectors[i] = kernel.addF(vectors[2 * i], vectors[2 * i + 1]);
  return vectors.front();
}

/// Up to a vector of elements of a row of keys, as f32.
static Value loadElements(const ForwardItem &item, Value row, Index first,
                          int64_t count) {
  KernelBuilder &kernel = item.kernel;
  if (!item.launch.widensRows)
    return kernel.loadPart(kernel.vf32, kernel.advance(row, {first}), count);
  auto type = VectorType::get(kernel.width(), kernel.bf16);
  return kernel.extend(
      kernel.loadPart(type, kernel.advance(row, {first}, kernel.bf16), count));
}

Values codegen::emitDots(const ForwardItem &item, Value keys, Value query,
                         Value square) {
  KernelBuilder &kernel = item.kernel;
  const ForwardLaunch &launch = item.launch;
  int64_t width = kernel.width();
  kernel.loop(0, item.rowCount, 1, [&](Value number) {
    Value row = kernel.advance(query, {kernel.mul(number, launch.queryWords)});
    auto addVector = [&](Index first, int64_t count, Values sums) {
      Value own = kernel.loadVector(row, {first});
      for (int64_t key = 0; key < width; ++key) {
        Value from = kernel.advance(keys, {key * launch.keyWords});
        sums[key] =
            kernel.fma(loadElements(item, from, first, count), own, sums[key]);
      }
      return sums;
    };
    Values sums(width, kernel.splatF32(0));
    int64_t step = vectorsAtOnce * width;
    int64_t looped = launch.headDim / step * step;
    if (looped)
      sums = kernel.loop(
          0, looped, step, sums, [&](Value first, ValueRange carried) {
            Values next(carried);
            for (int64_t at = 0; at < step; at += width)
              next = addVector(kernel.add(first, at), width, std::move(next));
            return next;
          });
    for (int64_t at = looped; at < launch.headDim; at += width)
      sums =
          addVector(at, std::min(width, launch.headDim - at), std::move(sums));
    kernel.storeVector(emitSum(kernel, kernel.transpose(sums)), square,
                       {kernel.mul(number, width)});
  });
  Values rows;
  for (int64_t number = 0; number < width; ++number)
    rows.push_back(kernel.loadVector(square, {number * width}));
  return kernel.transpose(rows);
}

void codegen::addWeightedRows(const ForwardItem &item, Value values,
                              Value alpha, Value alphas, Index low,
                              Index high) {
  KernelBuilder &kernel = item.kernel;
  const ForwardLaunch &launch = item.launch;
  int64_t width = kernel.width();
  kernel.storeVector(alpha, alphas);
  kernel.loop(0, item.rowCount, 1, [&](Value number) {
    Value scale = kernel.loadBroadcast(alphas, {number});
    Value output = kernel.advance(item.ofPanel(item.output, launch.outputRows),
                                  {kernel.mul(number, launch.outputRows)});
    Value weights = item.getScores(low, number);
    auto addColumns = [&](Index column, int64_t lanes) {
      Value to = kernel.advance(output, {column});
      RegisterTile product;
      TileRow weight{weights};
      product.rows = weight;
      product.rowStep = launch.panel;
      Value row = kernel.advance(values, {kernel.mul(low, launch.valueWords)});
      product.widens = launch.widensRows;
      product.base = kernel.advance(row, {column},
                                    product.widens ? kernel.bf16 : kernel.f32);
      product.vectorStep = launch.valueWords;
      product.vectors = lanes / width;
      product.count = kernel.sub(high, low);
      Values sums;
      for (int64_t lane = 0; lane < lanes; lane += width)
        sums.push_back(kernel.mulF(kernel.loadVector(to, {lane}), scale));
      storeVectors(kernel, emitTile(kernel, product, sums), to);
    };
    forParts(kernel, launch.outputRows, vectorsAtOnce * width, addColumns);
  });
}

void codegen::storeWeightedRows(const ForwardItem &item) {
  KernelBuilder &kernel = item.kernel;
  const ForwardLaunch &launch = item.launch;
  kernel.loop(0, item.rowCount, 1, [&](Value number) {
    Value inverse = kernel.loadBroadcast(item.ofPanel(item.sum), {number});
    // A row without keys may have summed anything up: it is replaced.
    Value isLive =
        kernel.compareF(arith::CmpFPredicate::UNE, inverse, kernel.splatF32(0));
    Value from = kernel.advance(item.ofPanel(item.output, launch.outputRows),
                                {kernel.mul(number, launch.outputRows)});
    Index row = kernel.add(item.firstRow, number);
    for (auto [part, output] :
         llvm::zip_equal(launch.values.get(), launch.outputs)) {
      Value to =
          item.arguments.getAddress(output, {item.batch, item.head, row});
      forParts(kernel, part.dim, kernel.width(),
               [&](Index column, int64_t count) {
                 Value sums = kernel.loadVector(from, {column, part.first});
                 Value mean = kernel.selectF(isLive, kernel.mulF(sums, inverse),
                                             kernel.splatF32(0));
                 kernel.storePart(kernel.roundTo(mean, launch.element),
                                  kernel.advance(to, {column}, launch.element),
                                  count);
               });
    }
  });
}

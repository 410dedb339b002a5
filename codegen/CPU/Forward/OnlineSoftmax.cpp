//===- OnlineSoftmax.cpp - The softmax, block by block of keys ------------===//

#include "codegen/CPU/Forward/OnlineSoftmax.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

OnlineSoftmax::OnlineSoftmax(ForwardItem &item, RowBuckets &buckets)
    : item(item), kernel(item.kernel), launch(item.launch), buckets(buckets),
      results(item.layout.reserve(launch.statistics ? 2 * launch.panel : 0)) {}

void OnlineSoftmax::clear(Index lane) {
  Index query = item.getQuery(lane);
  kernel.storeVector(kernel.splatF32(hiddenScore),
                     item.at(item.maximum, {query}));
  kernel.storeVector(kernel.splatF32(0), item.at(item.sum, {query}));
}

Values OnlineSoftmax::loadMaxima() {
  Value maximum = item.ofPanel(item.maximum);
  Values maxima;
  for (int64_t v = 0; v < launch.vectors; ++v)
    maxima.push_back(kernel.loadVector(maximum, {v * kernel.width()}));
  return maxima;
}

Values OnlineSoftmax::update(ValueRange maxima, Index low, Index high,
                             function_ref<void(ValueRange alpha)> rescale) {
  int64_t width = kernel.width();
  Value maximum = item.ofPanel(item.maximum);
  Value sum = item.ofPanel(item.sum);
  Values alpha, shift, before;
  for (int64_t v = 0; v < launch.vectors; ++v) {
    // Queries that have seen no key yet: their scores are all -inf.
    Value isSeen = kernel.compareF(arith::CmpFPredicate::UNE, maxima[v],
                                   kernel.splatF32(hiddenScore));
    Value most = kernel.selectF(isSeen, maxima[v], kernel.splatF32(0));
    Value newShift = item.form.emitShift(kernel, most);
    Value oldShift =
        item.form.emitShift(kernel, kernel.loadVector(maximum, {v * width}));
    alpha.push_back(kernel.exp2(kernel.subF(oldShift, newShift)));
    shift.push_back(kernel.subF(kernel.splatF32(0), newShift));
    before.push_back(
        kernel.mulF(kernel.loadVector(sum, {v * width}), alpha.back()));
    kernel.storeVector(maxima[v], maximum, {v * width});
  }
  buckets.scale(alpha);
  if (rescale)
    rescale(alpha);
  // Few registers hold the series and two sums: a column of vectors at a time,
  // but where whole rows are stored behind their loads.
  bool areAll = kernel.target.hasManyRegisters() || launch.isNear;
  assert((areAll || !launch.hasPairs()) && "pairs are made of whole rows");
  int64_t together = areAll ? launch.vectors : 1;
  for (int64_t first = 0; first < launch.vectors; first += together) {
    Values sums = addWeights(low, high, first,
                             ArrayRef<Value>(shift).slice(first, together));
    for (int64_t v = 0; v < together; ++v)
      kernel.storeVector(kernel.addF(before[first + v],
                                     kernel.addF(sums[v], sums[together + v])),
                         sum, {(first + v) * width});
  }
  return alpha;
}

/// P of some vectors of the panel, from `first` on, of which `shift` has one
/// each; and two sums of each, one behind the other. They start at zero, and
/// take turns: the sum of a long row is one of short ones.
Values OnlineSoftmax::addWeights(Index low, Index high, int64_t first,
                                 ValueRange shift) {
  int64_t width = kernel.width(), vectors = shift.size();
  Values zeros(2 * vectors, kernel.splatF32(0));
  // At least two rows at a time. An odd last row has a partner, which is
  // hidden.
  int64_t rows = launch.softmaxRows;
  auto addRows = [&](Value row, ValueRange carried) {
    Values next(carried);
    Values weights;
    for (int64_t u = 0; u < rows; ++u) {
      Value from = item.getScores(row, u * launch.panel);
      for (int64_t v = 0; v < vectors; ++v) {
        int64_t lane = (first + v) * width;
        Value score = kernel.loadVector(from, {lane});
        weights.push_back(kernel.exp2(
            item.form.emitExponent(kernel, score, shift[v]), launch.pairs));
        if (!launch.hasPairs() && !launch.isNear)
          kernel.storeVector(weights.back(), from, {lane});
        buckets.add(kernel.add(row, u), first + v, weights.back());
      }
    }
    if (launch.isNear) // behind the loads, which a store would keep waiting
      storeVectors(kernel, weights, item.getScores(row));
    for (int64_t u = 0; u < rows; u += 2) {
      Values sum(next);
      next.assign(sum.begin() + vectors, sum.end());
      for (int64_t v = 0; v < vectors; ++v) {
        // pairs: half as many roundings
        Value one = weights[u * vectors + v];
        Value other = weights[(u + 1) * vectors + v];
        next.push_back(kernel.addF(sum[v], kernel.addF(one, other)));
      }
    }
    if (launch.hasPairs())
      storePairs(weights, kernel.div(row, 2));
    return next;
  };
  return kernel.loop(low, high, rows, zeros, addRows);
}

/// Of two rows of weights, in place: pair i lies where rows 2i and 2i + 1 were
/// read, or its first term.
void OnlineSoftmax::storePairs(ValueRange weights, Index pair) {
  for (int64_t v = 0; v < launch.vectors; ++v) {
    Value low = weights[v], high = weights[launch.vectors + v];
    Value to = item.getScores(pair, v * kernel.width());
    if (launch.hasTerms())
      storeTerms(kernel, splitPair(kernel, low, high, Pairs::Rows, Split::Cuts),
                 to, launch.scoreStride);
    else
      kernel.storeVector(kernel.pairRows(low, high), to);
  }
}

void OnlineSoftmax::store() {
  Value maximum = item.ofPanel(item.maximum);
  Value sum = item.ofPanel(item.sum);
  int64_t width = kernel.width();
  Value unit = kernel.splatF32(item.form.getUnit());
  for (int64_t v = 0; v < launch.vectors; ++v) {
    Value m = kernel.loadVector(maximum, {v * width});
    Value l = kernel.loadVector(sum, {v * width});
    // A query that saw no key: zeros and -inf (C4). NaN counts as seen; the
    // maximum skips NaN scores, the sum keeps them.
    Value seen = kernel.addF(m, kernel.subF(l, l));
    Value isLive = kernel.compareF(arith::CmpFPredicate::UGT, seen,
                                   kernel.splatF32(hiddenScore));
    if (launch.statistics) {
      kernel.storeVector(item.form.emitShift(kernel, m), item.at(results),
                         {v * width});
      kernel.storeVector(l, item.at(results), {launch.panel + v * width});
    }
    Value lse = kernel.fma(m, unit, kernel.log(l));
    if (pos::RowTermOp term = launch.plan.rowTerm) {
      item.point.setPoint(v, 0, 0);
      lse =
          kernel.addF(lse, item.point.hoisted(kernel.builder, term.getHoist()));
    }
    Value none = kernel.splatF32(-std::numeric_limits<double>::infinity());
    Value inverse = kernel.divF(kernel.splatF32(1), l);
    kernel.storeVector(kernel.selectF(isLive, lse, none), maximum, {v * width});
    kernel.storeVector(kernel.selectF(isLive, inverse, kernel.splatF32(0)), sum,
                       {v * width});
  }
  ArgumentBlock &arguments = item.arguments;
  Value lse =
      arguments.getAddress(launch.lse, {item.batch, item.head, item.firstRow});
  Index step = arguments.getStride(launch.lse, 2);
  kernel.loop(0, item.rowCount, 1, [&](Value lane) {
    kernel.store(kernel.loadF32(maximum, {lane}),
                 kernel.advance(lse, {kernel.mul(lane, step)}));
  });
  if (launch.statistics)
    kernel.loop(0, item.rowCount, 1, [&](Value lane) {
      for (int64_t part : {0, 1})
        kernel.store(
            kernel.loadF32(item.at(results), {part * launch.panel, lane}),
            arguments.getAddress(*launch.statistics,
                                 {item.batch, item.head,
                                  kernel.add(item.firstRow, lane), part}));
    });
}

Value codegen::emitMaximum(KernelBuilder &kernel, Values vectors) {
  while (vectors.size() > 1) {
    Values next;
    for (size_t i = 0; i + 1 < vectors.size(); i += 2)
      next.push_back(kernel.maxF(vectors[i], vectors[i + 1]));
    if (vectors.size() % 2)
      next.push_back(vectors.back());
    vectors = next;
  }
  return vectors.front();
}

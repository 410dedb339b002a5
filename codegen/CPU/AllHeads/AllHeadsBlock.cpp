//===- AllHeadsBlock.cpp - A block of scores of all heads -----------------===//

#include "codegen/CPU/AllHeads/AllHeadsBlock.h"
#include "codegen/Payload/Payload.h"
#include "codegen/Tables/AllHeadsPayload.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

AllHeadsTiles::AllHeadsTiles(BackwardItem &at)
    : heads(at.launch.weights->getHeads()),
      // A line more: rows of different heads do not share a set of the cache.
      stride(at.shape.queries * at.shape.keys + cacheLine),
      visibleStride(variesWith(at.launch.plan, pos::Axis::head)
                        ? at.shape.queries * at.shape.keys
                        : 0),
      scores(at.reserve(heads * stride)), gradients(at.reserve(heads * stride)),
      visible(at.reserve((visibleStride ? heads : 1) * at.shape.queries *
                         at.shape.keys)),
      negativeShift(at.reserve(heads * at.shape.queries)),
      inverseSum(at.reserve(heads * at.shape.queries)),
      delta(at.reserve(heads * at.shape.queries)), at(at) {}

Value AllHeadsTiles::getRow(Value tiles, Index head, Index row) const {
  return at.kernel.advance(
      tiles, {at.kernel.mul(head, stride), at.kernel.mul(row, at.shape.keys)});
}

Value AllHeadsTiles::getVisible(Index head, Index row) const {
  return at.kernel.advance(visible, {at.kernel.mul(head, visibleStride),
                                     at.kernel.mul(row, at.shape.keys)});
}

void AllHeadsTiles::loadStatistics() {
  const BackwardLaunch &launch = at.launch;
  KernelBuilder &kernel = at.kernel;
  kernel.loop(0, heads, 1, [&](Value number) {
    kernel.loop(0, at.shape.queries, kernel.width(), [&](Value row) {
      for (auto [tensor, to] : {std::pair(launch.negativeShift, negativeShift),
                                {launch.inverseSum, inverseSum},
                                {launch.negativeDelta, delta}})
        kernel.storeVector(
            kernel.loadVector(at.arguments.getAddress(
                tensor, {at.batch, number, kernel.add(at.firstQuery, row)})),
            to, {kernel.mul(number, at.shape.queries), row});
    });
  });
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

AllHeadsMask::AllHeadsMask(AllHeadsTiles &tiles, BackwardPoint &point,
                           BackwardVisibility &visibility)
    : tiles(tiles), point(point), visibility(visibility),
      kinds(at.reserve(2 * shape.queries / shape.rows)) {}

void AllHeadsMask::enterTile() {
  keySide = visibility.enter(pos::Side::key, at.firstKey, shape.keys);
}

Visibility AllHeadsMask::classifyRows(Index first, int64_t count) {
  if (tiles.visibleStride)
    return {kernel.constantI1(false), kernel.constantI1(true)};
  TileSide querySide = visibility.enter(pos::Side::query, first, count);
  return visibility.classify(querySide, kernel.add(first, count), keySide,
                             kernel.add(at.firstKey, shape.keys));
}

std::pair<Index, Index> AllHeadsMask::classifyGroups() {
  Values range = kernel.loop(
      0, at.groupEnd, shape.rows,
      {kernel.constantI64(shape.queries), kernel.constantI64(0)},
      [&](Value group, ValueRange carried) -> Values {
        Visibility cell =
            classifyRows(kernel.add(at.firstQuery, group), shape.rows);
        Index kind =
            kernel.select(cell.all, TileKind::visible, TileKind::masked);
        kind = kernel.select(cell.some, kind, TileKind::hidden);
        kernel.store(
            kernel.value(kind),
            kernel.advance(kinds, {kernel.div(group, shape.rows)}, kernel.i64));
        Index low = carried[0], high = carried[1];
        return {
            kernel.value(kernel.select(cell.some, kernel.min(low, group), low)),
            kernel.value(
                kernel.select(cell.some, kernel.add(group, shape.rows), high))};
      });
  return {range[0], range[1]};
}

void AllHeadsMask::maskRow(Index number, Index row) {
  for (int64_t v = 0; v < shape.vectors; ++v) {
    int64_t lane = v * kernel.width();
    point.enterCell(kernel.add(at.firstQuery, row), at.firstKey);
    point.setPoint(0, v);
    Value seen = visibility.emitLanes();
    Value zero = kernel.splatF32(0);
    kernel.storeVector(kernel.selectF(seen, kernel.splatF32(1), zero),
                       tiles.getVisible(number, row), {lane});
    auto clearHidden = [&](Value tile, Index head) {
      Value lanes = kernel.advance(tiles.getRow(tile, head, row), {lane});
      kernel.storeVector(kernel.selectF(seen, kernel.loadVector(lanes), zero),
                         lanes);
    };
    if (tiles.visibleStride)
      clearHidden(tiles.gradients, number);
    else
      kernel.loop(0, tiles.heads, 1, [&](Value head) {
        clearHidden(tiles.scores, head);
        clearHidden(tiles.gradients, head);
      });
  }
}

void AllHeadsMask::emitLanes(Index low, Index high) {
  auto setRow = [&](Index number, Index row, Value value) {
    for (int64_t v = 0; v < shape.vectors; ++v)
      kernel.storeVector(value, tiles.getVisible(number, row),
                         {v * kernel.width()});
  };
  kernel.loop(0, tiles.visibleStride ? tiles.heads : 1, 1, [&](Value number) {
    if (tiles.visibleStride)
      point.enterHead(at.batch, Index(number));
    kernel.loop(low, kernel.min(high, at.queryCount), 1, [&](Value row) {
      Index kind = kernel.load(
          kernel.i64,
          kernel.advance(kinds, {kernel.div(row, shape.rows)}, kernel.i64));
      kernel.when(
          kernel.equal(kind, TileKind::visible),
          [&] { setRow(number, row, kernel.splatF32(1)); },
          [&] { maskRow(number, row); });
    });
  });
}

//===----------------------------------------------------------------------===//
// Payloads
//===----------------------------------------------------------------------===//

/// `group` is the first row that functions of hinges were computed for.
void AllHeadsPayloads::moveTo(Index group, Index row, Index lane) {
  point.enterCell(kernel.add(at.firstQuery, row),
                  kernel.add(at.firstKey, lane));
  point.setPoint(0, 0);
  point.setEntry(kernel.add(kernel.sub(shape.queries - 1, row), lane));
  point.setCellPlace(
      kernel.add(kernel.mul(kernel.sub(row, group), shape.keys), lane));
}

void AllHeadsPayloads::emitPoint(Index row, Index lane) {
  Value score = kernel.advance(tiles.getRow(tiles.scores, 0, row), {lane});
  Value gradient =
      kernel.advance(tiles.getRow(tiles.gradients, 0, row), {lane});
  Value seen = kernel.advance(tiles.getVisible(0, row), {lane});
  Value shiftOfRow = kernel.advance(tiles.negativeShift, {row});
  Value inverseOfRow = kernel.advance(tiles.inverseSum, {row});
  pos::ScoreOp op = at.launch.plan.score;
  Block &body = op.getBody().front();
  Value zero = kernel.splatF32(0);
  auto loadSeen = [&](int64_t h) {
    return kernel.compareF(arith::CmpFPredicate::UNE,
                           kernel.loadVector(seen, {h * tiles.visibleStride}),
                           zero);
  };
  // Where masks differ, what one head sees takes the scores of all.
  Value isSeenByOne;
  for (int64_t h = 0; tiles.visibleStride && h < tiles.heads; ++h)
    isSeenByOne = kernel.either(isSeenByOne, loadSeen(h));
  Values arguments;
  for (int64_t h = 0; h < tiles.heads; ++h) {
    Value argument = form.emitScore(
        kernel, kernel.loadVector(score, {h * tiles.stride}), {});
    arguments.push_back(
        isSeenByOne ? kernel.selectF(isSeenByOne, argument, zero) : argument);
  }
  Values seeds;
  auto emitProbabilities = [&](AllHeadsEmitter &emitter) {
    Values results = emitter.getAll(body.getTerminator()->getOperand(0));
    // Loaded again: the payload leaves no register free.
    Value isSeen;
    for (int64_t h = 0; h < tiles.heads; ++h) {
      if (!isSeen || tiles.visibleStride)
        isSeen = loadSeen(h);
      Value exponent = form.emitExponent(
          kernel, results[h],
          kernel.loadBroadcast(shiftOfRow, {h * shape.queries}));
      Value p =
          kernel.mulF(kernel.exp2(exponent, /*isForBf16=*/shape.dot),
                      kernel.loadBroadcast(inverseOfRow, {h * shape.queries}));
      p = kernel.selectF(isSeen, p, zero);
      kernel.storeVector(p, score, {h * tiles.stride});
      seeds.push_back(
          kernel.mulF(p, kernel.loadVector(gradient, {h * tiles.stride})));
    }
  };
  auto getSeeds = [&](Index first, int64_t count) {
    return Values(ArrayRef<Value>(seeds).slice(first.getConstant(), count));
  };
  Values pulled = emitAllHeadsPullback(kernel.builder, body, arguments,
                                       emitProbabilities, getSeeds, point);
  for (int64_t h = 0; h < tiles.heads; ++h)
    kernel.storeVector(pulled[h], gradient, {h * tiles.stride});
}

/// Rows [group, end); gradients of matrices are kept since row `step`.
void AllHeadsPayloads::emitRows(Index step, Index group, Index end) {
  kernel.loop(group, end, 1, [&](Value row) {
    kernel.loop(0, shape.keys, kernel.width(), [&](Value lane) {
      point.setStep(
          kernel.add(kernel.mul(kernel.sub(row, step), shape.keys), lane));
      moveTo(group, row, lane);
      emitPoint(row, lane);
    });
  });
}

/// Rows [step, end).
void AllHeadsPayloads::emitGroups(Index step, Index end) {
  if (at.launch.plan.hingeSums.empty()) {
    emitRows(step, step, end);
    return;
  }
  kernel.loop(step, end, shape.rows, [&](Value group) {
    Index last = kernel.min(kernel.add(group, shape.rows), end);
    auto moveToVector = [&](Index row, Index vector) {
      moveTo(group, kernel.add(group, row), kernel.mul(vector, kernel.width()));
    };
    hinges.fill(point, moveToVector, kernel.sub(last, group));
    emitRows(step, group, last);
    kernel.loop(0, tiles.heads, 1, [&](Value number) {
      at.head = number;
      hinges.addMoments(at.batch, at.head, at.getHingeMoments());
    });
  });
}

void AllHeadsPayloads::emit(Index low, Index high) {
  Index end = kernel.min(high, at.queryCount);
  kernel.loop(low, end, AllHeadsBackwardPoint::rows, [&](Value first) {
    Index last =
        kernel.min(kernel.add(first, AllHeadsBackwardPoint::rows), end);
    emitGroups(first, last);
    point.addProducts(kernel.mul(kernel.sub(last, first), shape.keys));
  });
}

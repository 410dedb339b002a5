//===- FlashBackward.cpp - Five products over tiles of keys
//-----------------===//
//
// See BackwardKernel.h for the loop nest. S, dP, dV, dK and dQ are calls of one
// register tile. Whether a cell (group of rows, panel of keys) is computed, and
// with or without its mask, is asked of the mask's bounds; hidden cells are
// zero in the buffers, and products leave out hidden groups and panels at both
// ends of a block.
//
//===----------------------------------------------------------------------===//

#include "codegen/CPU/BackwardKernel.h"
#include "codegen/CPU/RegisterTile.h"
#include "codegen/Payload.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

static constexpr double log2e = 1.4426950408889634;

using Values = KernelBuilder::Values;

BackwardKernel::BackwardKernel(KernelBuilder &kernel, ArgumentBlock &arguments,
                               const BackwardTask &task, ScratchLayout &layout,
                               Value scratch)
    : kernel(kernel), arguments(arguments), task(task), shape(task.shape),
      site(kernel, arguments, task),
      sums(kernel, arguments, task, layout, scratch) {
  auto reserve = [&](int64_t elements) {
    return kernel.advance(scratch, {layout.reserve(elements)});
  };
  int64_t longest = std::max(shape.headRow, shape.valueRow);
  rowsBuffer = reserve(shape.keys * longest);
  keys = {reserve(shape.keys * shape.headRow),
          reserve(shape.keys * shape.headRow)};
  values = {reserve(shape.keys * shape.valueRow),
            reserve(shape.keys * shape.valueRow)};
  Value queryRows = reserve(shape.queries * shape.headRow);
  queries = {queryRows, queryRows};
  Value gradientRows = reserve(shape.queries * shape.valueRow);
  outputGradients = {gradientRows, gradientRows};
  probabilities = reserve(shape.queries * shape.stride);
  scoreGradients = sums.reserveTile();
  cellScores = reserve(shape.rows * shape.panel);
  int64_t groups = shape.queries / shape.rows;
  lowPanels = reserve(2 * groups);
  highPanels = reserve(2 * groups);
}

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

BackwardKernel::Visibility BackwardKernel::emitVisibility(Index firstQuery,
                                                          Index queryEnd,
                                                          Index firstKey,
                                                          Index keyEnd) {
  // A rectangle is whole if all of it exists and is visible.
  Index queryLength = arguments.getSize(task.query, 2);
  Index keyLength = arguments.getSize(task.key, 2);
  using arith::CmpIPredicate;
  Value exists = arith::AndIOp::create(
      kernel.builder, kernel.loc,
      kernel.compare(CmpIPredicate::sle, queryEnd, queryLength),
      kernel.compare(CmpIPredicate::sle, keyEnd, keyLength));
  if (!task.plan.mask)
    return {exists, kernel.constant(kernel.builder.getBoolAttr(true))};
  Value unknown = kernel.constant(kernel.builder.getBoolAttr(false));
  return {unknown, kernel.constant(kernel.builder.getBoolAttr(true))};
}

//===----------------------------------------------------------------------===//
// Loop nest
//===----------------------------------------------------------------------===//

Index BackwardKernel::countItems(ArgumentBlock &arguments,
                                 KernelBuilder &kernel,
                                 const BackwardTask &task) {
  return kernel.mul(kernel.mul(arguments.getSize(task.key, 0),
                               arguments.getSize(task.key, 1)),
                    arguments.getSize(task.queryGradient, 0));
}

LogicalResult BackwardKernel::emitItem(Index item) {
  Index chunks = arguments.getSize(task.queryGradient, 0);
  Index keyHeads = arguments.getSize(task.key, 1);
  Index group = kernel.div(arguments.getSize(task.query, 1), keyHeads);
  chunk = kernel.rem(item, chunks);
  site.enterChunk(chunk);
  Index batchHead = kernel.div(item, chunks);
  kvHead = kernel.rem(batchHead, keyHeads);
  batch = kernel.div(batchHead, keyHeads);
  Index firstHead = kernel.mul(kvHead, group);
  Index paddedQueries = arguments.getSize(task.queryGradient, 3);
  clear(arguments.getAddress(task.queryGradient, {chunk, batch, firstHead}),
        kernel.mul(kernel.mul(group, paddedQueries), shape.headRow));

  LogicalResult result = success();
  Index keyLength = arguments.getSize(task.key, 2);
  kernel.loop(kernel.mul(chunk, shape.keys), keyLength,
              kernel.mul(chunks, shape.keys), [&](Value first) {
                firstKey = first;
                keyCount =
                    kernel.min(shape.keys, kernel.sub(keyLength, firstKey));
                panelCount = kernel.ceilDiv(keyCount, shape.panel);
                beginTile();
                kernel.loop(firstHead, kernel.add(firstHead, group), 1,
                            [&](Value value) {
                              head = value;
                              if (succeeded(result))
                                result = emitHead();
                            });
                endTile();
              });
  return result;
}

LogicalResult BackwardKernel::emitHead() {
  if (failed(site.enterHead(batch, kvHead, head)))
    return failure();
  LogicalResult result = success();
  Index queryLength = arguments.getSize(task.query, 2);
  kernel.loop(0, queryLength, shape.queries, [&](Value first) {
    firstQuery = first;
    queryCount = kernel.min(shape.queries, kernel.sub(queryLength, firstQuery));
    groupEnd = kernel.roundUp(queryCount, shape.rows);
    Visibility block = emitVisibility(
        firstQuery, kernel.add(firstQuery, shape.queries), firstKey,
        kernel.add(firstKey, kernel.mul(panelCount, shape.panel)));
    kernel.when(block.some, [&]() { result = emitBlock(block.all); });
  });
  return result;
}

LogicalResult BackwardKernel::emitBlock(Value isWhole) {
  beginBlock();
  Value none = kernel.constantI64(0);
  kernel.loop(0, groupEnd, shape.rows, [&](Value group) {
    Index number = kernel.div(group, shape.rows);
    kernel.store(kernel.value(panelCount),
                 kernel.advance(lowPanels, {number}, kernel.i64));
    kernel.store(none, kernel.advance(highPanels, {number}, kernel.i64));
  });
  LogicalResult result = success();
  kernel.loop(0, panelCount, 1, [&](Value panel) {
    // The groups of rows that see some of the panel lie in [low, high).
    Values hull =
        kernel.loop(0, groupEnd, shape.rows, {kernel.value(groupEnd), none},
                    [&](Value group, ValueRange hull) {
                      return emitGroup(group, panel, isWhole, hull, result);
                    });
    Index low = hull[0], high = hull[1];
    kernel.when(kernel.less(low, high), [&]() {
      accumulate(values, outputGradients, probabilities, shape.valueRow, panel,
                 low, high);
      accumulate(keys, queries, scoreGradients, shape.headRow, panel, low,
                 high);
    });
  });
  emitQueryGradient();
  sums.emitBlock(site, scoreGradients,
                 {chunk, firstQuery, firstKey, groupEnd,
                  kernel.mul(panelCount, shape.panel)});
  return result;
}

Values BackwardKernel::emitGroup(Index group, Index panel, Value isWhole,
                                 ValueRange hull, LogicalResult &result) {
  Index query = kernel.add(firstQuery, group);
  Index key = kernel.add(firstKey, kernel.mul(panel, shape.panel));
  Visibility cell = emitVisibility(query, kernel.add(query, shape.rows), key,
                                   kernel.add(key, shape.panel));
  site.enterCell(query, key);
  auto either = [&](Value a, Value b) -> Value {
    return arith::OrIOp::create(kernel.builder, kernel.loc, a, b);
  };
  return kernel.choose(
      either(isWhole, cell.some), {kernel.i64, kernel.i64},
      [&]() -> Values {
        kernel.when(
            either(isWhole, cell.all),
            [&]() {
              if (failed(emitCell(group, panel, /*isMasked=*/false)))
                result = failure();
            },
            [&]() {
              if (failed(emitCell(group, panel, /*isMasked=*/true)))
                result = failure();
            });
        Index number = kernel.div(group, shape.rows);
        Value lowest = kernel.advance(lowPanels, {number}, kernel.i64);
        Value highest = kernel.advance(highPanels, {number}, kernel.i64);
        Index low = kernel.load(kernel.i64, lowest);
        kernel.store(kernel.value(kernel.min(low, panel)), lowest);
        kernel.store(kernel.value(kernel.add(panel, 1)), highest);
        return {kernel.value(kernel.min(Index(hull[0]), group)),
                kernel.value(kernel.add(group, shape.rows))};
      },
      [&]() -> Values {
        clearCell(group, panel);
        return {hull[0], hull[1]};
      });
}

//===----------------------------------------------------------------------===//
// Cells
//===----------------------------------------------------------------------===//

Values BackwardKernel::emitProduct(const Streamed &streamed,
                                   const Packed &packed, int64_t dim,
                                   int64_t row, Index group, Index panel,
                                   ValueRange initial) {
  int64_t units = row, count = llvm::alignTo(dim, 4);
  Value first = kernel.advance(streamed.rows, {kernel.mul(group, units)});
  SmallVector<TileRow> rows;
  for (int64_t r = 0; r < shape.rows; ++r)
    rows.push_back({first, r * units});
  RegisterTile tile;
  tile.rows = rows;
  tile.base = kernel.advance(packed.transposed,
                             {kernel.mul(panel, units * shape.panel)});
  tile.vectorStep = shape.panel;
  tile.vectors = shape.vectors;
  tile.count = count;
  return emitTile(kernel, tile, initial);
}

FailureOr<Value> BackwardKernel::emitVisible(int64_t row, int64_t vector) {
  // Lanes past the last key and rows past the last query are hidden as well.
  Index key = kernel.add(site.getFirstKey(), vector * kernel.width());
  Value visible =
      kernel.lanesBelow(kernel.sub(arguments.getSize(task.key, 2), key));
  Value isRow = kernel.broadcast(kernel.less(
      kernel.add(site.getFirstQuery(), row), arguments.getSize(task.query, 2)));
  visible = arith::AndIOp::create(kernel.builder, kernel.loc, visible, isRow);
  if (!task.plan.mask)
    return visible;
  pos::MaskOp mask = task.plan.mask;
  FailureOr<SmallVector<Value>> masked =
      emitPayload(kernel.builder, mask.getBody().front(), {}, site);
  if (failed(masked))
    return failure();
  return arith::AndIOp::create(kernel.builder, kernel.loc, visible,
                               kernel.broadcast(masked->front()))
      .getResult();
}

LogicalResult BackwardKernel::emitCell(Index group, Index panel,
                                       bool isMasked) {
  pos::ScoreOp scoreOp = task.plan.score;
  Block *payload = scoreOp ? &scoreOp.getBody().front() : nullptr;
  bool keepsScores = payload && !isAdditive(*payload);
  Index cell = kernel.add(kernel.mul(group, shape.stride),
                          kernel.mul(panel, shape.panel));
  auto statistics = [&](unsigned tensor, int64_t row) {
    Value base = arguments.getAddress(tensor, {batch, head});
    return kernel.loadBroadcast(base, {firstQuery, group, row});
  };

  // S, and P from it.
  Values initial(shape.rows * shape.vectors, kernel.splatF32(0.0));
  Values scores = emitProduct(queries, keys, shape.headDim, shape.headRow,
                              group, panel, initial);
  for (int64_t r = 0; r < shape.rows; ++r) {
    Value lse = statistics(task.negativeLse, r);
    for (int64_t v = 0; v < shape.vectors; ++v) {
      Value score = scores[r * shape.vectors + v];
      site.setPoint(r, v);
      if (keepsScores)
        kernel.storeVector(score, cellScores,
                           {r * shape.panel + v * kernel.width()});
      if (payload) {
        FailureOr<SmallVector<Value>> mapped =
            emitPayload(kernel.builder, *payload, score, site);
        if (failed(mapped))
          return failure();
        score = kernel.broadcast(mapped->front());
      }
      Value p = kernel.exp2(kernel.fma(score, kernel.splatF32(log2e), lse));
      if (isMasked) {
        FailureOr<Value> visible = emitVisible(r, v);
        if (failed(visible))
          return failure();
        p = kernel.selectF(*visible, p, kernel.splatF32(0.0));
      }
      kernel.storeVector(p, probabilities,
                         {cell, r * shape.stride + v * kernel.width()});
    }
  }

  // dP - delta, and dS from it.
  for (int64_t r = 0; r < shape.rows; ++r)
    for (int64_t v = 0; v < shape.vectors; ++v)
      initial[r * shape.vectors + v] = statistics(task.negativeDelta, r);
  Values gradients = emitProduct(outputGradients, values, shape.valueDim,
                                 shape.valueRow, group, panel, initial);
  for (int64_t r = 0; r < shape.rows; ++r)
    for (int64_t v = 0; v < shape.vectors; ++v) {
      Index place = r * shape.stride + v * kernel.width();
      Value gradient =
          kernel.mulF(gradients[r * shape.vectors + v],
                      kernel.loadVector(probabilities, {cell, place}));
      site.setPoint(r, v);
      if (payload) {
        Value score = kernel.splatF32(0.0);
        if (keepsScores)
          score = kernel.loadVector(cellScores,
                                    {r * shape.panel + v * kernel.width()});
        FailureOr<SmallVector<Value>> pulled =
            emitPullback(kernel.builder, *payload, score, gradient, site);
        if (failed(pulled))
          return failure();
        gradient = pulled->front() ? kernel.broadcast(pulled->front())
                                   : kernel.splatF32(0.0);
      }
      kernel.storeVector(gradient, scoreGradients, {cell, place});
      if (failed(sums.record(gradient, site.hoistGradients, cell, place)))
        return failure();
    }
  return success();
}

void BackwardKernel::clearCell(Index group, Index panel) {
  Index cell = kernel.add(kernel.mul(group, shape.stride),
                          kernel.mul(panel, shape.panel));
  SmallVector<Value> buffers{probabilities, scoreGradients};
  llvm::append_range(buffers, sums.getOwnTiles());
  for (Value buffer : buffers)
    for (int64_t r = 0; r < shape.rows; ++r)
      for (int64_t v = 0; v < shape.vectors; ++v)
        kernel.storeVector(kernel.splatF32(0.0), buffer,
                           {cell, r * shape.stride + v * kernel.width()});
}

//===----------------------------------------------------------------------===//
// Products of the second half
//===----------------------------------------------------------------------===//

/// gradient[row lanes][keys] += columns^T times rows [low, high) of `scores`.
void BackwardKernel::accumulate(const Packed &packed, const Streamed &streamed,
                                Value scores, int64_t row, Index panel,
                                Index low, Index high) {
  Value first = kernel.advance(streamed.columns, {kernel.mul(low, row)});
  Value gradient =
      kernel.advance(packed.gradient, {kernel.mul(panel, row * shape.panel)});
  RegisterTile tile;
  tile.rowStep = row;
  tile.base = kernel.advance(
      scores, {kernel.mul(low, shape.stride), kernel.mul(panel, shape.panel)});
  tile.vectorStep = shape.stride;
  tile.vectors = shape.vectors;
  tile.count = kernel.sub(high, low);
  tile.isWhole = true;
  kernel.loop(0, row, shape.rows, [&](Value lane) {
    Value at = kernel.advance(first, {lane});
    Value to = kernel.advance(gradient, {kernel.mul(lane, shape.panel)});
    SmallVector<TileRow> rows;
    Values initial;
    for (int64_t r = 0; r < shape.rows; ++r) {
      rows.push_back({at, r});
      for (int64_t v = 0; v < shape.vectors; ++v)
        initial.push_back(
            kernel.loadVector(to, {r * shape.panel + v * kernel.width()}));
    }
    tile.rows = rows;
    Values result = emitTile(kernel, tile, initial);
    for (int64_t r = 0; r < shape.rows; ++r)
      for (int64_t v = 0; v < shape.vectors; ++v)
        kernel.storeVector(result[r * shape.vectors + v], to,
                           {r * shape.panel + v * kernel.width()});
  });
}

/// dQ[rows][lanes] += dS[rows][keys] K[keys][lanes].
void BackwardKernel::emitQueryGradient() {
  int64_t row = shape.headRow;
  Value base = arguments.getAddress(task.queryGradient,
                                    {chunk, batch, head, firstQuery});
  kernel.loop(0, groupEnd, shape.rows, [&](Value group) {
    Index number = kernel.div(group, shape.rows);
    Index low = kernel.load(kernel.i64,
                            kernel.advance(lowPanels, {number}, kernel.i64));
    Index high = kernel.load(kernel.i64,
                             kernel.advance(highPanels, {number}, kernel.i64));
    Index lowKey = kernel.mul(low, shape.panel);
    Value scores = kernel.advance(scoreGradients,
                                  {kernel.mul(group, shape.stride), lowKey});
    Value to = kernel.advance(base, {kernel.mul(group, row)});
    SmallVector<TileRow> rows;
    for (int64_t r = 0; r < shape.rows; ++r)
      rows.push_back({scores, r * shape.stride});
    RegisterTile tile;
    tile.rows = rows;
    tile.vectorStep = row;
    tile.count = kernel.mul(kernel.sub(high, low), shape.panel);
    tile.isWhole = true;
    auto columns = [&](Index lane, int64_t vectors) {
      tile.base = kernel.advance(rowsBuffer, {kernel.mul(lowKey, row), lane});
      tile.vectors = vectors;
      Value at = kernel.advance(to, {lane});
      Values initial;
      for (int64_t r = 0; r < shape.rows; ++r)
        for (int64_t v = 0; v < vectors; ++v)
          initial.push_back(
              kernel.loadVector(at, {r * row + v * kernel.width()}));
      Values result = emitTile(kernel, tile, initial);
      for (int64_t r = 0; r < shape.rows; ++r)
        for (int64_t v = 0; v < vectors; ++v)
          kernel.storeVector(result[r * vectors + v], at,
                             {r * row + v * kernel.width()});
    };
    int64_t step = shape.rowVectors * kernel.width();
    int64_t whole = row / step * step;
    kernel.when(kernel.less(low, high), [&]() {
      kernel.loop(0, whole, step,
                  [&](Value lane) { columns(lane, shape.rowVectors); });
      if (row != whole)
        columns(whole, (row - whole) / kernel.width());
    });
  });
}

//===----------------------------------------------------------------------===//
// Kernel
//===----------------------------------------------------------------------===//

LogicalResult
sextant::codegen::createBackwardKernel(ModuleOp kernels, Location loc,
                                       StringRef name, const BackwardTask &task,
                                       const VectorTarget &target) {
  LogicalResult result = success();
  ScratchLayout layout;
  auto countItems = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return BackwardKernel::countItems(arguments, kernel, task);
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments, Index begin,
                 Index end, Value scratch) {
    BackwardKernel backward(kernel, arguments, task, layout, scratch);
    kernel.loop(begin, end, 1,
                [&](Value item) { result = backward.emitItem(item); });
  };
  // Called after `run`, which hands the memory out.
  auto scratchBytes = [&](KernelBuilder &, ArgumentBlock &) {
    return Index(layout.getBytes());
  };
  createKernel(kernels, loc, name, task.operands, target,
               {countItems, scratchBytes, run});
  return result;
}

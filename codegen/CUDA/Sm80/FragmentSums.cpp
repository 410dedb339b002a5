//===- FragmentSums.cpp - Sums of a payload's gradients -------------------===//

#include "codegen/CUDA/Sm80/FragmentSums.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// Lanes of a warp whose elements have the same rows, and the same columns.
static constexpr int64_t rowLanes = 4, columnLanes = 8;

FragmentSums::FragmentSums(ThreadBuilder &thread, ArgumentBlock &arguments,
                           const BackwardOperands &launch)
    : thread(thread), kernel(thread.kernel), arguments(arguments),
      launch(launch), tile(launch.tile),
      part(WarpPart::get(thread, tile, thread.warp)),
      row(thread.div(thread.lane, rowLanes)),
      column(thread.mul(thread.rem(thread.lane, rowLanes), 2)) {
  for (const auto *all : {&launch.sinks.offsets, &launch.sinks.queries,
                          &launch.sinks.keys, &launch.sinks.scalars})
    llvm::append_range(sinks, *all);
}

Value FragmentSums::getWord(Value own, int64_t word) {
  Value address = thread.getShared(thread.mul(own, wordBytes));
  return thread.advance(address, tile.getSums() + wordBytes * word);
}

/// `mayBeAtomic`: so that nobody waits for it; but where loads of dQ are waited
/// for anyway, those leave no registers.
void FragmentSums::addTo(Value address, Value addend, bool mayBeAtomic) {
  if (mayBeAtomic && tile.keepsQuerySums)
    return thread.addAtomically(addend, address);
  kernel.store(kernel.addF(kernel.loadF32(address), addend), address);
}

Value FragmentSums::sumLanes(Value value, int64_t apart, int64_t end) {
  for (; apart < end; apart *= 2)
    value = kernel.addF(value, thread.shuffleXor(value, apart));
  return value;
}

void FragmentSums::clear() {
  int64_t words = tile.sums.getColumns(tile, 0);
  Value zero = kernel.constantF32(0);
  kernel.loop(kernel.fromI32(thread.thread), words, tile.countThreads(),
              [&](Value word) {
                thread.storeShared(zero, getWord(kernel.toI32(word), 0));
              });
}

/// Of the thread's warp, in shared memory.
Value FragmentSums::getPlace(int64_t number) {
  return getWord(thread.mul(thread.warp, SumWords::placeWords),
                 tile.sums.getPlaces(tile, number));
}

/// `sums` lie in a tensor: the bytes from its first element on.
void FragmentSums::keepPlace(int64_t number, unsigned tensor, Value sums) {
  auto toNumber = [&](Value address) -> Value {
    return LLVM::PtrToIntOp::create(kernel.builder, kernel.loc,
                                    kernel.builder.getI64Type(), address);
  };
  Value bytes =
      arith::SubIOp::create(kernel.builder, kernel.loc, toNumber(sums),
                            toNumber(arguments.getAddress(tensor, {})));
  kernel.when(kernel.equal(kernel.fromI32(thread.lane), 0),
              [&] { thread.storeShared(bytes, getPlace(number)); });
}

/// The address of element `first` of the sums.
Value FragmentSums::findSums(int64_t number, unsigned tensor, Index first) {
  Value bytes =
      thread.loadShared(kernel.builder.getI64Type(), getPlace(number));
  Value sums = LLVM::GEPOp::create(
      kernel.builder, kernel.loc, kernel.pointer, kernel.builder.getI8Type(),
      arguments.getAddress(tensor, {}), ArrayRef<LLVM::GEPArg>{bytes});
  return kernel.advance(sums, {first});
}

void FragmentSums::enterHead(const HeadNumbers &numbers, Value firstKey) {
  auto enter = [&](const Hoisted *hoisted, Index number) {
    return arguments.getAddress(launch.getSums(*hoisted), {0, 0, number});
  };
  Index firstOffset =
      kernel.add(launch.sites.getFirstOffset(kernel, arguments),
                 kernel.sub(kernel.fromI32(firstKey), tile.columns));
  int64_t number = 0;
  // Nobody reads those of the head before any more.
  thread.synchronizeWarp();
  for (const Hoisted *hoisted : launch.sinks.offsets)
    keepPlace(number++, launch.getSums(*hoisted),
              kernel.advance(enter(hoisted, numbers.ofChunks), {firstOffset}));
  for (const Hoisted *hoisted : launch.sinks.queries)
    keepPlace(number++, launch.getSums(*hoisted),
              enter(hoisted, numbers.ofChunks));
  thread.synchronizeWarp();
  // A key belongs to one chunk: its sums have no other.
  ofKeys = llvm::map_to_vector(launch.sinks.keys, [&](const Hoisted *hoisted) {
    return enter(hoisted, numbers.ofHeads);
  });
  ofScalars =
      llvm::map_to_vector(launch.sinks.scalars, [&](const Hoisted *hoisted) {
        // The first thread adds to them.
        return enter(hoisted, launch.plan.hasPositions ? numbers.ofWarps
                                                       : numbers.ofChunks);
      });
}

Values FragmentSums::begin() {
  return Values(launch.sinks.keys.size() * tile.countThreadRows() +
                    launch.sinks.scalars.size(),
                kernel.constantF32(0));
}

//===----------------------------------------------------------------------===//
// A tile
//===----------------------------------------------------------------------===//

void FragmentSums::addTile(ValueRange cotangents,
                           MutableArrayRef<Value> carried) {
  auto take = [&] {
    ValueRange own = cotangents.take_front(tile.countScores());
    cotangents = cotangents.drop_front(tile.countScores());
    return own;
  };
  for (size_t number = 0; number < launch.sinks.offsets.size(); ++number)
    storeDiagonals(number, sumDiagonals(take()));
  for (size_t number = 0; number < launch.sinks.queries.size(); ++number)
    storeColumns(number, sumRows(take()));
  for (size_t number = 0; number < launch.sinks.keys.size(); ++number) {
    for (auto [place, cotangent] : llvm::enumerate(take())) {
      // Elements are [block][8 columns][row][column].
      int64_t perBlock = tile.countWarpColumns() / 2;
      Value &sum = carried[2 * (place / perBlock) + place % 4 / 2];
      sum = kernel.addF(sum, cotangent);
    }
    carried = carried.drop_front(tile.countThreadRows());
  }
  for (size_t number = 0; number < launch.sinks.scalars.size(); ++number)
    for (Value cotangent : take())
      carried[number] = kernel.addF(carried[number], cotangent);
}

/// The sum (null: none yet) and one of some numbers, times its weight if there
/// are weights.
static Value addWeighted(KernelBuilder &kernel, Value sum, ValueRange numbers,
                         ValueRange weights, unsigned at) {
  Value number = numbers[at];
  if (weights.empty())
    return sum ? kernel.addF(sum, number) : number;
  return sum ? kernel.fma(number, weights[at], sum)
             : kernel.mulF(number, weights[at]);
}

static Value isBitSet(ThreadBuilder &thread, Value number, int64_t bit) {
  KernelBuilder &kernel = thread.kernel;
  Value masked = arith::AndIOp::create(kernel.builder, kernel.loc, number,
                                       thread.constant(bit));
  return arith::CmpIOp::create(kernel.builder, kernel.loc,
                               arith::CmpIPredicate::ne, masked,
                               thread.constant(0));
}

/// Numbers of matrices as far above their diagonal as each other. That of a row
/// and a column of eight stands with its diagonal, at the number of the column.
template <class Body>
static void forDiagonals(const BackwardTile &tile, Body body) {
  int64_t rowsOf8 = 2 * tile.blocks;
  for (int64_t above = 1 - tile.countGroups(); above < rowsOf8; ++above)
    for (int64_t half : {0, 1})
      body(above, half);
}

Values FragmentSums::sumDiagonals(ValueRange numbers, ValueRange weights,
                                  ValueRange before) {
  Values sums;
  forDiagonals(tile, [&](int64_t above, int64_t half) {
    Value sum = before.empty() ? Value() : before[sums.size()];
    for (int64_t group = 0; group < tile.countGroups(); ++group) {
      int64_t ofRows = above + group;
      if (ofRows >= 0 && ofRows < 2 * tile.blocks)
        sum = addWeighted(
            kernel, sum, numbers, weights,
            tile.getNumber(ofRows / 2, group, 2 * (ofRows % 2) + half));
    }
    sums.push_back(sum);
  });
  return sums;
}

void FragmentSums::storeDiagonals(int64_t number, ValueRange sums) {
  constexpr int64_t words = SumWords::diagonalWords;
  Value diagonal =
      thread.add(thread.mul(thread.warp, SumWords::countDiagonals(tile)),
                 thread.sub(row, column));
  Value first = thread.add(thread.mul(diagonal, words), column);
  forDiagonals(tile, [&](int64_t above, int64_t half) {
    int64_t further = tile.countWarpColumns() + above * fragmentColumns - half;
    thread.storeShared(sums.front(),
                       getWord(first, tile.sums.getDiagonals(tile, number) +
                                          further * words + half));
    sums = sums.drop_front();
  });
}

Values FragmentSums::sumRows(ValueRange numbers, ValueRange weights) {
  Values sums;
  for (int64_t group = 0; group < tile.countGroups(); ++group)
    for (int64_t half : {0, 1}) {
      Value sum;
      for (int64_t rows = 0; rows < tile.countThreadRows(); ++rows)
        sum =
            addWeighted(kernel, sum, numbers, weights,
                        tile.getNumber(rows / 2, group, 2 * (rows % 2) + half));
      sums.push_back(sum);
    }
  return sums;
}

/// Of two lanes one goes on with half of the columns, the other one with the
/// other half: in the end each of the eight lanes of a column has an eighth of
/// them, and there are as many shuffles as columns. They lie in shared memory
/// as lanes have them: see getColumn.
void FragmentSums::storeColumns(int64_t number, Values sums, Value factor) {
  assert(sums.size() % columnLanes == 0 && "lanes have as many columns each");
  for (int64_t apart = rowLanes * columnLanes / 2; apart >= rowLanes;
       apart /= 2) {
    Value isUpper = isBitSet(thread, thread.lane, apart);
    size_t half = sums.size() / 2;
    Values kept;
    for (size_t at = 0; at < half; ++at) {
      Value low = sums[at], high = sums[at + half];
      Value given = kernel.selectF(isUpper, low, high);
      Value own = kernel.selectF(isUpper, high, low);
      kept.push_back(kernel.addF(own, thread.shuffleXor(given, apart)));
    }
    sums = kept;
  }
  Value place =
      thread.add(thread.mul(thread.warp, tile.countWarpColumns()), thread.lane);
  for (auto [at, sum] : llvm::enumerate(sums))
    thread.storeShared(
        factor ? kernel.mulF(sum, factor) : sum,
        getWord(place, tile.sums.getColumns(tile, number) + at * warpLanes));
}

/// The column of a word of those of a warp. Lane 4 r + c has of lane c those
/// from number r times as many as a lane has on; of these number 2 g + h is
/// column 8 g + 2 c + h.
Value FragmentSums::getColumn(Value word) {
  int64_t perLane = tile.countWarpColumns() / warpLanes;
  Value lane = thread.rem(word, warpLanes);
  Value own = thread.add(thread.mul(thread.div(lane, rowLanes), perLane),
                         thread.div(word, warpLanes));
  return thread.add(thread.add(thread.mul(thread.div(own, 2), fragmentColumns),
                               thread.mul(thread.rem(lane, rowLanes), 2)),
                    thread.rem(own, 2));
}

//===----------------------------------------------------------------------===//
// Behind the barrier of a tile
//===----------------------------------------------------------------------===//

void FragmentSums::finishTile(Value firstQuery) {
  for (size_t number = 0; number < launch.sinks.offsets.size(); ++number)
    finishDiagonals(number, firstQuery);
  for (size_t number = 0; number < launch.sinks.queries.size(); ++number)
    finishColumns(number, firstQuery);
}

/// The sum of the numbers of a diagonal, so many words behind `own`.
Value FragmentSums::sumDiagonal(Value own, int64_t word) {
  constexpr int64_t perLoad = 4;
  auto type = VectorType::get(perLoad, kernel.f32);
  Value sum;
  for (int64_t first = 0; first < SumWords::diagonalWords; first += perLoad) {
    Value loaded = thread.loadShared(type, getWord(own, word + first));
    auto extract = [&](int64_t lane) -> Value {
      return LLVM::ExtractElementOp::create(kernel.builder, kernel.loc, loaded,
                                            thread.constant(lane));
    };
    for (int64_t lane = 0; lane < perLoad; lane += 2) {
      Value pair = kernel.addF(extract(lane), extract(lane + 1));
      sum = sum ? kernel.addF(sum, pair) : pair;
    }
  }
  return sum;
}

/// A thread sums up the offset at which its number is the key further than the
/// query, less the columns of the tile. Of each part of the columns several
/// warps may have some: those whose first key is as far or up to so many
/// columns less. Those before the first warp are none; in place of them the
/// thread takes as many of the last ones, for the offset as many further as the
/// tile has rows.
void FragmentSums::finishDiagonals(int64_t number, Value firstQuery) {
  constexpr int64_t words = SumWords::diagonalWords;
  int64_t warpRows = tile.countWarpRows(), rows = tile.countRows();
  int64_t ofWarp = SumWords::countDiagonals(tile);
  int64_t others = tile.columns / warpRows;
  int64_t ownOthers = tile.countWarpColumns() / warpRows;
  assert(ownOthers * warpRows == tile.countWarpColumns() &&
         tile.columns <= rows && rows <= tile.countThreads() &&
         "warps have as many rows or fewer, and threads an offset or two");
  Value own = thread.thread;
  auto addOffsets = [&] {
    Value warp = thread.sub(thread.div(own, warpRows), thread.constant(others));
    Value place = thread.mul(
        thread.add(thread.mul(warp, ofWarp), thread.rem(own, warpRows)), words);
    Value zero = kernel.constantF32(0), sum = zero, further = zero;
    auto addWarp = [&](int64_t ofColumns, int64_t back) {
      int64_t before = others - ofColumns * ownOthers - back;
      int64_t warps = others - before + ofColumns * tile.countRowWarps();
      int64_t word = tile.sums.getDiagonals(tile, number) +
                     (warps * ofWarp + (ownOthers - back) * warpRows) * words;
      if (before == 0) {
        sum = kernel.addF(sum, sumDiagonal(place, word));
        return;
      }
      Value isNone = thread.less(own, thread.constant(before * warpRows));
      Value taken = thread.select(
          isNone, thread.add(place, tile.countRowWarps() * ofWarp * words),
          place);
      Value found = sumDiagonal(taken, word);
      sum = kernel.addF(sum, kernel.selectF(isNone, zero, found));
      further = kernel.addF(further, kernel.selectF(isNone, found, zero));
    };
    for (int64_t ofColumns = 0; ofColumns < tile.columnParts; ++ofColumns)
      for (int64_t back = 0; back <= ownOthers; ++back)
        addWarp(ofColumns, back);
    Value to = findSums(number, launch.getSums(*launch.sinks.offsets[number]),
                        kernel.fromI32(thread.sub(own, firstQuery)));
    addTo(to, sum, /*mayBeAtomic=*/true);
    kernel.when(thread.less(own, thread.constant(tile.columns)), [&] {
      addTo(kernel.advance(to, {rows}), further, /*mayBeAtomic=*/true);
    });
  };
  if (rows == tile.countThreads())
    return addOffsets();
  kernel.when(thread.less(own, thread.constant(rows)), addOffsets);
}

void FragmentSums::finishColumns(int64_t number, Value firstQuery) {
  assert(tile.columns <= tile.countThreads() &&
         "a thread has a column at most");
  kernel.when(thread.less(thread.thread, thread.constant(tile.columns)), [&] {
    int64_t ofWarp = tile.countWarpColumns(), warps = tile.countRowWarps();
    Value first = thread.thread, sum;
    if (tile.columnParts > 1)
      first = thread.add(
          thread.rem(thread.thread, ofWarp),
          thread.mul(thread.div(thread.thread, ofWarp), warps * ofWarp));
    for (int64_t warp = 0; warp < warps; ++warp) {
      Value addend = thread.loadShared(
          kernel.f32,
          getWord(first, tile.sums.getColumns(tile, number) + warp * ofWarp));
      sum = sum ? kernel.addF(sum, addend) : addend;
    }
    Value query = getColumn(thread.rem(thread.thread, ofWarp));
    if (tile.columnParts > 1)
      query = thread.add(query,
                         thread.mul(thread.div(thread.thread, ofWarp), ofWarp));
    addTo(findSums(launch.sinks.offsets.size() + number,
                   launch.getSums(*launch.sinks.queries[number]),
                   kernel.fromI32(thread.add(query, firstQuery))),
          sum, /*mayBeAtomic=*/true);
  });
}

//===----------------------------------------------------------------------===//
// A head
//===----------------------------------------------------------------------===//

void FragmentSums::finishHead(Value firstKey, ValueRange carried) {
  for (Value sums : ofKeys) {
    finishKeys(sums, firstKey, carried.take_front(tile.countThreadRows()));
    carried = carried.drop_front(tile.countThreadRows());
  }
  for (auto [number, sum] : llvm::enumerate(carried))
    finishScalar(number, sum);
}

/// There are sums of all keys of a tile. Warps that share the columns of some
/// keys add to them one after the other.
void FragmentSums::finishKeys(Value sums, Value firstKey, ValueRange carried) {
  Value key = thread.add(thread.add(firstKey, row), part.getRow(thread, tile));
  Value isFirst = kernel.equal(kernel.fromI32(column), 0);
  Values ofLanes = llvm::map_to_vector(
      carried, [&](Value own) { return sumLanes(own, 1, rowLanes); });
  auto addAll = [&] {
    for (auto [number, sum] : llvm::enumerate(ofLanes)) {
      int64_t step = FragmentElement::get(number / 2, 0, 2 * (number % 2)).row;
      addTo(kernel.advance(sums, {kernel.fromI32(key), step}), sum);
    }
  };
  if (tile.columnParts == 1)
    return kernel.when(isFirst, addAll);
  for (int64_t turn = 0; turn < tile.columnParts; ++turn) {
    Value isTurn = kernel.equal(kernel.fromI32(part.ofColumns), turn);
    kernel.when(kernel.both(isFirst, isTurn), addAll);
    thread.synchronizeBlock();
  }
}

void FragmentSums::finishScalar(int64_t number, Value carried) {
  Value sum = sumLanes(carried, 1, warpLanes);
  auto getSlot = [&](Value warp, int64_t step) {
    return getWord(warp, tile.sums.getScalars(tile, number) + step);
  };
  Value zero = thread.constant(0);
  kernel.when(kernel.equal(kernel.fromI32(thread.lane), 0),
              [&] { thread.storeShared(sum, getSlot(thread.warp, 0)); });
  thread.synchronizeBlock();
  kernel.when(kernel.equal(kernel.fromI32(thread.thread), 0), [&] {
    Value all;
    for (int64_t warp = 0; warp < tile.warps; ++warp) {
      Value addend = thread.loadShared(kernel.f32, getSlot(zero, warp));
      all = all ? kernel.addF(all, addend) : addend;
    }
    kernel.addToF64(ofScalars[number], all);
  });
  // The next head stores there.
  thread.synchronizeBlock();
}

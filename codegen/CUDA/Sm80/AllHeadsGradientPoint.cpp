//===- AllHeadsGradientPoint.cpp - Gradients of a point's payload ---------===//

#include "codegen/CUDA/Sm80/AllHeadsGradientPoint.h"
#include "codegen/CUDA/Sm80/ColumnLoop.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// Bytes of a kept element.
static constexpr int64_t elementBytes = 2;
/// Of 8 and of 16 kept elements, as loads of matrices take them.
static constexpr int64_t chunkBytes = 16, depthBytes = 2 * fragmentDepth;
/// What a thread holds of 16 rows and 16 columns of a matrix.
static constexpr int64_t tileElements = 2 * fragmentElements;

AllHeadsGradientPoint::AllHeadsGradientPoint(
    ThreadBuilder &thread, ArgumentBlock &arguments,
    const AllHeadsBackwardOperands &launch, FragmentProducts &products)
    : AllHeadsThreadPoint(thread, arguments, launch.plan, launch.sites,
                          launch.weights, launch.packed),
      thread(thread), launch(launch), tile(launch.tile), sums(tile.sums),
      products(products) {
  // Lanes of a query follow each other, one key further than those before: of
  // lanes with the same place the offset is the same, but for those that begin
  // again with the first key.
  Value row = thread.div(thread.lane, sums.warpKeys);
  Value place = thread.rem(thread.lane, sums.warpKeys);
  Value further = thread.add(place, row);
  int64_t across = tile.ofHead.columns / sums.warpKeys;
  query = thread.add(
      thread.mul(thread.div(thread.warp, across), sums.warpQueries), row);
  key = thread.add(thread.mul(thread.rem(thread.warp, across), sums.warpKeys),
                   thread.rem(further, sums.warpKeys));
  beginsAgain = thread.less(thread.constant(sums.warpKeys - 1), further);
  // The first query writes offsets from 0 on, the last one those before.
  Value isFirst = thread.less(row, thread.constant(1));
  Value isLast = thread.less(thread.constant(sums.warpQueries - 2), row);
  isWriter = kernel.either(isFirst, kernel.both(isLast, beginsAgain));
  Value entry = thread.add(place, sums.warpQueries - 1);
  entry = thread.select(isFirst, entry, thread.add(entry, -sums.warpKeys));
  // Lanes that do not write have no entry.
  entry = thread.max(entry, thread.constant(0));
  Value ofWarp = thread.mul(thread.warp, sums.tableRows * sums.diagonals);
  window = thread.advance(getShared(tile.getWindows()),
                          thread.mul(thread.add(ofWarp, entry), wordBytes));
  if (sums.elements)
    ownSums = reserveNumbers(kernel, sums.elements,
                             *kernel.builder.getInsertionBlock());
  for (const AllHeadsSums::Matrix &matrix : sums.matrices)
    for (int64_t row = 0; row < matrix.rows; row += fragmentRows)
      for (int64_t column = 0; column < matrix.columns; column += fragmentRows)
        tiles.push_back({&matrix, row, column});
}

//===----------------------------------------------------------------------===//
// At a point
//===----------------------------------------------------------------------===//

const AllHeadsSums::Table &
AllHeadsGradientPoint::getTable(pos::HoistOp hoist) const {
  for (const AllHeadsSums::Table &table : sums.tables)
    if (table.hoisted->op == hoist)
      return table;
  llvm_unreachable("a gradient that nobody wants");
}

/// `row` counts those of all tables.
void AllHeadsGradientPoint::addToDiagonal(Index row, Value value) {
  Value zero = kernel.constantF32(0);
  // Those that begin again have another offset.
  Value sum = kernel.selectF(beginsAgain, zero, value);
  Value again = kernel.selectF(beginsAgain, value, zero);
  for (int64_t apart = sums.warpKeys; apart < warpLanes; apart *= 2) {
    sum = kernel.addF(sum, thread.shuffleXor(sum, apart));
    again = kernel.addF(again, thread.shuffleXor(again, apart));
  }
  sum = kernel.selectF(beginsAgain, again, sum);
  Value at = thread.advance(
      window, thread.mul(kernel.toI32(row), wordBytes * sums.diagonals));
  kernel.when(isWriter, [&] {
    thread.storeShared(kernel.addF(thread.loadShared(kernel.f32, at), sum), at);
  });
}

void AllHeadsGradientPoint::addToSum(Value owner, Index element, Value value) {
  for (const AllHeadsSums::Sum &sum : sums.sums)
    if (sum.owner == owner) {
      Value at = kernel.advance(ownSums, {kernel.add(element, sum.first)});
      kernel.store(kernel.addF(kernel.loadF32(at), value), at);
      return;
    }
  llvm_unreachable("a gradient that nobody wants");
}

void AllHeadsGradientPoint::addToHoisted(OpBuilder &builder, pos::HoistOp hoist,
                                         Value cotangent) {
  const Hoisted *hoisted = plan.find(hoist);
  if (!hoisted || !hoisted->wantsGradient)
    return;
  if (isAmongHeads && !hoisted->perHead) {
    Value &sum = shared[hoist];
    sum = sum ? kernel.addF(sum, cotangent) : cotangent;
    return;
  }
  Index row = hoisted->perHead ? headPlace.head : Index(0);
  if (hoisted->form == HoistForm::HeadScalar)
    return addToSum(hoist.getResult(), row, cotangent);
  addToDiagonal(kernel.add(row, getTable(hoist).first), cotangent);
}

void AllHeadsGradientPoint::endHeads() {
  isAmongHeads = false;
  auto found = shared.takeVector();
  for (auto [hoist, sum] : found)
    addToHoisted(kernel.builder, cast<pos::HoistOp>(hoist), sum);
}

void AllHeadsGradientPoint::addToElements(pos::HoistOp hoist, Index first,
                                          ValueRange cotangents) {
  Index row = kernel.add(first, getTable(hoist).first);
  for (auto [number, cotangent] : llvm::enumerate(cotangents))
    addToDiagonal(kernel.add(row, number), cotangent);
}

void AllHeadsGradientPoint::addToElements(pos::ElementsOp param, Index first,
                                          ValueRange cotangents) {
  for (auto [number, cotangent] : llvm::enumerate(cotangents))
    addToSum(param.getResult(), kernel.add(first, number), cotangent);
}

/// Elements of rows from `row` plus `first` on.
void AllHeadsGradientPoint::keep(int64_t row, Index first, ValueRange values) {
  int64_t bytes = sums.ofPoints.getBytes();
  Value to =
      thread.advance(getShared(tile.getScores() + row * bytes),
                     thread.add(thread.mul(kernel.toI32(first), bytes),
                                thread.mul(thread.thread, elementBytes)));
  for (auto [number, value] : llvm::enumerate(values))
    storeElement(thread, value,
                 thread.advance(to, static_cast<int64_t>(number) * bytes));
}

static const AllHeadsSums::Matrix &find(const AllHeadsSums &sums,
                                        pos::ContractOp contract) {
  for (const AllHeadsSums::Matrix &matrix : sums.matrices)
    if (matrix.op == contract)
      return matrix;
  llvm_unreachable("a gradient that nobody wants");
}

void AllHeadsGradientPoint::recordResult(pos::ContractOp contract, Index first,
                                         ValueRange cotangents) {
  keep(find(sums, contract).results, first, cotangents);
}

void AllHeadsGradientPoint::recordOperand(pos::ContractOp contract, Index first,
                                          ValueRange elements) {
  keep(find(sums, contract).operands, first, elements);
}

//===----------------------------------------------------------------------===//
// Behind a tile
//===----------------------------------------------------------------------===//

/// Calls `body` with this thread's share of so many numbers (i32).
static void forShare(ThreadBuilder &thread, int64_t threads, int64_t count,
                     function_ref<void(Value)> body) {
  thread.loopWhile(
      thread.thread,
      [&](ValueRange at) { return thread.less(at[0], thread.constant(count)); },
      [&](ValueRange at) -> Values {
        body(at[0]);
        return {thread.add(at[0], threads)};
      });
}

/// Rows that are kept of 16 may be fewer: what lies there reaches no gradient.
void AllHeadsGradientPoint::clearShared() {
  auto clear = [&](int64_t first, int64_t bytes) {
    forShare(thread, sums.ofPoints.dim, bytes / wordBytes, [&](Value word) {
      thread.storeShared(
          thread.constant(0),
          thread.advance(getShared(first), thread.mul(word, wordBytes)));
    });
  };
  clear(tile.getScores(), sums.countKeptBytes());
  clear(tile.getWindows(), sums.countWindowBytes());
}

Values AllHeadsGradientPoint::begin() {
  for (int64_t element = 0; element < sums.elements; ++element)
    kernel.store(kernel.constantF32(0), kernel.advance(ownSums, {element}));
  auto slots = llvm::divideCeil(static_cast<int64_t>(tiles.size()), sums.warps);
  return Values(slots * tileElements, kernel.constantF32(0));
}

/// What `get` says of the tile that the warp has, of those that all warps
/// multiply at a time.
Value AllHeadsGradientPoint::pick(
    int64_t slot, function_ref<int64_t(const ProductTile &)> get) {
  auto all = ArrayRef(tiles).drop_front(slot * sums.warps);
  Value picked = thread.constant(get(all.front()));
  for (auto [warp, tile] : llvm::enumerate(all.take_front(sums.warps)))
    picked = thread.select(
        kernel.equal(kernel.fromI32(thread.warp), static_cast<int64_t>(warp)),
        thread.constant(get(tile)), picked);
  return picked;
}

void AllHeadsGradientPoint::addProducts(MutableArrayRef<Value> carried) {
  int64_t bytes = sums.ofPoints.getBytes();
  Value low = thread.rem(thread.lane, fragmentRows);
  Value high = thread.div(thread.lane, fragmentRows);
  Value ofLeft =
      thread.add(thread.mul(low, bytes), thread.mul(high, chunkBytes));
  Value ofRight = thread.add(
      thread.mul(thread.add(thread.rem(thread.lane, 8), thread.mul(high, 8)),
                 bytes),
      thread.mul(thread.rem(thread.div(thread.lane, 8), 2), chunkBytes));
  Value kept = getShared(tile.getScores());
  for (size_t slot = 0; slot * tileElements < carried.size(); ++slot) {
    auto own = carried.slice(slot * tileElements, tileElements);
    auto getPlace = [&](Value ofLane,
                        function_ref<int64_t(const ProductTile &)> getRow) {
      Value row = pick(
          slot, [&](const ProductTile &tile) { return getRow(tile) * bytes; });
      return thread.advance(kept, thread.add(row, ofLane));
    };
    auto multiply = [&] {
      Values added(own);
      Value left = getPlace(ofLeft, [](const ProductTile &tile) {
        return tile.matrix->results + tile.row;
      });
      Value right = getPlace(ofRight, [](const ProductTile &tile) {
        return tile.matrix->operands + tile.column;
      });
      for (int64_t step = 0; step < sums.ofPoints.dim / fragmentDepth; ++step)
        products.multiplyPair(
            {thread.loadMatrices(thread.advance(left, step * depthBytes),
                                 /*isTransposed=*/false)},
            thread.loadMatrices(thread.advance(right, step * depthBytes),
                                /*isTransposed=*/false),
            /*columns=*/2, /*pair=*/0, added);
      return added;
    };
    int64_t last = static_cast<int64_t>(tiles.size() - slot * sums.warps);
    Value exists = thread.less(thread.warp, thread.constant(last));
    llvm::copy(kernel.choose(exists, ValueRange(own).getTypes(), multiply,
                             [&] { return Values(own); }),
               own.begin());
  }
}

void AllHeadsGradientPoint::addDiagonals(Value firstQuery, Value firstKey,
                                         Index sum) {
  // Diagonals of a tile from that of its last query and first key on.
  constexpr int64_t ofTile = 2 * fragmentRows;
  Value first = thread.sub(firstKey, thread.add(firstQuery, fragmentRows - 1));
  for (const AllHeadsSums::Table &table : sums.tables) {
    unsigned tensor =
        *launch.tableGradients[table.hoisted - plan.hoisted.data()];
    forShare(thread, sums.ofPoints.dim, table.rows * ofTile, [&](Value number) {
      Value row = thread.div(number, ofTile);
      Value diagonal = thread.rem(number, ofTile);
      auto add = [&] {
        Value total;
        for (int64_t warp = 0; warp < sums.warps; ++warp) {
          int64_t across = tile.ofHead.columns / sums.warpKeys;
          Value entry =
              thread.add(diagonal, warp / across * sums.warpQueries -
                                       warp % across * sums.warpKeys +
                                       sums.warpQueries - fragmentRows);
          Value isThere =
              kernel.both(thread.less(thread.constant(-1), entry),
                          thread.less(entry, thread.constant(sums.diagonals)));
          int64_t ofWarp = warp * sums.tableRows + table.first;
          auto take = [&]() -> Values {
            Value place = thread.add(
                thread.mul(thread.add(row, ofWarp), sums.diagonals), entry);
            Value at = thread.advance(getShared(tile.getWindows()),
                                      thread.mul(place, wordBytes));
            Value found = thread.loadShared(kernel.f32, at);
            thread.storeShared(kernel.constantF32(0), at);
            return {found};
          };
          Value found =
              kernel
                  .choose(isThere, kernel.f32, take,
                          [&]() -> Values { return {kernel.constantF32(0)}; })
                  .front();
          total = total ? kernel.addF(total, found) : found;
        }
        Index entry = kernel.add(kernel.fromI32(thread.add(first, diagonal)),
                                 operands.getFirstOffset(kernel, arguments));
        Value to = arguments.getAddress(
            tensor, {sum, headPlace.batch, kernel.fromI32(row), entry});
        kernel.store(kernel.addF(kernel.loadF32(to), total), to);
      };
      kernel.when(thread.less(diagonal, thread.constant(ofTile - 1)), add);
    });
  }
}

void AllHeadsGradientPoint::addTile(Value firstQuery, Value firstKey, Index sum,
                                    MutableArrayRef<Value> carried) {
  addProducts(carried);
  addDiagonals(firstQuery, firstKey, sum);
}

//===----------------------------------------------------------------------===//
// Behind the tiles
//===----------------------------------------------------------------------===//

void AllHeadsGradientPoint::finishProducts(Index sum, ValueRange carried) {
  Value ownRow = thread.div(thread.lane, 4);
  Value ownColumn = thread.mul(thread.rem(thread.lane, 4), 2);
  for (const AllHeadsSums::Matrix &matrix : sums.matrices) {
    pos::ContractOp contract = matrix.op;
    unsigned param = cast<BlockArgument>(contract.getMatrix()).getArgNumber();
    Index columns = arguments.getSize(*launch.sites.params[param], 1);
    Value to = arguments.getAddress(*launch.readGradients[param],
                                    {sum, headPlace.batch, 0});
    for (auto [number, tile] : llvm::enumerate(tiles)) {
      if (tile.matrix != &matrix)
        continue;
      auto warp = static_cast<int64_t>(number) % sums.warps;
      ValueRange own = carried.slice(static_cast<int64_t>(number) / sums.warps *
                                         tileElements,
                                     tileElements);
      auto addElement = [&](int64_t element) {
        FragmentElement place = FragmentElement::get(
            0, element / fragmentElements, element % fragmentElements);
        Value row = thread.add(ownRow, tile.row + place.row);
        Value column = thread.add(ownColumn, tile.column + place.column);
        Value exists =
            kernel.both(thread.less(row, thread.constant(matrix.rows)),
                        thread.less(column, thread.constant(matrix.columns)));
        kernel.when(exists, [&] {
          Index at = kernel.add(
              kernel.mul(kernel.fromI32(row), columns),
              kernel.fromI32(thread.add(column, getFirstColumn(contract))));
          kernel.addToF64(kernel.advance(to, {at}, kernel.f64), own[element]);
        });
      };
      kernel.when(kernel.equal(kernel.fromI32(thread.warp), warp), [&] {
        for (int64_t element = 0; element < tileElements; ++element)
          addElement(element);
      });
    }
    // Another one may be of the same parameter.
    thread.synchronizeBlock();
  }
}

void AllHeadsGradientPoint::finishSums(Index sum) {
  if (!sums.elements)
    return;
  auto getPlace = [&](Value element) {
    return thread.advance(getShared(tile.getScores()),
                          thread.mul(element, sums.warps * wordBytes));
  };
  // Nobody reads what was kept of the last tile any more.
  thread.synchronizeBlock();
  thread.loopWhile(
      thread.constant(0),
      [&](ValueRange at) {
        return thread.less(at[0], thread.constant(sums.elements));
      },
      [&](ValueRange at) -> Values {
        Value total =
            kernel.loadF32(kernel.advance(ownSums, {kernel.fromI32(at[0])}));
        for (int64_t apart = warpLanes / 2; apart > 0; apart /= 2)
          total = kernel.addF(total, thread.shuffleXor(total, apart));
        kernel.when(thread.less(thread.lane, thread.constant(1)), [&] {
          thread.storeShared(
              total, thread.advance(getPlace(at[0]),
                                    thread.mul(thread.warp, wordBytes)));
        });
        return {thread.add(at[0], 1)};
      });
  thread.synchronizeBlock();
  for (const AllHeadsSums::Sum &own : sums.sums) {
    auto getTo = [&](Index element) {
      Operation *op = own.owner.getDefiningOp();
      if (auto vector = dyn_cast<pos::ElementsOp>(op)) {
        unsigned param = cast<BlockArgument>(vector.getParam()).getArgNumber();
        Value first = arguments.getAddress(*launch.readGradients[param],
                                           {sum, headPlace.batch, 0});
        return kernel.advance(first, {element}, kernel.f64);
      }
      const Hoisted *hoisted = plan.find(cast<pos::HoistOp>(op));
      unsigned tensor = *launch.tableGradients[hoisted - plan.hoisted.data()];
      return arguments.getAddress(tensor, {sum, headPlace.batch, element});
    };
    forShare(thread, sums.ofPoints.dim, own.elements, [&](Value element) {
      Value from = getPlace(thread.add(element, own.first));
      Value total = thread.loadShared(kernel.f32, from);
      for (int64_t warp = 1; warp < sums.warps; ++warp)
        total = kernel.addF(
            total, thread.loadShared(kernel.f32,
                                     thread.advance(from, warp * wordBytes)));
      kernel.addToF64(getTo(kernel.fromI32(element)), total);
    });
  }
}

void AllHeadsGradientPoint::finish(Index sum, ValueRange carried) {
  finishProducts(sum, carried);
  finishSums(sum);
}

//===- PositionSums.cpp - Sums over offsets of given positions ------------===//

#include "codegen/CUDA/Sm80/PositionSums.h"
#include "codegen/CUDA/Sm80/ColumnLoop.h"
#include "codegen/Payload/Payload.h"
#include "codegen/Tables/OffsetRange.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

PositionSums::PositionSums(ThreadBuilder &thread, ArgumentBlock &arguments,
                           FragmentPoint &point, const BackwardOperands &launch,
                           Block &start)
    : thread(thread), kernel(thread.kernel), arguments(arguments), point(point),
      scorePoint(thread, arguments, launch.plan, launch.sites), launch(launch),
      tile(launch.tile), start(start),
      firstRow(WarpPart::get(thread, tile, thread.warp).getRow(thread, tile)) {}

void PositionSums::forEach(int64_t count, function_ref<void(Index)> body) {
  kernel.rolledLoop(0, count, 1, {}, [&](Value number, ValueRange) -> Values {
    body(number);
    return {};
  });
}

void PositionSums::inTurns(int64_t lanes, function_ref<void()> body) {
  forEach(lanes, [&](Index turn) {
    kernel.when(kernel.equal(turn, kernel.fromI32(thread.lane)), body);
    thread.synchronizeWarp();
  });
}

//===----------------------------------------------------------------------===//
// An item and a head
//===----------------------------------------------------------------------===//

/// Where tables do not hold the offsets in use nobody has cleared the sums of
/// parameters.
void PositionSums::enterItem(Index ofBatch, Index ofHeads, Index chunk) {
  batch = ofBatch;
  keyHead = ofHeads;
  part = kernel.add(kernel.mul(chunk, tile.warps), kernel.fromI32(thread.warp));
  if (launch.inPlaceGradients.empty())
    return;
  OffsetRange range(kernel, arguments, *launch.sites.offsetRange);
  kernel.when(
      range.emitHasTables(), [] {},
      [&] {
        for (unsigned tensor : launch.inPlaceGradients) {
          Value sums = arguments.getAddress(tensor, {part, batch, keyHead});
          kernel.loop(kernel.fromI32(thread.lane), arguments.getSize(tensor, 3),
                      warpLanes, [&](Value entry) {
                        kernel.store(kernel.zero(kernel.f64),
                                     kernel.advance(sums, {entry}, kernel.f64));
                      });
        }
      });
  thread.synchronizeWarp();
}

/// Whether tables hold the offsets in use, and whether rows of the warp share
/// a position. Rows that do not exist have a code that no other has, or some
/// other row only by chance: then lanes take turns in vain.
Value PositionSums::findWay(Value exists) {
  Value own = thread.select(
      exists, code, thread.add(thread.constant(INT32_MIN), thread.lane));
  Value isShared = kernel.constantI1(false);
  for (int64_t mask = 1; mask < tile.countWarpRows(); ++mask)
    isShared = kernel.either(
        isShared, arith::CmpIOp::create(kernel.builder, kernel.loc,
                                        arith::CmpIPredicate::eq, own,
                                        thread.shuffleXor(own, mask)));
  Value areNone = arith::CmpIOp::create(
      kernel.builder, kernel.loc, arith::CmpIPredicate::eq,
      thread.ballot(isShared), thread.constant(0));
  auto number = [&](Way one) {
    return thread.constant(static_cast<int64_t>(one));
  };
  Value hasTables =
      OffsetRange(kernel, arguments, *launch.sites.offsetRange).emitHasTables();
  return thread.select(
      hasTables,
      thread.select(areNone, number(Way::AtOnce), number(Way::InTurns)),
      number(Way::InPlace));
}

void PositionSums::enterHead(const HeadNumbers &numbers, Index head,
                             Value firstKey) {
  ofWarps = numbers.ofWarps;
  scorePoint.enterHead(batch, head);
  Value row =
      thread.add(firstRow, thread.rem(thread.lane, tile.countWarpRows()));
  Value key = thread.add(firstKey, row);
  Value length = kernel.toI32(arguments.getSize(launch.sites.key, 2));
  Value known = thread.min(key, thread.add(length, -1));
  code = kernel.load(
      kernel.i32, point.tables.getCode(pos::Side::key, kernel.fromI32(known)));
  Value isOwn = thread.less(key, length);
  if (tile.countWarpRows() < warpLanes)
    isOwn = kernel.both(
        isOwn, thread.less(thread.lane, thread.constant(tile.countWarpRows())));
  way = findWay(isOwn);
}

Value PositionSums::isWay(Way wanted) {
  return kernel.equal(kernel.fromI32(way), static_cast<int64_t>(wanted));
}

//===----------------------------------------------------------------------===//
// A tile
//===----------------------------------------------------------------------===//

/// Address of a word of the warp's, so many behind `own`.
Value PositionSums::getWord(Value own, int64_t word) {
  Value ofWarp =
      thread.mul(thread.warp, SumWords::countGroupWords(tile) * wordBytes);
  Value address =
      thread.getShared(thread.add(ofWarp, thread.mul(own, wordBytes)));
  return thread.advance(
      address, tile.getSums() + wordBytes * (tile.sums.getGroups(tile) + word));
}

/// Cotangents at eight columns, a row after the other, and behind them the
/// codes of the columns.
void PositionSums::storeGroup(ValueRange cotangents, int64_t group) {
  constexpr int64_t words = SumWords::groupRowWords;
  Value column = thread.mul(thread.rem(thread.lane, 4), 2);
  Value own = thread.add(thread.mul(thread.div(thread.lane, 4), words), column);
  for (int64_t rows = 0; rows < tile.countThreadRows(); ++rows) {
    unsigned number = tile.getNumber(rows / 2, group, 2 * (rows % 2));
    int64_t row = FragmentElement::get(rows / 2, 0, 2 * (rows % 2)).row;
    thread.storePair(cotangents[number], cotangents[number + 1],
                     getWord(own, row * words));
  }
  kernel.when(thread.less(thread.lane, thread.constant(4)), [&] {
    for (int64_t half : {0, 1}) {
      point.setElement(FragmentElement::get(0, group, half));
      thread.storeShared(point.getOfRow(pos::Side::query, FragmentPoint::code),
                         getWord(column, tile.countWarpRows() * words + half));
    }
  });
}

/// The cotangents of the lane's row, at eight columns of which no sums are
/// those of two rows.
void PositionSums::addAtOnce(Value sums) {
  constexpr int64_t words = SumWords::groupRowWords, perLoad = 4;
  int64_t rows = tile.countWarpRows();
  auto load = [&](Type type, Value own, int64_t word) {
    Values loaded;
    for (int64_t first = 0; first < fragmentColumns; first += perLoad) {
      Value vector = thread.loadShared(VectorType::get(perLoad, type),
                                       getWord(own, word + first));
      for (int64_t at = 0; at < perLoad; ++at)
        loaded.push_back(LLVM::ExtractElementOp::create(
            kernel.builder, kernel.loc, vector, thread.constant(at)));
    }
    return loaded;
  };
  Value own = thread.mul(thread.rem(thread.lane, rows), words);
  Values cotangents = load(kernel.f32, own, 0);
  Values codes = load(kernel.i32, thread.constant(0), rows * words);
  for (auto [cotangent, ofColumn] : llvm::zip_equal(cotangents, codes)) {
    auto add = [&, addend = cotangent, other = ofColumn] {
      thread.addAtomically(addend, getSum(sums, other));
    };
    if (rows < warpLanes)
      kernel.when(thread.less(thread.lane, thread.constant(rows)), add);
    else
      add();
    thread.synchronizeWarp();
  }
}

/// The same where some are.
void PositionSums::addInTurns(Value sums) {
  constexpr int64_t words = SumWords::groupRowWords;
  int64_t rows = tile.countWarpRows();
  forEach(fragmentColumns, [&](Index number) {
    Value column = kernel.toI32(number);
    Value cotangent = thread.loadShared(
        kernel.f32,
        getWord(thread.add(thread.mul(thread.rem(thread.lane, rows), words),
                           column),
                0));
    Value to = getSum(
        sums, thread.loadShared(kernel.i32, getWord(column, rows * words)));
    inTurns(rows, [&] { thread.addAtomically(cotangent, to); });
  });
}

/// The sum of the lane's row and of a column with such a code.
Value PositionSums::getSum(Value sums, Value ofColumn) {
  return kernel.advance(sums, {kernel.fromI32(thread.sub(code, ofColumn))});
}

void PositionSums::addTile(ValueRange cotangents) {
  for (const Hoisted *hoisted : getSinks()) {
    ValueRange own = cotangents.take_front(tile.countScores());
    cotangents = cotangents.drop_front(tile.countScores());
    Value sums =
        arguments.getAddress(launch.getSums(*hoisted), {0, 0, ofWarps});
    auto addGroups = [&](function_ref<void()> addGroup) {
      for (int64_t group = 0; group < tile.countGroups(); ++group) {
        storeGroup(own, group);
        thread.synchronizeWarp();
        addGroup();
        thread.synchronizeWarp();
      }
    };
    auto addOneByOne = [&] {
      kernel.when(
          isWay(Way::InTurns), [&] { addGroups([&] { addInTurns(sums); }); },
          [&] { addInPlace(hoisted, own); });
    };
    kernel.when(
        isWay(Way::AtOnce), [&] { addGroups([&] { addAtOnce(sums); }); },
        addOneByOne);
  }
}

//===----------------------------------------------------------------------===//
// Where tables do not hold the offsets in use
//===----------------------------------------------------------------------===//

void PositionSums::addToParam(BlockArgument param, ValueRange indices,
                              Value cotangent) {
  unsigned number = param.getArgNumber();
  auto [entry, isInside] = scorePoint.headPlace.findEntry(
      number, indices, scorePoint.batch(kernel.builder),
      [](Value index) { return index; });
  Value inside = isInside;
  Value sums = arguments.getAddress(*launch.readGradients[number],
                                    {part, batch, keyHead});
  Value to = kernel.advance(sums, {entry}, kernel.f64);
  if (llvm::all_of(indices, [&](Value index) { return isOfHead(index); })) {
    kernel.when(inside, [&] { addOfLanes(cotangent, to); });
    return;
  }
  inTurns(warpLanes, [&] {
    kernel.when(inside,
                [&] { thread.addAtomically(kernel.widen(cotangent), to); });
  });
}

/// Whether an index is the same at all scores of a head.
bool PositionSums::isOfHead(Value index) {
  OpBuilder &builder = kernel.builder;
  return index == scorePoint.head(builder) ||
         index == scorePoint.batch(builder) ||
         matchPattern(index, m_Constant());
}

/// Adds what all lanes have to one number.
void PositionSums::addOfLanes(Value addend, Value to) {
  for (int64_t apart = 1; apart < warpLanes; apart *= 2)
    addend = kernel.addF(addend, thread.shuffleXor(addend, apart));
  kernel.when(kernel.equal(kernel.fromI32(thread.lane), 0),
              [&] { thread.addAtomically(kernel.widen(addend), to); });
}

/// Where the point stands. Reads of parameters have sums of their own; values
/// of a head that it is made of have those of the warp.
void PositionSums::pullBack(const Hoisted *hoisted, Value cotangent) {
  auto addRead = [&](BlockArgument param, ValueRange indices, Value value) {
    addToParam(param, indices, value);
  };
  for (auto [other, own] : scorePoint.pullBack(*hoisted, cotangent, addRead)) {
    if (other->form == HoistForm::OffsetTable) {
      pullBack(other, own);
      continue;
    }
    assert(other->form == HoistForm::HeadScalar &&
           "a value over offsets uses none of rows");
    addOfLanes(own,
               arguments.getAddress(launch.getSums(*other), {0, 0, ofWarps}));
  }
}

/// One copy of the pullback stands for all elements of a thread, which are in
/// memory meanwhile.
void PositionSums::addInPlace(const Hoisted *hoisted, ValueRange cotangents) {
  Value memory = reserveNumbers(kernel, tile.countScores(), start);
  for (auto [number, cotangent] : llvm::enumerate(cotangents))
    kernel.store(cotangent, kernel.advance(memory, {Index(number)}));
  point.setElement({});
  Value firstKey = point.getNumber(pos::Side::key);
  Value firstQuery = point.getNumber(pos::Side::query);
  forEach(tile.countScores(), [&](Index own) {
    // See ScoreTile::getNumber and FragmentElement.
    Value number = kernel.toI32(own);
    Value groups = thread.div(number, fragmentElements);
    Value block = thread.div(groups, tile.countGroups());
    Value group = thread.rem(groups, tile.countGroups());
    Value half = thread.rem(thread.div(number, 2), 2);
    Value key = thread.add(firstKey, thread.add(thread.mul(block, fragmentRows),
                                                thread.mul(half, 8)));
    Value query =
        thread.add(firstQuery, thread.add(thread.mul(group, fragmentColumns),
                                          thread.rem(number, 2)));
    Value cotangent = kernel.load(kernel.f32, kernel.advance(memory, {own}));
    scorePoint.standAt(query, key);
    pullBack(hoisted, cotangent);
    thread.synchronizeWarp();
  });
}

//===- FragmentPoint.cpp - Where payloads see an element of a fragment ----===//

#include "codegen/CUDA/Sm80/FragmentPoint.h"
#include "codegen/CUDA/Sm80/WarpPart.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

static Value findPacked(ThreadBuilder &thread, ArgumentBlock &arguments,
                        const FragmentOperands &launch) {
  if (!launch.packs)
    return {};
  return thread.less(thread.constant(1),
                     thread.kernel.toI32(arguments.getScalar(*launch.packs)));
}

static Value findFirstRow(ThreadBuilder &thread, const ScoreTile &tile,
                          Value warp, Value isPacked) {
  Value first = WarpPart::get(thread, tile, warp).getRow(thread, tile);
  return isPacked ? thread.select(isPacked, thread.constant(0), first) : first;
}

/// The first one of a thread. Teams of four threads have a query of a head
/// each, those of one head after the other; the eight rows behind are none's.
static Value findRow(ThreadBuilder &thread, ArgumentBlock &arguments,
                     const FragmentOperands &launch, const ScoreTile &tile,
                     Value isPacked) {
  Value own = thread.div(thread.lane, 4);
  if (!isPacked || !tile.hasTeamsOfRows())
    return thread.add(findFirstRow(thread, tile, thread.warp, isPacked), own);
  KernelBuilder &kernel = thread.kernel;
  Index queries = asShort(kernel, arguments.getSize(launch.sites.query, 2));
  Value query = kernel.toI32(kernel.rem(kernel.fromI32(own), queries));
  return thread.select(isPacked, query, own);
}

FragmentPoint::FragmentPoint(ThreadBuilder &thread, ArgumentBlock &arguments,
                             const FragmentOperands &launch,
                             const ScoreTile &tile)
    : TilePoint(thread.kernel, arguments, launch.plan, launch.sites,
                pos::RowOperand::query),
      isPacked(findPacked(thread, arguments, launch)),
      row(findRow(thread, arguments, launch, tile, isPacked)),
      column(thread.add(
          WarpPart::get(thread, tile, thread.warp).getColumn(thread, tile),
          thread.mul(thread.rem(thread.lane, 4), 2))),
      thread(thread), launch(launch), tile(tile),
      windows(thread, arguments, launch, tile, row, column, isPacked),
      queryLength(kernel.toI32(arguments.getSize(launch.sites.query, 2))),
      keyLength(kernel.toI32(arguments.getSize(launch.sites.key, 2))),
      shift(kernel.toI32(launch.sites.getQueryShift(kernel, arguments))) {
  if (!plan.hasPositions)
    return;
  pos::SitesOwnerInterface owner = plan.owner;
  llvm::SmallSetVector<int64_t, 4> found;
  owner.getSitesRegion().walk([&](Operation *op) {
    if (auto coord = dyn_cast<pos::CoordOp>(op))
      found.insert(coord.getAxis());
    if (auto offset = dyn_cast<pos::OffsetOp>(op))
      found.insert(offset.getAxis());
  });
  if (operands.offsetRange)
    found.insert(code);
  axes = found.takeVector();
}

Value FragmentPoint::getFirstRow(Value warp) {
  return findFirstRow(thread, tile, warp, isPacked);
}

void FragmentPoint::enterRows(Index batch, Index head, Value first,
                              ArrayRef<ChunkPart> others) {
  enterHead(batch, head);
  firstRow = thread.add(first, row);
  windows.enterRows(batch, head, first, others);
  loadOfRows(tile.rowSide, tile.countThreadRows());
  loadRowVectors();
}

void FragmentPoint::enterTile(Value first, Value from) {
  firstColumn = thread.add(first, column);
  windows.enterTile(from);
  loadOfRows(tile.getColumnSide(), tile.countWarpColumns() / 4);
}

void FragmentPoint::shiftColumns(Value columns, function_ref<void()> body) {
  Value first = firstColumn;
  auto known = ofColumns;
  WindowPlaces places = windows.shift(columns);
  firstColumn = thread.add(firstColumn, columns);
  loadOfRows(tile.getColumnSide(), fragmentColumns / 4);
  body();
  firstColumn = first;
  ofColumns = std::move(known);
  windows.restore(places);
}

/// Before payloads ask, wherever they do: of `count` rows or columns.
void FragmentPoint::loadOfRows(pos::Side side, int64_t count) {
  auto &known = side == tile.rowSide ? ofRows : ofColumns;
  known.clear();
  for (int64_t axis : axes)
    for (int64_t number = 0; number < count; ++number) {
      element = side == tile.rowSide
                    ? FragmentElement::get(number / 2, 0, 2 * (number % 2))
                    : FragmentElement::get(0, number / 2, number % 2);
      int64_t step = side == tile.rowSide ? element.row : element.column;
      known[{axis, step}] = loadOfRow(side, axis);
    }
}

/// Rows past the end repeat the last one: no offset lies outside of those in
/// use.
Value FragmentPoint::loadOfRow(pos::Side side, int64_t axis) {
  Value last = thread.add(getLength(side), -1);
  Index row = kernel.fromI32(thread.min(getNumber(side), last));
  return axis == code ? kernel.load(kernel.i32, tables.getCode(side, row))
                      : headPlace.getCoord(side, row, axis);
}

Value FragmentPoint::getOfRow(pos::Side side, int64_t axis) {
  Value known = side == tile.rowSide ? ofRows.lookup({axis, element.row})
                                     : ofColumns.lookup({axis, element.column});
  assert(known && "rows are loaded before payloads ask for them");
  return known;
}

Value FragmentPoint::coord(OpBuilder &builder, pos::Side side, int64_t axis) {
  return plan.hasPositions ? getOfRow(side, axis) : index(builder, side);
}

/// Those of rows past the end are that of the last row. A score of all heads
/// reads values of all of them, where it stands.
void FragmentPoint::loadRowVectors() {
  rowVectors.clear();
  if (plan.scoreHeads)
    return;
  for (const Hoisted &hoisted : plan.hoisted) {
    if (hoisted.form != getVectorForm(tile.rowSide) ||
        hoisted.isEmittedInPlace || !isUsedByScores(plan, hoisted))
      continue;
    for (int64_t number = 0; number < tile.countThreadRows(); ++number) {
      element = FragmentElement::get(number / 2, 0, 2 * (number % 2));
      rowVectors[{&hoisted, element.row}] =
          TilePoint::hoisted(kernel.builder, hoisted.op);
    }
  }
}

//===----------------------------------------------------------------------===//
// Where the element is
//===----------------------------------------------------------------------===//

Value FragmentPoint::getNumber(pos::Side side) {
  return side == tile.rowSide ? thread.add(firstRow, element.row)
                              : thread.add(firstColumn, element.column);
}

Value FragmentPoint::exists(pos::Side side) {
  return thread.less(getNumber(side), getLength(side));
}

Value FragmentPoint::tensorRow(OpBuilder &, pos::Side side) {
  return getNumber(side);
}

Value FragmentPoint::index(OpBuilder &builder, pos::Side side) {
  Value own = getNumber(side);
  return side == pos::Side::key ? own : thread.add(own, shift);
}

//===----------------------------------------------------------------------===//
// Hoisted values
//===----------------------------------------------------------------------===//

Value FragmentPoint::hoisted(OpBuilder &builder, pos::HoistOp op) {
  const Hoisted *hoisted = plan.find(op, operand);
  assert(hoisted && "a point uses a value that the plan does not know");
  if (Value known = rowVectors.lookup({hoisted, element.row}))
    return known;
  if (Value inWindow = windows.load(*hoisted, element))
    return inWindow;
  return TilePoint::hoisted(builder, op);
}

void HingeNumbers::set(pos::HingeSumOp op, ArrayRef<FragmentElement> elements,
                       ValueRange values) {
  for (auto [place, value] : llvm::zip_equal(elements, values))
    numbers[{op, place.row, place.column}] = value;
}

Value HingeNumbers::find(pos::HingeSumOp op,
                         const FragmentElement &element) const {
  Value value = numbers.lookup({op, element.row, element.column});
  assert(value && "functions are evaluated before the payloads that use them");
  return value;
}

Value FragmentPoint::hingeSum(OpBuilder &, pos::HingeSumOp op) {
  return hingeValues.find(op, element);
}

/// What is in no window: conditions, and values over rows before the tiles.
Value FragmentPoint::loadHoisted(const Hoisted &hoisted, unsigned,
                                 Value start) {
  Type type = tables.getStoredType(hoisted);
  auto clamp = [&](pos::Side side) {
    Value last = thread.add(getLength(side), -1);
    return kernel.fromI32(thread.min(getNumber(side), last));
  };
  Index entry = 0;
  switch (hoisted.form) {
  case HoistForm::QueryVector:
    entry = clamp(pos::Side::query);
    break;
  case HoistForm::KeyVector:
    entry = clamp(pos::Side::key);
    break;
  case HoistForm::OffsetTable: {
    if (operands.offsetRange) {
      entry = kernel.fromI32(thread.sub(getOfRow(pos::Side::key, code),
                                        getOfRow(pos::Side::query, code)));
      break;
    }
    Value offset =
        thread.sub(getNumber(pos::Side::key), getNumber(pos::Side::query));
    entry = kernel.add(kernel.fromI32(offset),
                       launch.sites.getFirstOffset(kernel, arguments));
    break;
  }
  case HoistForm::HeadScalar:
  case HoistForm::RowLaneTable:
    llvm_unreachable("a score payload uses no value of this form");
  }
  return tables.load(hoisted, kernel.advance(start, {entry}, type),
                     std::nullopt);
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

bool FragmentPoint::wantsGradient(pos::HoistOp op) {
  const Hoisted *hoisted = plan.find(op, operand);
  return hoisted && hoisted->wantsGradient;
}

void FragmentPoint::addToHoisted(OpBuilder &, pos::HoistOp hoist,
                                 Value cotangent) {
  Value &known = cotangents[hoist];
  known = known ? kernel.addF(known, cotangent) : cotangent;
}

Value FragmentPoint::pullHingeSum(OpBuilder &, pos::HingeSumOp op,
                                  Value cotangent) {
  cotangents[op] = cotangent;
  return kernel.mulF(cotangent, hingeSlopes.find(op, element));
}

bool FragmentPoint::wantsUnits(pos::HingeSumOp op) {
  return plan.hinges[plan.findHinges(op)].wantsGradient;
}

//===- TableWindows.cpp - What a tile reads of tables ---------------------===//
//
// Entry padding + (Lq' - 1 - query) + key of a table over offsets (Ascending)
// is number (queries of the tile - 1 - query in it) + key in it of its window.
// Lq' and the sizes of tiles are multiples of what one copy takes, so a window
// begins at such an entry whatever the lengths.
//
//===----------------------------------------------------------------------===//

#include "codegen/CUDA/Sm80/TableWindows.h"
#include "codegen/CUDA/Sm80/WarpPart.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

TableWindows::TableWindows(ThreadBuilder &thread, ArgumentBlock &arguments,
                           const FragmentOperands &launch,
                           const ScoreTile &tile, Value row, Value column,
                           Value isPacked)
    : thread(thread), kernel(thread.kernel), arguments(arguments),
      launch(launch), tile(tile), row(row), column(column), isPacked(isPacked),
      place(TeamPlace::get(thread, tile)), chunks(thread, tile, isPacked) {
  unsigned side = tile.getColumnSide() == pos::Side::key ? launch.sites.key
                                                         : launch.sites.query;
  columnLength = kernel.toI32(arguments.getSize(side, 2));
}

Value TableWindows::getTable(const Hoisted &hoisted, Index batch, Index head) {
  unsigned table = *launch.sites.tables[&hoisted - launch.plan.hoisted.data()];
  return arguments.getAddress(
      table, {getTableBatch(kernel, arguments, hoisted, table, batch),
              hoisted.perHead ? head : Index(0)});
}

void TableWindows::enterRows(Index batch, Index head, Value firstRow,
                             ArrayRef<ChunkPart> others) {
  columns.clear();
  bool rowsAreKeys = tile.rowSide == pos::Side::key;
  Index rows = kernel.fromI32(firstRow);
  Value count = choose(thread.constant(tile.countWarpRows()),
                       thread.constant(tile.countRows()));
  Index first = rowsAreKeys
                    ? kernel.sub(rows, tile.columns)
                    : kernel.sub(0, kernel.add(rows, kernel.fromI32(count)));
  first = kernel.add(
      kernel.add(first, launch.sites.getFirstOffset(kernel, arguments)), 1);
  SmallVector<ChunkPart> parts(others);
  for (auto [number, hoisted] : llvm::enumerate(launch.windows.offsets))
    parts.push_back({kernel.advance(getTable(*hoisted, batch, head), {first}),
                     /*isBackward=*/rowsAreKeys, tile.getOffsetWindow(number),
                     tile.countOffsetEntries(), tile.countTeamEntries()});
  chunks.enter(parts);
  for (const Hoisted *hoisted : launch.windows.columns)
    columns.push_back(getTable(*hoisted, batch, head));
}

Value TableWindows::choose(Value packed, Value other) {
  return isPacked ? thread.select(isPacked, packed, other) : other;
}

void TableWindows::copyColumns(Value firstColumn, Value to, Value team,
                               const WordCount &count, Value given) {
  for (auto [number, table] : llvm::enumerate(columns))
    copyWords(thread,
              kernel.advance(table, {kernel.fromI32(firstColumn)}, kernel.i32),
              thread.advance(thread.advance(to, tile.getColumnWindow(number)),
                             thread.mul(team, wordBytes * tile.columns)),
              count, given);
}

void TableWindows::copyVectors(Value firstColumn, Value to, bool isWhole) {
  if (columns.empty())
    return;
  Value given = isWhole ? Value() : thread.sub(columnLength, firstColumn);
  auto copyOfBlock = [&] {
    copyColumns(firstColumn, to, thread.constant(0),
                {tile.columns, tile.countThreads(), thread.thread}, given);
  };
  if (!isPacked)
    return copyOfBlock();
  kernel.when(
      isPacked,
      [&] {
        copyColumns(firstColumn, to, place.team,
                    {tile.columns, tile.teamThreads, place.member}, given);
      },
      copyOfBlock);
}

void TableWindows::enterTile(Value from) {
  windows = from;
  loaded.clear();
  block = kernel.builder.getInsertionBlock();
  if (!launch.windows.offsets.empty()) {
    bool rowsAreKeys = tile.rowSide == pos::Side::key;
    Value query = rowsAreKeys ? column : row, key = rowsAreKeys ? row : column;
    int64_t queries = rowsAreKeys ? tile.columns : tile.countRows();
    Value ofTeam = thread.add(thread.mul(place.team, tile.countTeamEntries()),
                              tile.countWarpRows() - 1);
    Value last = choose(ofTeam, thread.constant(queries - 1));
    Value entry = thread.add(thread.sub(last, query), key);
    windowOfOffsets = thread.advance(from, thread.mul(entry, wordBytes));
  }
  if (!columns.empty()) {
    Value ofTeam = thread.add(column, thread.mul(place.team, tile.columns));
    windowOfColumns =
        thread.advance(from, thread.mul(choose(ofTeam, column), wordBytes));
  }
}

WindowPlaces TableWindows::shift(Value count) {
  WindowPlaces before{windowOfOffsets, windowOfColumns};
  loaded.clear();
  block = kernel.builder.getInsertionBlock();
  bool rowsAreKeys = tile.rowSide == pos::Side::key;
  Value bytes = thread.mul(count, wordBytes);
  if (windowOfOffsets)
    windowOfOffsets = thread.advance(
        windowOfOffsets,
        rowsAreKeys ? thread.sub(thread.constant(0), bytes) : bytes);
  if (windowOfColumns)
    windowOfColumns = thread.advance(windowOfColumns, bytes);
  return before;
}

/// What was loaded before may be known no longer where code goes on.
void TableWindows::restore(const WindowPlaces &places) {
  loaded.clear();
  block = kernel.builder.getInsertionBlock();
  windowOfOffsets = places.offsets;
  windowOfColumns = places.columns;
}

std::optional<int64_t> TableWindows::find(const Hoisted &hoisted) const {
  ArrayRef<const Hoisted *> all = hoisted.form == HoistForm::OffsetTable
                                      ? launch.windows.offsets
                                      : launch.windows.columns;
  const auto *found = llvm::find(all, &hoisted);
  if (found == all.end())
    return std::nullopt;
  return found - all.begin();
}

Value TableWindows::loadOfWarp(const Hoisted &hoisted, Value entry) {
  WarpPart part = WarpPart::get(thread, tile, thread.warp);
  Value first = part.getColumn(thread, tile);
  int64_t number = *find(hoisted), bytes = tile.getColumnWindow(number);
  if (hoisted.form == HoistForm::OffsetTable) {
    // The least offset is that of the first key and the last query.
    bool rowsAreKeys = tile.rowSide == pos::Side::key;
    Value ofRows = part.getRow(thread, tile);
    first = rowsAreKeys ? thread.add(thread.sub(ofRows, first),
                                     tile.columns - tile.countWarpColumns())
                        : thread.add(thread.sub(first, ofRows),
                                     tile.countRows() - tile.countWarpRows());
    first = choose(thread.mul(place.team, tile.countTeamEntries()), first);
    bytes = tile.getOffsetWindow(number);
  }
  Value address =
      thread.advance(windows, thread.mul(thread.add(first, entry), wordBytes));
  return thread.loadShared(kernel.f32, thread.advance(address, bytes));
}

Value TableWindows::load(const Hoisted &hoisted,
                         const FragmentElement &element) {
  bool isOffset = hoisted.form == HoistForm::OffsetTable;
  std::optional<int64_t> place = find(hoisted);
  if (!place)
    return {};
  int64_t number = *place;
  int64_t entry = element.column;
  if (isOffset)
    entry = tile.rowSide == pos::Side::key ? element.row - element.column
                                           : element.column - element.row;
  Value known = loaded.lookup({&hoisted, entry});
  if (known)
    return known;
  Value address =
      isOffset
          ? thread.advance(windowOfOffsets,
                           tile.getOffsetWindow(number) + wordBytes * entry)
          : thread.advance(windowOfColumns,
                           tile.getColumnWindow(number) + wordBytes * entry);
  pos::HoistOp op = hoisted.op;
  Value value = thread.loadShared(op->getResult(0).getType(), address);
  if (kernel.builder.getInsertionBlock() == block)
    loaded[{&hoisted, entry}] = value;
  return value;
}

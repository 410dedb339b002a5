//===- TableWindows.cpp - What a tile reads of tables ---------------------===//
//
// Entry padding + (Lq - 1 - query) + key of a table over offsets (Ascending) is
// number (queries of the tile - 1 - query in it) + key in it of its window.
//
//===----------------------------------------------------------------------===//

#include "codegen/CUDA/Sm80/TableWindows.h"
#include "codegen/CUDA/Sm80/SharedRows.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

static constexpr int64_t wordBytes = 4;

TableWindows::TableWindows(ThreadBuilder &thread, ArgumentBlock &arguments,
                           const FragmentOperands &launch,
                           const ScoreTile &tile, Value row, Value column)
    : thread(thread), kernel(thread.kernel), arguments(arguments),
      launch(launch), tile(tile), row(row), column(column) {
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

void TableWindows::enterRows(Index batch, Index head, Value firstRow) {
  offsets.clear();
  columns.clear();
  bool rowsAreKeys = tile.rowSide == pos::Side::key;
  Index rows = kernel.fromI32(firstRow);
  Index first = rowsAreKeys ? kernel.sub(rows, tile.columns)
                            : kernel.sub(0, kernel.add(rows, tile.countRows()));
  first =
      kernel.add(kernel.add(first, arguments.getSize(launch.sites.query, 2)),
                 launch.sites.padding);
  for (const Hoisted *hoisted : launch.windows.offsets)
    offsets.push_back(kernel.advance(getTable(*hoisted, batch, head), {first}));
  for (const Hoisted *hoisted : launch.windows.columns)
    columns.push_back(getTable(*hoisted, batch, head));
}

void TableWindows::copy(Value firstColumn, Value to, bool isWhole) {
  Index first = kernel.fromI32(firstColumn);
  Index offset = tile.rowSide == pos::Side::key ? kernel.sub(0, first) : first;
  Value count = isWhole ? Value() : thread.sub(columnLength, firstColumn);
  for (auto [number, table] : llvm::enumerate(offsets))
    copyWords(thread, kernel.advance(table, {offset}, kernel.i32),
              thread.advance(to, tile.getOffsetWindow(number)),
              {tile.countOffsetEntries(), tile.countThreads()});
  for (auto [number, table] : llvm::enumerate(columns))
    copyWords(thread, kernel.advance(table, {first}, kernel.i32),
              thread.advance(to, tile.getColumnWindow(number)),
              {tile.columns, tile.countThreads()}, count);
}

void TableWindows::enterTile(Value from) {
  loaded.clear();
  block = kernel.builder.getInsertionBlock();
  if (!offsets.empty()) {
    bool rowsAreKeys = tile.rowSide == pos::Side::key;
    Value query = rowsAreKeys ? column : row, key = rowsAreKeys ? row : column;
    int64_t queries = rowsAreKeys ? tile.columns : tile.countRows();
    Value last = thread.constant(queries - 1);
    Value entry = thread.add(thread.sub(last, query), key);
    windowOfOffsets = thread.advance(from, thread.mul(entry, wordBytes));
  }
  if (!columns.empty())
    windowOfColumns = thread.advance(from, thread.mul(column, wordBytes));
}

Value TableWindows::load(const Hoisted &hoisted,
                         const FragmentElement &element) {
  bool isOffset = hoisted.form == HoistForm::OffsetTable;
  ArrayRef<const Hoisted *> all =
      isOffset ? launch.windows.offsets : launch.windows.columns;
  const auto *found = llvm::find(all, &hoisted);
  if (found == all.end())
    return {};
  int64_t number = found - all.begin();
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

//===- TableWindows.cpp - What a tile reads of tables ---------------------===//
//
// Entry padding + (Lq - 1 - query) + key of a table over offsets (Ascending) is
// number (queries - 1 - row) + column of its window.
//
//===----------------------------------------------------------------------===//

#include "codegen/CUDA/Sm80/TableWindows.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

static constexpr int64_t wordBytes = 4;

TableWindows::TableWindows(ThreadBuilder &thread, ArgumentBlock &arguments,
                           const ForwardOperands &launch, Value row,
                           Value column)
    : thread(thread), kernel(thread.kernel), arguments(arguments),
      launch(launch), row(row), column(column),
      keyLength(kernel.toI32(arguments.getSize(launch.sites.key, 2))) {}

Value TableWindows::getTable(const Hoisted &hoisted, Index batch, Index head) {
  unsigned table = *launch.sites.tables[&hoisted - launch.plan.hoisted.data()];
  return arguments.getAddress(
      table, {getTableBatch(kernel, arguments, hoisted, table, batch),
              hoisted.perHead ? head : Index(0)});
}

void TableWindows::enterQueries(Index batch, Index head, Value firstQuery) {
  offsets.clear();
  keys.clear();
  Index end =
      kernel.add(kernel.fromI32(firstQuery), launch.tile.countQueries());
  Index first =
      kernel.add(kernel.sub(arguments.getSize(launch.sites.query, 2), end),
                 launch.sites.padding);
  for (const Hoisted *hoisted : launch.windows.offsets)
    offsets.push_back(kernel.advance(getTable(*hoisted, batch, head), {first}));
  for (const Hoisted *hoisted : launch.windows.keys)
    keys.push_back(getTable(*hoisted, batch, head));
}

/// Those from number `count` on are zero, if one is given.
void TableWindows::copyEntries(Value from, Value to, int64_t entries,
                               Value count) {
  int64_t threads = launch.tile.getBlock().countThreads();
  Value source =
      kernel.advance(from, {kernel.fromI32(thread.thread)}, kernel.i32);
  Value target = thread.advance(to, thread.mul(thread.thread, wordBytes));
  Value whole = thread.constant(wordBytes), none = thread.constant(0);
  for (int64_t before = 0; before < entries; before += threads) {
    Value own = thread.add(thread.thread, before);
    auto copyOne = [&] {
      Value given =
          count ? thread.select(thread.less(own, count), whole, none) : whole;
      thread.copy(thread.advance(target, before * wordBytes),
                  kernel.advance(source, {before}, kernel.i32), wordBytes,
                  given);
    };
    if (before + threads <= entries)
      copyOne();
    else
      kernel.when(thread.less(own, thread.constant(entries)), copyOne);
  }
}

void TableWindows::copy(Value firstKey, Value stage, bool isWhole) {
  Index first = kernel.fromI32(firstKey);
  Value count = isWhole ? Value() : thread.sub(keyLength, firstKey);
  for (auto [number, table] : llvm::enumerate(offsets))
    copyEntries(kernel.advance(table, {first}, kernel.i32),
                thread.advance(stage, launch.tile.getOffsetWindow(number)),
                launch.tile.countOffsetEntries(), /*count=*/{});
  for (auto [number, table] : llvm::enumerate(keys))
    copyEntries(kernel.advance(table, {first}, kernel.i32),
                thread.advance(stage, launch.tile.getKeyWindow(number)),
                launch.tile.keys, count);
}

void TableWindows::enterTile(Value stage) {
  loaded.clear();
  block = kernel.builder.getInsertionBlock();
  if (!offsets.empty()) {
    Value last = thread.constant(launch.tile.countQueries() - 1);
    Value entry = thread.add(thread.sub(last, row), column);
    stageOfOffsets = thread.advance(stage, thread.mul(entry, wordBytes));
  }
  if (!keys.empty())
    stageOfKeys = thread.advance(stage, thread.mul(column, wordBytes));
}

Value TableWindows::load(const Hoisted &hoisted, int64_t rowStep,
                         int64_t columnStep) {
  bool isOffset = hoisted.form == HoistForm::OffsetTable;
  ArrayRef<const Hoisted *> all =
      isOffset ? launch.windows.offsets : launch.windows.keys;
  const auto *found = llvm::find(all, &hoisted);
  if (found == all.end())
    return {};
  int64_t number = found - all.begin();
  int64_t entry = isOffset ? columnStep - rowStep : columnStep;
  Value known = loaded.lookup({&hoisted, entry});
  if (known)
    return known;
  Value address =
      isOffset
          ? thread.advance(stageOfOffsets, launch.tile.getOffsetWindow(number) +
                                               wordBytes * entry)
          : thread.advance(stageOfKeys, launch.tile.getKeyWindow(number) +
                                            wordBytes * entry);
  pos::HoistOp op = hoisted.op;
  Value value = thread.loadShared(op->getResult(0).getType(), address);
  if (kernel.builder.getInsertionBlock() == block)
    loaded[{&hoisted, entry}] = value;
  return value;
}

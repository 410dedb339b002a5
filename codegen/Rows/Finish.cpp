//===- Finish.cpp - From the backward's partial sums to gradients ---------===//
//
// Chunks of key tiles have sums of their own; here they are added in the order
// of the chunks, so that results do not depend on the number of threads.
//
//===----------------------------------------------------------------------===//

#include "codegen/Rows/Finish.h"
#include "codegen/Rows/RowGradients.h"
#include "codegen/Rows/RowPullback.h"
#include "codegen/Rows/RowRegisters.h"
#include "codegen/Rows/RowWords.h"
#include "codegen/Tables/ArgumentPoint.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Rows that an item handles; entries that one of `sum` does.
static constexpr int64_t rowsPerItem = 64, entriesPerItem = 1024;

//===----------------------------------------------------------------------===//
// Rows of an operand
//===----------------------------------------------------------------------===//

namespace {
/// The kernel that finishes rows. Numbers are those of its operands.
struct FinishLaunch {
  const FinishedRows &finished;
  ArrayRef<RowMap> maps;
  Type element;     ///< of the operand
  int64_t dim, row; ///< lanes of the operand, and of a partial sum
  double factor;    ///< of the sums
  unsigned rows = 0, source = 0, target = 0;
  SmallVector<unsigned> unmapped{};
  SiteOperands sites{};
  SmallVector<PartialSum> rowGradients{};

  Index getSharedElements(KernelBuilder &kernel,
                          ArgumentBlock &arguments) const;
  void sumRow(KernelBuilder &kernel, ArgumentBlock &arguments, Value from,
              Value to) const;
  void emitRow(KernelBuilder &kernel, ArgumentBlock &arguments, RowPoint &point,
               Index number, Value scratch) const;

  KernelBuilder::Values
  sumChunks(KernelBuilder &kernel, ArgumentBlock &arguments, int64_t count,
            function_ref<KernelBuilder::Values(Index before)> load) const;
  std::optional<RowWords> findWords(const VectorTarget &target) const;
  bool areWords(const VectorTarget &target) const;
  void emitWords(KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Item &item, Index batch) const;
  bool areRegisters(const VectorTarget &target) const;
  void emitRegisters(KernelBuilder &kernel, ArgumentBlock &arguments,
                     RowPoint &point, const Item &item, Index batch) const;
};
} // namespace

/// How many elements of the batch do not share rows of a gradient that items
/// add to: an item goes through all those whose numbers are equal modulo it.
Index FinishLaunch::getSharedElements(KernelBuilder &kernel,
                                      ArgumentBlock &arguments) const {
  std::optional<Index> elements;
  for (const PartialSum &gradient : rowGradients)
    if (std::optional<Index> own = gradient.getElements(arguments))
      elements = elements
                     ? kernel.select(kernel.equal(*elements, *own), *own, 1)
                     : *own;
  return elements ? *elements : arguments.getSize(target, 0);
}

/// Adds the partial sums of a row up in the order of the chunks.
void FinishLaunch::sumRow(KernelBuilder &kernel, ArgumentBlock &arguments,
                          Value from, Value to) const {
  Index chunks = arguments.getSize(source, 0);
  Index step = arguments.getStride(source, 0);
  kernel.loop(0, row, kernel.width(), [&](Value lane) {
    Value sum = loadSum(kernel, kernel.advance(from, {lane}), chunks, step);
    sum = kernel.mulF(sum, kernel.splatF32(factor));
    kernel.storeVector(sum, to, {lane});
  });
}

/// `count` vectors of all chunks, added up in their order and scaled; `load`
/// gives those of one, all of which are there before the first is added.
KernelBuilder::Values FinishLaunch::sumChunks(
    KernelBuilder &kernel, ArgumentBlock &arguments, int64_t count,
    function_ref<KernelBuilder::Values(Index before)> load) const {
  Index step = arguments.getStride(source, 0);
  auto addChunk = [&](Value chunk, ValueRange sums) -> KernelBuilder::Values {
    KernelBuilder::Values next = load(kernel.mul(chunk, step));
    for (auto [sum, value] : llvm::zip_equal(sums, next))
      value = kernel.addF(sum, value);
    return next;
  };
  KernelBuilder::Values sums(count, kernel.splatF32(0));
  sums = kernel.loop(0, arguments.getSize(source, 0), 1, sums, addChunk);
  for (Value &sum : sums)
    sum = kernel.mulF(sum, kernel.splatF32(factor));
  return sums;
}

void FinishLaunch::emitRow(KernelBuilder &kernel, ArgumentBlock &arguments,
                           RowPoint &point, Index number, Value scratch) const {
  auto [batch, head] = point.getPlace();
  Index at[] = {batch, head, number};
  sumRow(kernel, arguments,
         arguments.getAddress(source, {0, batch, head, number}), scratch);
  RowPullback pullback;
  pullback.tensor = rows;
  pullback.batch = batch;
  pullback.head = head;
  pullback.row = number;
  pullback.dim = dim;
  pullback.maps = maps;
  pullback.point = &point;
  pullback.gradient = scratch;
  pullback.memory = kernel.advance(scratch, {row});
  emitRowPullback(kernel, arguments, pullback, element);
  // Lanes past the dim are nothing.
  Index lanes = llvm::alignTo(dim, kernel.width());
  for (unsigned extra : unmapped)
    kernel.loop(0, arguments.getSize(extra, 0), 1, [&](Value chunk) {
      Value from = arguments.getAddress(extra, {chunk, at[0], at[1], number});
      kernel.loop(0, lanes, kernel.width(), [&](Value lane) {
        kernel.storeVector(kernel.addF(kernel.loadVector(scratch, {lane}),
                                       kernel.loadVector(from, {lane})),
                           scratch, {lane});
      });
    });
  storeRow(kernel, scratch, dim, arguments.getAddress(target, at),
           arguments.getElementType(target));
}

//===----------------------------------------------------------------------===//
// Several rows at a time
//===----------------------------------------------------------------------===//

/// Words of the result; as many elements of a partial sum are one, too.
std::optional<RowWords>
FinishLaunch::findWords(const VectorTarget &target) const {
  Type type = finished.type.getElementType();
  return RowWords::find(target, type, dim, 4 * type.getIntOrFloatBitWidth());
}

/// Whether rows are only summed and rounded, as words on a target that wants
/// them.
bool FinishLaunch::areWords(const VectorTarget &target) const {
  return target.loadsAtOnce > 1 && maps.empty() && unmapped.empty() &&
         findWords(target).has_value();
}

/// The rows of an item, end to end: lane after lane takes a word of the result.
void FinishLaunch::emitWords(KernelBuilder &kernel, ArgumentBlock &arguments,
                             const Item &item, Index batch) const {
  RowWords stored = *findWords(kernel.target);
  int64_t elements = stored.countElements();
  RowWords summed = stored;
  summed.element = kernel.f32;
  summed.bits = 32 * elements;
  int64_t vectors = kernel.target.loadsAtOnce;
  Value from = arguments.getAddress(source, {0, batch, item[1], item[2]});
  Value to = arguments.getAddress(target, {batch, item[1], item[2]});
  Value fromStep = summed.getStride(kernel, arguments, source, 3);
  Value toStep = stored.getStride(kernel, arguments, target, 2);
  Index count = kernel.mul(kernel.sub(item.end(2), item[2]), stored.words);
  Value last = kernel.broadcast(kernel.toI32(kernel.sub(count, 1)));
  auto emitVectors = [&](Value first) {
    KernelBuilder::Values isIn, sources, targets;
    for (int64_t vector = 0; vector < vectors; ++vector) {
      Value number = kernel.lanes(kernel.add(first, vector * kernel.width()));
      isIn.push_back(arith::CmpIOp::create(
          kernel.builder, kernel.loc, arith::CmpIPredicate::sle, number, last));
      number = minLanes(kernel, number, last);
      Value row = divLanes(kernel, number, stored.words);
      Value word = remLanes(kernel, number, stored.words);
      sources.push_back(
          addLanes(kernel, mulLanes(kernel, row, fromStep), word));
      targets.push_back(addLanes(kernel, mulLanes(kernel, row, toStep), word));
    }
    KernelBuilder::Values sums =
        sumChunks(kernel, arguments, vectors * elements, [&](Index before) {
          Value base = kernel.advance(from, {before});
          KernelBuilder::Values words, values;
          for (Value place : sources)
            words.push_back(summed.load(kernel, base, place));
          for (Value own : words)
            llvm::append_range(values, summed.unpack(kernel, own));
          return values;
        });
    for (int64_t vector = 0; vector < vectors; ++vector)
      stored.store(kernel,
                   stored.pack(kernel, ValueRange(sums).slice(vector * elements,
                                                              elements)),
                   to, targets[vector], isIn[vector]);
  };
  kernel.loop(0, count, vectors * kernel.width(), emitVectors);
}

/// Whether rows are pulled back in registers.
bool FinishLaunch::areRegisters(const VectorTarget &target) const {
  return unmapped.empty() && RowRegisters::suit(target, maps);
}

void FinishLaunch::emitRegisters(KernelBuilder &kernel,
                                 ArgumentBlock &arguments, RowPoint &point,
                                 const Item &item, Index batch) const {
  RowRegisters registers(kernel, maps, dim);
  // A row whose gradients are added to a table is handled once.
  bool addsToTables = llvm::any_of(
      rowGradients, [](const PartialSum &sum) { return bool(sum); });
  int64_t together = addsToTables ? 1 : registers.countRows();
  int64_t vectors = registers.countVectors();
  Index last = item.end(2);
  Value step = kernel.broadcast(kernel.toI32(arguments.getStride(rows, 3)));
  kernel.loop(item[2], last, together, [&](Value first) {
    SmallVector<Index> numbers;
    SmallVector<Value> places;
    // Behind the last row that row again.
    for (int64_t number = 0; number < together; ++number) {
      numbers.push_back(
          kernel.min(kernel.add(first, number), kernel.sub(last, 1)));
      places.push_back(
          arguments.getAddress(source, {0, batch, item[1], numbers.back()}));
    }
    KernelBuilder::Values sums =
        sumChunks(kernel, arguments, together * vectors, [&](Index before) {
          KernelBuilder::Values values;
          for (Value place : places)
            for (int64_t vector = 0; vector < vectors; ++vector)
              values.push_back(
                  kernel.loadVector(place, {before, vector * kernel.width()}));
          return values;
        });
    SmallVector<RowRegisters::Values> before, pulled;
    for (Index number : numbers)
      before.push_back(registers.load(
          arguments.getAddress(rows, {batch, item[1], number}), step, element));
    for (int64_t number = 0; number < together; ++number)
      pulled.push_back(registers.pull(
          before[number], ValueRange(sums).slice(number * vectors, vectors),
          point, numbers[number]));
    for (int64_t number = 0; number < together; ++number)
      registers.store(
          pulled[number],
          arguments.getAddress(target, {batch, item[1], numbers[number]}),
          finished.type.getElementType());
  });
}

/// The number of the rows' tensor among the sites of an owner.
static unsigned findRows(const SiteOperands &sites, const FinishedRows &rows,
                         ValueRange values) {
  if (rows.operand == pos::RowOperand::query)
    return sites.query;
  if (rows.operand == pos::RowOperand::key)
    return sites.key;
  return sites.values[llvm::find(values, rows.rows) - values.begin()];
}

Value codegen::launchFinish(const Lowering &lowering, StringRef suffix,
                            const HoistTables &tables, const FinishedRows &rows,
                            ArrayRef<PartialSum> hoistPartials) {
  auto op = cast<pos::AttentionBackwardOp>(lowering.getOp());
  Value result = lowering.allocateLike(rows.rows, rows.type);
  LaunchOperands operands;
  auto source = cast<RankedTensorType>(rows.rows.getType());
  auto partials = cast<RankedTensorType>(rows.partials.getType());
  FinishLaunch finish{
      rows,
      getRowMaps(lowering.plan, rows.operand),
      source.getElementType(),
      source.getDimSize(3),
      partials.getDimSize(4),
      rows.operand == pos::RowOperand::query ? lowering.plan.scale : 1.0};
  finish.source = operands.read(rows.partials);
  for (Value extra : rows.unmapped)
    finish.unmapped.push_back(operands.read(extra));
  finish.sites.query = operands.read(op.getQuery());
  finish.sites.key = operands.read(op.getKey());
  for (Value value : op.getValues())
    finish.sites.values.push_back(operands.read(value));
  finish.rows = findRows(finish.sites, rows, op.getValues());
  finish.sites.append(lowering.plan, tables, operands.layout, operands.reads);
  finish.target = operands.write(result);
  for (auto [hoisted, gradient] :
       llvm::zip_equal(lowering.plan.hoisted, hoistPartials)) {
    finish.rowGradients.emplace_back();
    if (hoisted.form != HoistForm::RowLaneTable ||
        hoisted.operand != rows.operand)
      continue;
    finish.rowGradients.back().tensor = gradient.tensor;
    finish.rowGradients.back().whole = gradient.whole;
    finish.rowGradients.back().addTo(operands);
  }
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(kernel,
                     {finish.getSharedElements(kernel, arguments),
                      arguments.getSize(finish.target, 1),
                      {arguments.getSize(finish.target, 2), rowsPerItem}});
  };
  auto scratchBytes = [&](KernelBuilder &, ArgumentBlock &) {
    return Index(2 * 4 * finish.row);
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value scratch) {
    GradientRowPoint point(kernel, arguments, lowering.plan, finish.sites,
                           rows.operand, finish.rowGradients,
                           /*isPartial=*/true);
    // The batch outside the rows: gradients of a table are summed in its order.
    items.forEach([&](const Item &item) {
      Index last = item.end(2);
      kernel.loop(item[0], arguments.getSize(finish.target, 0),
                  finish.getSharedElements(kernel, arguments),
                  [&](Value batch) {
                    if (finish.areWords(kernel.target))
                      return finish.emitWords(kernel, arguments, item, batch);
                    point.enterHead(batch, item[1]);
                    if (finish.areRegisters(kernel.target))
                      return finish.emitRegisters(kernel, arguments, point,
                                                  item, batch);
                    kernel.loop(item[2], last, 1, [&](Value row) {
                      finish.emitRow(kernel, arguments, point, row, scratch);
                    });
                  });
    });
  };
  operands.launch(lowering, suffix, {items, scratchBytes, run});
  return result;
}

Value sextant::codegen::launchAddRows(const Lowering &lowering,
                                      StringRef suffix, Value rows,
                                      ArrayRef<Value> extras,
                                      RankedTensorType type) {
  int64_t dim = type.getDimSize(3);
  Value result = lowering.allocateLike(rows, type);
  LaunchOperands operands;
  unsigned source = operands.read(rows);
  SmallVector<unsigned> added;
  for (Value extra : extras)
    added.push_back(operands.read(extra));
  unsigned target = operands.write(result);
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(kernel, {arguments.getSize(target, 0),
                              arguments.getSize(target, 1),
                              {arguments.getSize(target, 2), rowsPerItem}});
  };
  auto scratchBytes = [&](KernelBuilder &kernel, ArgumentBlock &) {
    return Index(4 * llvm::alignTo(dim, kernel.width()));
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value scratch) {
    auto emitRow = [&](Index batch, Index head, Index row) {
      Value from = arguments.getAddress(source, {batch, head, row});
      for (int64_t lane = 0; lane < dim; lane += kernel.width()) {
        Value sum =
            kernel.loadPart(kernel.vf32, kernel.advance(from, {lane}),
                            std::min<int64_t>(kernel.width(), dim - lane));
        for (unsigned extra : added) {
          Value more = arguments.getAddress(extra, {0, batch, head, row});
          sum = kernel.addF(sum, kernel.loadVector(more, {lane}));
        }
        kernel.storeVector(sum, scratch, {lane});
      }
      storeRow(kernel, scratch, dim,
               arguments.getAddress(target, {batch, head, row}),
               arguments.getElementType(target));
    };
    items.forEach([&](const Item &item) {
      kernel.loop(item[2], item.end(2), 1,
                  [&](Value row) { emitRow(item[0], item[1], row); });
    });
  };
  operands.launch(lowering, suffix, {items, scratchBytes, run});
  return result;
}

//===----------------------------------------------------------------------===//
// Gradients of hoisted values and of direct reads
//===----------------------------------------------------------------------===//

void codegen::launchSum(const Lowering &lowering, StringRef suffix,
                        Value partials, Value result) {
  LaunchOperands operands;
  unsigned source = operands.read(partials);
  unsigned target = operands.write(result);
  RankedTensorType resultType = operands.layout.tensors[target];
  Type stored = resultType.getElementType();
  Type element = operands.layout.tensors[source].getElementType();

  // Extents of the result: [batch, heads, entries].
  auto getExtents = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    SmallVector<Index> extents{1, 1, 1};
    for (int64_t dim = 0; dim < resultType.getRank(); ++dim) {
      Index &extent = extents[std::min<int64_t>(dim, 2)];
      extent = kernel.mul(extent, arguments.getSize(target, dim));
    }
    return extents;
  };
  auto getItems = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    SmallVector<Index> extents = getExtents(kernel, arguments);
    return ItemSpace(
        kernel, {extents[0],
                 extents[1],
                 {extents[2], kernel.target.countPerItem(entriesPerItem)}});
  };
  auto emitItem = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                      const Item &item) {
    SmallVector<Index> extents = getExtents(kernel, arguments);
    KernelBuilder::Range batches =
        getSummed(kernel, extents[0], item[0], arguments.getSize(source, 1));
    KernelBuilder::Range heads =
        getSummed(kernel, extents[1], item[1], arguments.getSize(source, 2));
    Index chunks = arguments.getSize(source, 0), last = item.end(2);
    Index row = kernel.add(kernel.mul(item[0], extents[1]), item[1]);
    kernel.loop(item[2], last, kernel.width(), [&](Value entry) {
      Index count = kernel.min(kernel.width(), kernel.sub(last, entry));
      auto load = [&](ValueRange at) { // batch, head and chunk
        return loadAddend(
            kernel, VectorType::get(kernel.width(), element),
            arguments.getAddress(source, {at[2], at[0], at[1], entry}), count);
      };
      Value sum = sumLoaded(kernel, {batches, heads, {0, chunks}},
                            kernel.zero(kernel.vf64), load);
      // The result is contiguous: its strides are its extents.
      Index at = kernel.add(kernel.mul(row, extents[2]), entry);
      kernel.storePart(
          stored.isF64() ? sum : kernel.narrow(sum),
          kernel.advance(arguments.getPointer(target), {at}, stored), count);
    });
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value) {
    items.forEach([&](const Item &item) { emitItem(kernel, arguments, item); });
  };
  operands.launch(lowering, suffix, {getItems, noScratch, run});
}

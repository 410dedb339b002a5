//===- OffsetTableRows.cpp - Rows of offsets that a table holds -----------===//
//
// The row of an offset is that of the table at the payload's index, or zeros if
// there is no such row: a product with it is replaced by NaN where it is read.
// The gradient of a row of the table is the sum of those of its offsets.
//
//===----------------------------------------------------------------------===//

#include "codegen/Rows/OffsetPoint.h"
#include "codegen/Tables/ParamSums.h"
#include "codegen/Tables/PayloadCall.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

static constexpr int64_t block = OffsetShape::block;
/// Entries that an item looks at, and blocks whose gradients it sums, at least.
static constexpr int64_t leastEntries = 256, leastBlocks = 4;

namespace {
/// A table [rows, dim], or with `columns` [dim, rows] or [H dim, rows], as an
/// operand of a kernel.
struct OffsetTable {
  OffsetTable(const Lowering &lowering, size_t number, const OffsetShape &shape)
      : product(lowering.plan.offsetProducts[number]), shape(shape) {
    pos::SitesOwnerInterface owner = lowering.plan.owner;
    tensor = owner.getParamOperands()[product.table.param];
  }

  const OffsetProduct &product;
  const OffsetShape &shape;
  Value tensor;
  /// The range whose sums an operand holds, [ranges, the table's sizes].
  std::optional<Index> range;

  Index getSize(ArgumentBlock &arguments, unsigned table, unsigned dim) const {
    return arguments.getSize(table, range ? dim + 1 : dim);
  }
  Index getStride(ArgumentBlock &arguments, unsigned table,
                  unsigned dim) const {
    return arguments.getStride(table, range ? dim + 1 : dim);
  }
  Value getAddress(ArgumentBlock &arguments, unsigned table,
                   ArrayRef<Index> indices) const {
    SmallVector<Index> all(indices);
    if (range)
      all.insert(all.begin(), *range);
    return arguments.getAddress(table, all);
  }
  Index countRows(ArgumentBlock &arguments, unsigned table) const {
    return getSize(arguments, table, product.table.columns ? 1 : 0);
  }
  /// Whether heads share the table.
  Value isShared(KernelBuilder &kernel, ArgumentBlock &arguments,
                 unsigned table) const {
    if (!product.table.columns)
      return kernel.equal(0, 0);
    return kernel.equal(getSize(arguments, table, 0), shape.dim);
  }
  /// Lane 0 of a row of a head, and the elements from lane to lane.
  std::pair<Value, Index> getRow(KernelBuilder &kernel,
                                 ArgumentBlock &arguments, unsigned table,
                                 Index head, Index row) const {
    if (!product.table.columns)
      return {getAddress(arguments, table, {row}),
              getStride(arguments, table, 1)};
    Index part = kernel.select(isShared(kernel, arguments, table), 0,
                               kernel.mul(head, shape.dim));
    return {getAddress(arguments, table, {part, row}),
            getStride(arguments, table, 0)};
  }
  /// Emits the row of the table at the point, which may not exist.
  Index emitIndex(KernelBuilder &kernel, OffsetPoint &point) const {
    llvm::SetVector<Operation *> ops;
    point.collect(product.index, ops);
    PayloadEmitter emitter(kernel.builder, point);
    Value index = callOps(kernel, emitter, ops.getArrayRef(), product.index);
    return index ? kernel.fromI32(index) : Index(0);
  }
  /// Whether the table has the row.
  Value exists(KernelBuilder &kernel, ArgumentBlock &arguments, unsigned table,
               Index row) const {
    return kernel.compare(arith::CmpIPredicate::ult, row,
                          countRows(arguments, table));
  }
};
} // namespace

/// Copies `dim` elements, `step` apart, and fills the row up with zeros.
static void copyRow(KernelBuilder &kernel, Value from, Index step,
                    const OffsetShape &shape, Value to) {
  auto contiguous = [&] {
    for (int64_t lane = 0; lane < shape.row; lane += shape.width) {
      int64_t count = std::clamp<int64_t>(shape.dim - lane, 0, shape.width);
      Value part = count ? kernel.loadPart(kernel.vf32,
                                           kernel.advance(from, {lane}), count)
                         : kernel.splatF32(0.0);
      kernel.storeVector(part, to, {lane});
    }
  };
  auto strided = [&] {
    for (int64_t lane = 0; lane < shape.row; lane += shape.width)
      kernel.storeVector(kernel.splatF32(0.0), to, {lane});
    kernel.loop(0, shape.dim, 1, [&](Value lane) {
      kernel.store(kernel.loadF32(from, {kernel.mul(lane, step)}),
                   kernel.advance(to, {lane}));
    });
  };
  kernel.when(kernel.equal(step, 1), contiguous, strided);
}

Value sextant::codegen::launchTakenRows(const Lowering &lowering, size_t number,
                                        const OffsetShape &shape, Value entries,
                                        Value seen) {
  OffsetTable table(lowering, number, shape);
  LaunchOperands operands;
  unsigned flags = operands.read(seen);
  unsigned source = operands.read(table.tensor);
  PointLayout layout =
      addPointOperands(lowering, operands, [](unsigned) { return false; });
  Value heads = countHeads(lowering, table.product);
  constexpr int64_t dynamic = ShapedType::kDynamic;
  auto type = RankedTensorType::get({dynamic, dynamic, shape.row},
                                    lowering.builder.getF32Type());
  Value result = lowering.allocate(type, {heads, entries, Value()});
  unsigned target = operands.write(result);

  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(kernel, {arguments.getSize(flags, 0)});
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value) {
    OffsetPoint point(kernel, arguments, layout, lowering.plan);
    auto emitEntry = [&](Index entry, Value isSeen) {
      point.moveToEntry(shape, entry, table.product.table.side);
      Index row = table.emitIndex(kernel, point);
      Value isTaken =
          kernel.both(isSeen, table.exists(kernel, arguments, source, row));
      kernel.loop(0, arguments.getSize(target, 0), 1, [&](Value head) {
        Value to = arguments.getAddress(target, {head, entry});
        kernel.when(
            isTaken,
            [&] {
              auto [from, step] =
                  table.getRow(kernel, arguments, source, head, row);
              copyRow(kernel, from, step, shape, to);
            },
            [&] {
              for (int64_t lane = 0; lane < shape.row; lane += shape.width)
                kernel.storeVector(kernel.splatF32(0.0), to, {lane});
            });
      });
    };
    items.forEach([&](const Item &item) {
      Index first = kernel.mul(item[0], block);
      Value isSeen = isBlockSeen(kernel, arguments, flags, item[0]);
      kernel.loop(first, kernel.add(first, block), 1,
                  [&](Value entry) { emitEntry(entry, isSeen); });
    });
  };
  operands.launch(lowering, getOffsetSuffix("rows", number),
                  {items, noScratch, run});
  return result;
}

OffsetEnds OffsetEnds::load(KernelBuilder &kernel, ArgumentBlock &arguments,
                            unsigned ends) {
  auto get = [&](int64_t end) {
    return kernel.fromI32(
        kernel.load(kernel.i32, arguments.getAddress(ends, {end})));
  };
  return {get(0), get(1)};
}

OffsetEnds OffsetEnds::find(KernelBuilder &kernel, ArgumentBlock &arguments,
                            unsigned ofRanges) {
  auto get = [&](Index range, int64_t end) {
    return kernel.fromI32(
        kernel.load(kernel.i32, arguments.getAddress(ofRanges, {range, end})));
  };
  KernelBuilder::Values ends =
      kernel.loop(1, arguments.getSize(ofRanges, 0), 1,
                  {kernel.value(get(0, 0)), kernel.value(get(0, 1))},
                  [&](Value range, ValueRange known) -> KernelBuilder::Values {
                    return {kernel.value(kernel.min(known[0], get(range, 0))),
                            kernel.value(kernel.max(known[1], get(range, 1)))};
                  });
  return {ends[0], ends[1]};
}

void OffsetEnds::store(KernelBuilder &kernel, ArgumentBlock &arguments,
                       unsigned ends, ArrayRef<Index> range) const {
  Index both[] = {low, high};
  for (auto [number, end] : llvm::enumerate(both)) {
    SmallVector<Index> place(range);
    place.push_back(static_cast<int64_t>(number));
    kernel.store(kernel.toI32(end), arguments.getAddress(ends, place));
  }
}

Value sextant::codegen::launchOffsetEnds(const Lowering &lowering,
                                         size_t number,
                                         const OffsetShape &shape,
                                         Value entries) {
  OffsetTable table(lowering, number, shape);
  LaunchOperands operands;
  PointLayout layout =
      addPointOperands(lowering, operands, [](unsigned) { return false; });
  unsigned count = operands.scalar(entries);
  Value result = lowering.allocate(
      RankedTensorType::get({ShapedType::kDynamic, 2},
                            lowering.builder.getI32Type()),
      {countRanges(lowering, entries, leastEntries), Value()});
  unsigned target = operands.write(result);
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(kernel, {arguments.getSize(target, 0)});
  };
  auto emit = [&](KernelBuilder &kernel, ArgumentBlock &arguments, Index item) {
    OffsetPoint point(kernel, arguments, layout, lowering.plan);
    Index all = arguments.getScalar(count);
    auto getIndex = [&](Index entry) {
      point.moveToEntry(shape, entry, table.product.table.side);
      return table.emitIndex(kernel, point);
    };
    Index first = getIndex(0), last = getIndex(kernel.sub(all, 1));
    auto begin = [&](Index number) {
      return getRangeBegin(kernel, number, arguments.getSize(target, 0), all,
                           1);
    };
    KernelBuilder::Values ends = kernel.loop(
        begin(item), begin(kernel.add(item, 1)), 1,
        {kernel.value(all), kernel.constantI64(0)},
        [&](Value entry, ValueRange known) -> KernelBuilder::Values {
          Index index = getIndex(entry), low = known[0], high = known[1];
          Index next = kernel.add(entry, 1);
          return {kernel.value(kernel.select(kernel.equal(index, first), low,
                                             kernel.min(low, entry))),
                  kernel.value(
                      kernel.select(kernel.equal(index, last), high, next))};
        });
    OffsetEnds{ends[0], ends[1]}.store(kernel, arguments, target, {item});
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value) {
    items.forEach([&](const Item &item) { emit(kernel, arguments, item[0]); });
  };
  operands.launch(lowering, getOffsetSuffix("ends", number),
                  {items, noScratch, run});
  return result;
}

void sextant::codegen::launchTakenPullback(const Lowering &lowering,
                                           size_t number,
                                           const OffsetShape &shape, Value seen,
                                           Value rows, ParamSums &params) {
  OffsetTable table(lowering, number, shape);
  unsigned param = table.product.table.param;
  LaunchOperands operands;
  unsigned flags = operands.read(seen);
  unsigned source = operands.read(rows);
  PointLayout layout =
      addPointOperands(lowering, operands, [](unsigned) { return false; });
  Value ranges =
      params.countRanges(lowering.getDim(seen, 0), leastBlocks, {param});
  unsigned target = operands.write(params.addRanges(param, ranges));
  int64_t vectors = llvm::divideCeil(shape.dim, shape.width);

  // Heads that share a table are one item, in order; a vector of lanes each.
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    table.range = Index(0);
    Index parts = kernel.select(table.isShared(kernel, arguments, target), 1,
                                arguments.getSize(source, 0));
    return ItemSpace(kernel,
                     {parts, Index(vectors), arguments.getSize(target, 0)});
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value) {
    OffsetPoint point(kernel, arguments, layout, lowering.plan);
    auto addEntry = [&](Index head, Index first, Index entry) {
      point.moveToEntry(shape, entry, table.product.table.side);
      Index row = table.emitIndex(kernel, point);
      kernel.when(table.exists(kernel, arguments, target, row), [&] {
        auto [to, step] = table.getRow(kernel, arguments, target, head, row);
        Value base = to;
        Index apart = step;
        Value from = arguments.getAddress(source, {head, entry, first});
        Index count = kernel.min(shape.width, kernel.sub(shape.dim, first));
        kernel.loop(0, count, 1, [&](Value lane) {
          Index place = kernel.mul(kernel.add(first, lane), apart);
          kernel.addToF64(kernel.advance(base, {place}, kernel.f64),
                          kernel.loadF32(from, {lane}));
        });
      });
    };
    items.forEach([&](const Item &item) {
      Index first = kernel.mul(item[1], shape.width);
      table.range = item[2];
      auto begin = [&](Index number) {
        return getRangeBegin(kernel, number, arguments.getSize(target, 0),
                             arguments.getSize(flags, 0), 1);
      };
      Index firstBlock = begin(item[2]), end = begin(kernel.add(item[2], 1));
      Index last =
          kernel.select(table.isShared(kernel, arguments, target),
                        arguments.getSize(source, 0), kernel.add(item[0], 1));
      kernel.loop(item[0], last, 1, [&](Value head) {
        kernel.loop(firstBlock, end, 1, [&](Value number) {
          Index entry = kernel.mul(number, block);
          kernel.when(isBlockSeen(kernel, arguments, flags, number), [&] {
            kernel.loop(entry, kernel.add(entry, block), 1,
                        [&](Value at) { addEntry(head, first, at); });
          });
        });
      });
    });
  };
  operands.launch(lowering, getOffsetSuffix("table", number),
                  {items, noScratch, run});
}

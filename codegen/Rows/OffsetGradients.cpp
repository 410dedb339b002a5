//===- OffsetGradients.cpp - Gradients of one row per offset --------------===//
//
// The gradients of the rows, summed over chunks and batch, times the factors
// are those of the table. Sums over entries are f32 inside of a span and f64
// from span to span, in order: the same for any number of threads.
//
//===----------------------------------------------------------------------===//

#include "codegen/Rows/OffsetPoint.h"
#include "codegen/Rows/OffsetProducts.h"
#include "codegen/Tables/ArgumentPoint.h"
#include "codegen/Tables/ParamSums.h"
#include "codegen/Tiles/RegisterTile.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// Blocks of entries whose sums are f32.
static constexpr int64_t blocksOfSpan = 8;
/// Rows that an item sums at least.
static constexpr int64_t leastRows = 256;
static constexpr int64_t block = OffsetShape::block;

//===----------------------------------------------------------------------===//
// Sums of rows
//===----------------------------------------------------------------------===//

/// [chunks, B, H, entries, row] becomes [H, entries, row], in seen blocks.
static Value launchSumOfPartials(const Lowering &lowering, StringRef suffix,
                                 const OffsetShape &shape, Value seen,
                                 Value partials) {
  LaunchOperands operands;
  unsigned flags = operands.read(seen);
  unsigned source = operands.read(partials);
  auto type = RankedTensorType::get(
      {ShapedType::kDynamic, ShapedType::kDynamic, shape.row},
      lowering.builder.getF32Type());
  Value result =
      lowering.allocate(type, {lowering.getDim(partials, 2),
                               lowering.getDim(partials, 3), Value()});
  unsigned target = operands.write(result);
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(kernel, {arguments.getSize(target, 0),
                              {arguments.getSize(target, 1), block}});
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value) {
    Index chunks = arguments.getSize(source, 0);
    Index batches = arguments.getSize(source, 1);
    auto sumBlock = [&](const Item &item) {
      Value to = arguments.getAddress(target, {item[0], item[1]});
      kernel.loop(0, block * shape.row, kernel.width(), [&](Value lane) {
        auto load = [&](ValueRange at) {
          return kernel.loadVector(
              arguments.getAddress(source, {at[0], at[1], item[0], item[1]}),
              {lane});
        };
        Value sum = sumLoaded(kernel, {{0, chunks}, {0, batches}},
                              kernel.zero(kernel.vf64), load);
        kernel.storeVector(kernel.narrow(sum), to, {lane});
      });
    };
    items.forEach([&](const Item &item) {
      kernel.when(
          isBlockSeen(kernel, arguments, flags, kernel.div(item[1], block)),
          [&] { sumBlock(item); });
    });
  };
  operands.launch(lowering, suffix, {items, noScratch, run});
  return result;
}

void sextant::codegen::launchRowSum(const Lowering &lowering, StringRef suffix,
                                    Value rows, ParamSums &params,
                                    unsigned param) {
  LaunchOperands operands;
  unsigned source = operands.read(rows);
  Value ranges =
      params.countRanges(lowering.getDim(rows, 3), leastRows, {param});
  unsigned target = operands.write(params.addRanges(param, ranges));
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(
        kernel, {arguments.getSize(target, 1), arguments.getSize(target, 0)});
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value) {
    Index lanes = arguments.getSize(target, 2);
    auto begin = [&](Index number) {
      return getRangeBegin(kernel, number, arguments.getSize(target, 0),
                           arguments.getSize(source, 3), 1);
    };
    items.forEach([&](const Item &item) {
      Index first = begin(item[1]), end = begin(kernel.add(item[1], 1));
      kernel.loop(0, lanes, kernel.width(), [&](Value lane) {
        // Every row is padded to whole vectors.
        auto load = [&](ValueRange at) {
          return kernel.loadVector(arguments.getAddress(
              source, {at[0], at[1], item[0], at[2], lane}));
        };
        Value sum = sumLoaded(kernel,
                              {{0, arguments.getSize(source, 0)},
                               {0, arguments.getSize(source, 1)},
                               {first, end}},
                              kernel.zero(kernel.vf64), load);
        Index count = kernel.min(kernel.width(), kernel.sub(lanes, lane));
        kernel.storePart(
            sum, arguments.getAddress(target, {item[1], item[0], lane}), count);
      });
    });
  };
  operands.launch(lowering, suffix, {items, noScratch, run});
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

namespace {
/// Operands of the product of gradients of rows and factors.
struct TableProduct {
  OffsetShape shape;
  unsigned seen = 0, factors = 0, rows = 0, target = 0;

  /// Lanes of a row, whole register tiles of them.
  int64_t countRows() const { return llvm::alignTo(shape.dim, shape.tileRows); }
  /// Words of sums [rows][lanes]: f32 of a span and f64 of all entries.
  int64_t countSums() const { return countRows() * shape.lanes; }

  /// `item`: head, panel and range.
  void emitItem(KernelBuilder &kernel, ArgumentBlock &arguments,
                ArrayRef<Index> item, Value wide, Value narrow) const;
  void addBlock(KernelBuilder &kernel, ArgumentBlock &arguments, Index head,
                Index panel, Index number, Value sums) const;
  void addToTable(KernelBuilder &kernel, ArgumentBlock &arguments,
                  ArrayRef<Index> item, Value sums) const;
  Value isShared(KernelBuilder &kernel, ArgumentBlock &arguments) const {
    return kernel.equal(arguments.getSize(target, 1), shape.dim);
  }
};
} // namespace

/// sums += all lanes of the rows times a panel of columns, over a block of
/// entries.
void TableProduct::addBlock(KernelBuilder &kernel, ArgumentBlock &arguments,
                            Index head, Index panel, Index number,
                            Value sums) const {
  Index entry = kernel.mul(number, block);
  kernel.loop(0, countRows(), shape.tileRows, [&](Value lane) {
    Value from = arguments.getAddress(rows, {head, entry, lane});
    Value to = kernel.advance(sums, {kernel.mul(lane, shape.lanes)});
    SmallVector<TileRow> tileRows;
    Values initial;
    for (int64_t r = 0; r < shape.tileRows; ++r) {
      tileRows.push_back({from, r});
      for (int64_t v = 0; v < 2; ++v)
        initial.push_back(
            kernel.loadVector(to, {r * shape.lanes + v * kernel.width()}));
    }
    RegisterTile tile;
    tile.rows = tileRows;
    tile.rowStep = shape.row;
    tile.base = arguments.getAddress(factors, {panel, entry});
    tile.vectorStep = shape.lanes;
    tile.count = block;
    Values results = emitTile(kernel, tile, initial);
    for (int64_t r = 0; r < shape.tileRows; ++r)
      for (int64_t v = 0; v < 2; ++v)
        kernel.storeVector(results[2 * r + v], to,
                           {r * shape.lanes + v * kernel.width()});
  });
}

/// table[range][part + row][panel] += sums[row].
void TableProduct::addToTable(KernelBuilder &kernel, ArgumentBlock &arguments,
                              ArrayRef<Index> item, Value sums) const {
  Index part = kernel.select(isShared(kernel, arguments), 0,
                             kernel.mul(item[0], shape.dim));
  Index first = kernel.mul(item[1], shape.lanes);
  Index count =
      kernel.min(shape.lanes, kernel.sub(arguments.getSize(target, 2), first));
  kernel.loop(0, shape.dim, 1, [&](Value row) {
    Value to =
        arguments.getAddress(target, {item[2], kernel.add(part, row), first});
    Index step = arguments.getStride(target, 2);
    kernel.loop(0, count, 1, [&](Value column) {
      Value from = kernel.advance(sums, {kernel.mul(row, shape.lanes), column},
                                  kernel.f64);
      kernel.addToF64(
          kernel.advance(to, {kernel.mul(column, step)}, kernel.f64),
          kernel.load(kernel.f64, from));
    });
  });
}

void TableProduct::emitItem(KernelBuilder &kernel, ArgumentBlock &arguments,
                            ArrayRef<Index> item, Value wide,
                            Value narrow) const {
  Value zero = kernel.zero(kernel.vf64);
  auto eachVector = [&](function_ref<void(Value, Value)> body) {
    kernel.loop(0, countSums(), kernel.width(), [&](Value lane) {
      body(kernel.advance(wide, {lane}, kernel.f64),
           kernel.advance(narrow, {lane}));
    });
  };
  eachVector([&](Value at, Value) { kernel.store(zero, at); });
  auto begin = [&](Index number) {
    return getRangeBegin(kernel, number, arguments.getSize(target, 0),
                         arguments.getSize(seen, 0), blocksOfSpan);
  };
  Index blocks = begin(kernel.add(item[2], 1));
  kernel.loop(begin(item[2]), blocks, blocksOfSpan, [&](Value first) {
    eachVector(
        [&](Value, Value at) { kernel.storeVector(kernel.splatF32(0.0), at); });
    Index last = kernel.min(kernel.add(first, blocksOfSpan), blocks);
    kernel.loop(first, last, 1, [&](Value number) {
      kernel.when(isBlockSeen(kernel, arguments, seen, number), [&] {
        addBlock(kernel, arguments, item[0], item[1], number, narrow);
      });
    });
    eachVector([&](Value to, Value from) {
      kernel.addToF64(to, kernel.loadVector(from));
    });
  });
  addToTable(kernel, arguments, item, wide);
}

void sextant::codegen::launchOffsetPullback(const Lowering &lowering,
                                            size_t number,
                                            const OffsetRows &made,
                                            Value partials, ParamSums &params) {
  auto query = cast<RankedTensorType>(
      getOwnerOperands(lowering.plan.owner).query.getType());
  OffsetShape shape(lowering.target, query.getDimSize(3));
  std::string suffix = getOffsetSuffix("sum", number);
  Value summed =
      launchSumOfPartials(lowering, suffix, shape, made.seen, partials);
  if (lowering.plan.offsetProducts[number].index)
    return launchTakenPullback(lowering, number, shape, made.seen, summed,
                               params);
  unsigned param = lowering.plan.offsetProducts[number].table.param;
  Value ranges =
      params.countRanges(lowering.getDim(made.seen, 0), blocksOfSpan, {param});
  LaunchOperands operands;
  TableProduct task{shape};
  task.seen = operands.read(made.seen);
  task.factors = operands.read(made.factors);
  task.rows = operands.read(summed);
  task.target = operands.write(params.addRanges(param, ranges));
  // Heads that share a table are one item, in order.
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    Index parts = kernel.select(task.isShared(kernel, arguments), 1,
                                arguments.getSize(task.rows, 0));
    // Panels first: threads work on neighbouring ones of a head.
    return ItemSpace(kernel, {parts, arguments.getSize(task.factors, 0),
                              arguments.getSize(task.target, 0)});
  };
  auto scratchBytes = [&](KernelBuilder &, ArgumentBlock &) {
    return Index((8 + 4) * task.countSums());
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value scratch) {
    Index heads = arguments.getSize(task.rows, 0);
    Value isShared = task.isShared(kernel, arguments);
    Value narrow = kernel.advance(scratch, {task.countSums()}, kernel.f64);
    items.forEach([&](const Item &item) {
      Index last = kernel.select(isShared, heads, kernel.add(item[0], 1));
      kernel.loop(item[0], last, 1, [&](Value head) {
        task.emitItem(kernel, arguments, {head, item[1], item[2]}, scratch,
                      narrow);
      });
    });
  };
  operands.launch(lowering, getOffsetSuffix("table", number),
                  {items, scratchBytes, run});
}

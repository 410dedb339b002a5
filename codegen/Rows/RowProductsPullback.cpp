//===- RowProductsPullback.cpp - Gradients of row products ----------------===//

#include "codegen/Rows/RowProductLaunch.h"
#include "codegen/Tables/ArgumentPoint.h"
#include "codegen/Tables/ParamSums.h"
#include "codegen/Tiles/RegisterTile.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// table[...] (f64) += the sum of partial sums [batch and ranges, H, padded
/// table rows, row], over all and, unless each head has its part, over heads.
static void launchTableSum(const Lowering &lowering, StringRef suffix,
                           const RowProducts &products, Value partials,
                           Value table) {
  LaunchOperands operands;
  unsigned source = operands.read(partials);
  RowProductLaunch task(products, lowering.target.width);
  task.table = operands.write(table);
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(kernel,
                     {arguments.getSize(task.table, task.columns ? 1 : 0)});
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value) {
    Index batch = arguments.getSize(source, 0);
    Index heads = arguments.getSize(source, 1);
    Value hasParts = kernel.constantI1(false);
    if (task.columns)
      hasParts = kernel.differ(arguments.getSize(task.table, 0), task.dim);
    Index parts = kernel.select(hasParts, heads, 1);
    items.forEach([&](const Item &item) {
      kernel.loop(0, parts, 1, [&](Value part) {
        Index high = kernel.select(hasParts, kernel.add(part, 1), heads);
        kernel.loop(0, task.dim, 1, [&](Value lane) {
          Value at =
              task.getTableElement(kernel, arguments, part, item[0], lane);
          auto load = [&](ValueRange from) {
            return kernel.loadF32(arguments.getAddress(
                source, {from[0], from[1], item[0], lane}));
          };
          kernel.store(sumOver(kernel, {{0, batch}, {part, high}},
                               kernel.load(kernel.f64, at), load),
                       at);
        });
      });
    });
  };
  operands.launch(lowering, suffix, {items, noScratch, run});
}

static constexpr int64_t unit = productRowUnit, tileRows = 8;

namespace {
/// Entries of rows that are `stride` apart.
struct Entries {
  Index stride;
  KernelBuilder::Range used;
};
} // namespace

/// gradient[row][lanes] += sums[row][entries] table[entries][lanes], of a unit
/// of rows.
static void addToRowGradient(KernelBuilder &kernel,
                             const RowProductLaunch &task, Value sums,
                             const Entries &entries, Value table,
                             Value gradient) {
  RegisterTile tile;
  tile.base = kernel.advance(table, {kernel.mul(entries.used.low, task.row)});
  tile.vectorStep = task.row;
  tile.vectors = 1;
  tile.count = kernel.sub(entries.used.high, entries.used.low);
  tile.isWhole = true;
  kernel.loop(0, unit, tileRows, [&](Value row) {
    SmallVector<TileRow> group;
    for (int64_t r = 0; r < tileRows; ++r)
      group.push_back(
          {kernel.advance(sums, {kernel.mul(kernel.add(row, r), entries.stride),
                                 entries.used.low})});
    tile.rows = group;
    addRows(kernel, tile, kernel.advance(gradient, {kernel.mul(row, task.row)}),
            task.row);
  });
}

/// gradient[entry][lanes] += sums[rows][entry] rows[rows][lanes], likewise.
static void addToTableGradient(KernelBuilder &kernel,
                               const RowProductLaunch &task, Value sums,
                               const Entries &entries, Value rows,
                               Value gradient) {
  RegisterTile tile;
  tile.rowStep = entries.stride;
  tile.base = rows;
  tile.vectorStep = task.row;
  tile.vectors = 1;
  tile.count = unit;
  tile.isWhole = true;
  kernel.loop(entries.used.low, entries.used.high, tileRows, [&](Value entry) {
    SmallVector<TileRow> group;
    for (int64_t r = 0; r < tileRows; ++r)
      group.push_back({kernel.advance(sums, {entry}), r});
    tile.rows = group;
    addRows(kernel, tile,
            kernel.advance(gradient, {kernel.mul(entry, task.row)}), task.row);
  });
}

namespace {
/// Partial sums of the gradients of products.
struct ProductSums {
  ProductLayout layout;
  unsigned tensor = 0;

  bool hasLanes() const { return layout == ProductLayout::Lanes; }
  Index countRows(KernelBuilder &kernel, ArgumentBlock &arguments) const {
    Index rows = arguments.getSize(tensor, 3);
    return hasLanes() ? kernel.mul(rows, kernel.width()) : rows;
  }
  /// Rows first .. first + productRowUnit - 1 of a head to `to`, row by row:
  /// the sums over the chunks, in order.
  void sum(KernelBuilder &kernel, ArgumentBlock &arguments, Index batch,
           Index head, Index first, const Entries &entries, Value to) const;
};
} // namespace

void ProductSums::sum(KernelBuilder &kernel, ArgumentBlock &arguments,
                      Index batch, Index head, Index first,
                      const Entries &entries, Value to) const {
  int64_t width = kernel.width();
  Index step = arguments.getStride(tensor, 0);
  Value from = arguments.getAddress(
      tensor, {0, batch, head, hasLanes() ? kernel.div(first, width) : first});
  auto load = [&](Index start, Index lane) {
    return loadSum(kernel, kernel.advance(from, {start, lane}),
                   arguments.getSize(tensor, 0), step);
  };
  kernel.loop(0, productRowUnit, hasLanes() ? width : 1, [&](Value row) {
    Index start = kernel.mul(row, entries.stride);
    kernel.loop(entries.used.low, entries.used.high, width, [&](Value entry) {
      if (!hasLanes())
        return kernel.storeVector(load(start, entry), to, {start, entry});
      SmallVector<Value> square;
      for (int64_t e = 0; e < width; ++e)
        square.push_back(load(start, kernel.mul(kernel.add(entry, e), width)));
      square = kernel.transpose(square);
      for (int64_t r = 0; r < width; ++r)
        kernel.storeVector(square[r], to,
                           {start, kernel.mul(entries.stride, r), entry});
    });
  });
}

/// Into how many ranges to cut the rows of each head. Each has sums of the
/// table, so that there are fewer where there are many heads.
static Value countRowRanges(const Lowering &lowering,
                            const RowProducts &products) {
  constexpr int64_t leastRows = 256, mostItems = 256;
  OpBuilder &builder = lowering.builder;
  Location loc = lowering.getLoc();
  Value one = arith::ConstantIndexOp::create(builder, loc, 1);
  Value heads =
      arith::MulIOp::create(builder, loc, lowering.getDim(products.rows, 0),
                            lowering.getDim(products.rows, 1));
  heads = arith::MaxSIOp::create(builder, loc, heads, one);
  Value most = arith::DivSIOp::create(
      builder, loc, arith::ConstantIndexOp::create(builder, loc, mostItems),
      heads);
  most = arith::MaxSIOp::create(builder, loc, most, one);
  return arith::MinSIOp::create(
      builder, loc,
      countRanges(lowering, lowering.getDim(products.rows, 2), leastRows),
      most);
}

void sextant::codegen::launchRowProductsPullback(
    const Lowering &lowering, StringRef suffix, const RowProducts &products,
    ProductLayout layout, Value partials, Value rowGradient,
    Value tableGradient) {
  LaunchOperands operands;
  RowProductLaunch task(products, lowering.target.width);
  task.addReads(products, operands);
  unsigned source = operands.read(partials);
  ProductSums gradients{layout, source};
  Value ranges = countRowRanges(lowering, products);
  unsigned rangeCount = operands.scalar(ranges);
  unsigned rowTarget = 0, tableTarget = 0;
  Value tablePartials;
  if (rowGradient)
    rowTarget = operands.write(rowGradient);
  if (tableGradient) {
    SmallVector<int64_t> shape(3, ShapedType::kDynamic);
    shape.push_back(task.row);
    tablePartials = lowering.allocate(
        RankedTensorType::get(shape, lowering.builder.getF32Type()),
        {arith::MulIOp::create(lowering.builder, lowering.getLoc(), ranges,
                               lowering.getDim(products.rows, 0)),
         lowering.getDim(products.rows, 1), products.padTableRows(lowering),
         Value()},
        /*zero=*/true);
    tableTarget = operands.write(tablePartials);
  }

  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(kernel, {arguments.getSize(source, 1),
                              arguments.getSize(source, 2),
                              arguments.getScalar(rangeCount)});
  };
  auto scratchBytes = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    Index perEntry = unit + task.row;
    return kernel.mul(
        kernel.add(kernel.mul(arguments.getSize(source, 4), perEntry),
                   unit * task.row),
        4);
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value scratch) {
    Index stride = arguments.getSize(source, 4);
    Entries entries{stride, task.getUsed(kernel, arguments, stride)};
    Value sums = scratch;
    Value table = kernel.advance(sums, {kernel.mul(stride, unit)});
    Value rows = kernel.advance(table, {kernel.mul(stride, task.row)});
    auto emitBlock = [&](Index batch, Index head, Index part, Index first) {
      gradients.sum(kernel, arguments, batch, head, first, entries, sums);
      if (rowGradient)
        addToRowGradient(
            kernel, task, sums, entries, table,
            arguments.getAddress(rowTarget, {0, batch, head, first}));
      if (!tableGradient)
        return;
      task.copyRows(kernel, arguments, batch, head, first, unit, rows);
      addToTableGradient(kernel, task, sums, entries, rows,
                         arguments.getAddress(tableTarget, {part, head}));
    };
    items.forEach([&](const Item &item) {
      // Lanes past the dim are read by whole vectors.
      kernel.clear(table, kernel.mul(stride, task.row));
      task.copyTable(kernel, arguments, item[1], stride, table);
      Index count = arguments.getScalar(rangeCount);
      Index part = kernel.add(kernel.mul(item[0], count), item[2]);
      auto begin = [&](Index number) {
        return getRangeBegin(kernel, number, count,
                             gradients.countRows(kernel, arguments), unit);
      };
      kernel.loop(
          begin(item[2]), begin(kernel.add(item[2], 1)), unit,
          [&](Value first) { emitBlock(item[0], item[1], part, first); });
    });
  };
  operands.launch(lowering, suffix, {items, scratchBytes, run});
  if (tableGradient)
    launchTableSum(lowering, (suffix + "_table").str(), products, tablePartials,
                   tableGradient);
}

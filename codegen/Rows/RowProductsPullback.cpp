//===- RowProductsPullback.cpp - Gradients of row products ----------------===//

#include "codegen/Rows/ProductKernel.h"
#include "codegen/Tables/ArgumentPoint.h"
#include "codegen/Tiles/RegisterTile.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// table[...] (f64) += the sum of partial sums [B, H, padded table rows, row],
/// over the batch and, unless each head has its part, over heads.
static void launchTableSum(const Lowering &lowering, StringRef suffix,
                           const RowProducts &products, Value partials,
                           Value table) {
  LaunchOperands operands;
  unsigned source = operands.read(partials);
  ProductKernel task(products, lowering.target.width);
  task.table = operands.write(table);
  auto countItems = [&](KernelBuilder &, ArgumentBlock &arguments) {
    return arguments.getSize(task.table, task.columns ? 1 : 0);
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments, Index begin,
                 Index end, Value) {
    Type f64 = kernel.builder.getF64Type();
    Index batch = arguments.getSize(source, 0);
    Index heads = arguments.getSize(source, 1);
    Value hasParts = kernel.constant(kernel.builder.getBoolAttr(false));
    if (task.columns)
      hasParts = kernel.compare(arith::CmpIPredicate::ne,
                                arguments.getSize(task.table, 0), task.dim);
    Index parts = kernel.select(hasParts, heads, 1);
    kernel.loop(begin, end, 1, [&](Value tableRow) {
      kernel.loop(0, parts, 1, [&](Value part) {
        Index high = kernel.select(hasParts, kernel.add(part, 1), heads);
        kernel.loop(0, task.dim, 1, [&](Value lane) {
          Value at =
              task.getTableElement(kernel, arguments, part, tableRow, lane);
          auto widen = [&](Value value) -> Value {
            return arith::ExtFOp::create(kernel.builder, kernel.loc, f64,
                                         value);
          };
          Values sum{kernel.load(f64, at)};
          sum = kernel.loop(0, batch, 1, sum, [&](Value b, ValueRange sums) {
            return kernel.loop(
                part, high, 1, sums, [&](Value h, ValueRange now) -> Values {
                  Value addend = kernel.load(
                      kernel.f32,
                      arguments.getAddress(source, {b, h, tableRow, lane}));
                  return {arith::AddFOp::create(kernel.builder, kernel.loc,
                                                now[0], widen(addend))};
                });
          });
          kernel.store(sum[0], at);
        });
      });
    });
  };
  operands.launch(lowering, suffix, {countItems, noScratch, run});
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
           Index head, Index first, Value to) const;
};
} // namespace

void ProductSums::sum(KernelBuilder &kernel, ArgumentBlock &arguments,
                      Index batch, Index head, Index first, Value to) const {
  int64_t width = kernel.width();
  Index entries = arguments.getSize(tensor, 4);
  Index step = arguments.getStride(tensor, 0);
  Value from = arguments.getAddress(
      tensor, {0, batch, head, hasLanes() ? kernel.div(first, width) : first});
  auto load = [&](Index lane) {
    return kernel.loop(
        1, arguments.getSize(tensor, 0), 1, kernel.loadVector(from, {lane}),
        [&](Value chunk, ValueRange now) -> Values {
          return {kernel.addF(
              now[0],
              kernel.loadVector(from, {kernel.mul(chunk, step), lane}))};
        })[0];
  };
  if (!hasLanes()) {
    kernel.loop(0, kernel.mul(entries, productRowUnit), width, [&](Value lane) {
      kernel.storeVector(load(lane), to, {lane});
    });
    return;
  }
  kernel.loop(0, productRowUnit, width, [&](Value row) {
    Index start = kernel.mul(row, entries);
    kernel.loop(0, entries, width, [&](Value entry) {
      Values square;
      for (int64_t e = 0; e < width; ++e)
        square.push_back(
            load(kernel.add(start, kernel.mul(kernel.add(entry, e), width))));
      square = kernel.transpose(square);
      for (int64_t r = 0; r < width; ++r)
        kernel.storeVector(square[r], to,
                           {start, kernel.mul(entries, r), entry});
    });
  });
}

void sextant::codegen::launchRowProductsPullback(
    const Lowering &lowering, StringRef suffix, const RowProducts &products,
    ProductLayout layout, Value partials, Value rowGradient,
    Value tableGradient) {
  constexpr int64_t unit = productRowUnit, tileRows = 8;
  LaunchOperands operands;
  ProductKernel task(products, lowering.target.width);
  task.addReads(products, operands);
  unsigned source = operands.read(partials);
  ProductSums gradients{layout, source};
  unsigned rowTarget = 0, tableTarget = 0;
  Value tablePartials;
  if (rowGradient)
    rowTarget = operands.write(rowGradient);
  if (tableGradient) {
    SmallVector<int64_t> shape(3, ShapedType::kDynamic);
    shape.push_back(task.row);
    tablePartials = lowering.allocate(
        RankedTensorType::get(shape, lowering.builder.getF32Type()),
        {lowering.getDim(products.rows, 0), lowering.getDim(products.rows, 1),
         products.padTableRows(lowering), Value()},
        /*zero=*/true);
    tableTarget = operands.write(tablePartials);
  }

  auto countItems = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return kernel.mul(arguments.getSize(source, 1),
                      arguments.getSize(source, 2));
  };
  auto scratchBytes = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    Index perEntry = unit + task.row;
    return kernel.mul(
        kernel.add(kernel.mul(arguments.getSize(source, 4), perEntry),
                   unit * task.row),
        4);
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments, Index begin,
                 Index end, Value scratch) {
    Index entries = arguments.getSize(source, 4);
    Index heads = arguments.getSize(source, 2);
    Value sums = scratch;
    Value table = kernel.advance(sums, {kernel.mul(entries, unit)});
    Value rows = kernel.advance(table, {kernel.mul(entries, task.row)});
    auto emitBlock = [&](Index batch, Index head, Index first) {
      gradients.sum(kernel, arguments, batch, head, first, sums);
      if (rowGradient) {
        Value to = arguments.getAddress(rowTarget, {0, batch, head, first});
        kernel.loop(0, unit, tileRows, [&](Value row) {
          SmallVector<TileRow> group;
          for (int64_t r = 0; r < tileRows; ++r)
            group.push_back({kernel.advance(
                sums, {kernel.mul(kernel.add(row, r), entries)})});
          RegisterTile tile;
          tile.rows = group;
          tile.base = table;
          tile.vectorStep = task.row;
          tile.vectors = 1;
          tile.count = entries;
          tile.isWhole = true;
          addRows(kernel, tile, kernel.advance(to, {kernel.mul(row, task.row)}),
                  task.row);
        });
      }
      if (tableGradient) {
        task.copyRows(kernel, arguments, batch, head, first, unit, rows);
        Value to = arguments.getAddress(tableTarget, {batch, head});
        kernel.loop(0, entries, tileRows, [&](Value entry) {
          SmallVector<TileRow> group;
          for (int64_t r = 0; r < tileRows; ++r)
            group.push_back({kernel.advance(sums, {entry}), r});
          RegisterTile tile;
          tile.rows = group;
          tile.rowStep = entries;
          tile.base = rows;
          tile.vectorStep = task.row;
          tile.vectors = 1;
          tile.count = unit;
          tile.isWhole = true;
          addRows(kernel, tile,
                  kernel.advance(to, {kernel.mul(entry, task.row)}), task.row);
        });
      }
    };
    kernel.loop(begin, end, 1, [&](Value item) {
      Index batch = kernel.div(item, heads), head = kernel.rem(item, heads);
      // Lanes past the dim are read by whole vectors.
      kernel.loop(0, kernel.mul(entries, task.row), kernel.width(),
                  [&](Value lane) {
                    kernel.storeVector(kernel.splatF32(0.0), table, {lane});
                  });
      task.copyTable(kernel, arguments, head, entries, table, task.row, 1);
      kernel.loop(0, gradients.countRows(kernel, arguments), unit,
                  [&](Value first) { emitBlock(batch, head, first); });
    });
  };
  operands.launch(lowering, suffix, {countItems, scratchBytes, run});
  if (tableGradient)
    launchTableSum(lowering, (suffix + "_table").str(), products, tablePartials,
                   tableGradient);
}

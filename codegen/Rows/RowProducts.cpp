//===- RowProducts.cpp - Rows of an operand times the rows of a table -----===//

#include "codegen/Rows/RowProductLaunch.h"
#include "codegen/Tables/ArgumentPoint.h"
#include "codegen/Tiles/RegisterTile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// Rows of an item of `products`.
static constexpr int64_t rowsPerItem = 4 * productRowUnit;

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

static Value roundUp(const Lowering &lowering, Value size, int64_t unit) {
  OpBuilder &builder = lowering.builder;
  Location loc = lowering.getLoc();
  Value step = arith::ConstantIndexOp::create(builder, loc, unit);
  Value count = arith::CeilDivSIOp::create(builder, loc, size, step);
  return arith::MulIOp::create(builder, loc, count, step);
}

Value RowProducts::countTableRows(const Lowering &lowering) const {
  return lowering.getDim(table, columns ? 1 : 0);
}
/// Rows of 1 KiB, or of a multiple, would begin in few sets of a cache: a
/// vector more.
Value RowProducts::padTableRows(const Lowering &lowering) const {
  int64_t width = lowering.target.width, kibibyte = 1024 / 4;
  OpBuilder &builder = lowering.builder;
  Location loc = lowering.getLoc();
  Value padded = roundUp(lowering, countTableRows(lowering), width);
  Value whole = roundUp(lowering, padded, kibibyte);
  Value past = arith::SubIOp::create(builder, loc, whole, padded);
  Value step = arith::ConstantIndexOp::create(builder, loc, width);
  Value slack = arith::SubIOp::create(
      builder, loc, step, arith::MinSIOp::create(builder, loc, past, step));
  return arith::AddIOp::create(builder, loc, padded, slack);
}
Value RowProducts::padRows(const Lowering &lowering) const {
  return roundUp(lowering, lowering.getDim(rows, 2), productRowUnit);
}

int64_t RowProducts::getRowWidth(const Lowering &lowering) const {
  return RowProductLaunch(*this, lowering.target.width).row;
}

static RankedTensorType getBufferType(const Lowering &lowering,
                                      ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, lowering.builder.getF32Type());
}

//===----------------------------------------------------------------------===//
// Pieces of both kernels
//===----------------------------------------------------------------------===//

RowProductLaunch::RowProductLaunch(const RowProducts &products, int64_t width)
    : columns(products.columns),
      element(cast<RankedTensorType>(products.rows.getType()).getElementType()),
      dim(cast<RankedTensorType>(products.rows.getType()).getDimSize(3)),
      row(llvm::alignTo(dim, width)) {}

KernelBuilder::Range RowProductLaunch::getUsed(KernelBuilder &kernel,
                                               ArgumentBlock &arguments,
                                               Index count) const {
  if (!used)
    return {0, count};
  auto load = [&](Index range, int64_t bound) {
    return kernel.fromI32(
        kernel.load(kernel.i32, arguments.getAddress(*used, {range, bound})));
  };
  Values both =
      kernel.loop(0, arguments.getSize(*used, 0), 1,
                  {kernel.value(count), kernel.constantI64(0)},
                  [&](Value range, ValueRange known) -> Values {
                    return {kernel.value(kernel.min(known[0], load(range, 0))),
                            kernel.value(kernel.max(known[1], load(range, 1)))};
                  });
  int64_t width = kernel.width();
  Index low = kernel.mul(kernel.div(both[0], width), width);
  return {low, kernel.max(kernel.roundUp(both[1], width), low)};
}

Value RowProductLaunch::getTableElement(KernelBuilder &kernel,
                                        ArgumentBlock &arguments, Index head,
                                        Index tableRow, Index lane) const {
  if (!columns)
    return arguments.getAddress(table, {tableRow, lane});
  Index first = kernel.select(kernel.equal(arguments.getSize(table, 0), dim), 0,
                              kernel.mul(head, dim));
  return arguments.getAddress(table, {kernel.add(first, lane), tableRow});
}

void RowProductLaunch::copyTable(KernelBuilder &kernel,
                                 ArgumentBlock &arguments, Index head,
                                 Index padded, Value to) const {
  Index count = arguments.getSize(table, columns ? 1 : 0);
  auto copy = [&](Index r, Index c) {
    Value from = getTableElement(kernel, arguments, head, r, c);
    kernel.store(kernel.load(kernel.f32, from),
                 kernel.advance(to, {kernel.mul(r, row), c}));
  };
  // In the order of the table's memory.
  kernel.loop(0, columns ? Index(dim) : count, 1, [&](Value outer) {
    kernel.loop(0, columns ? count : Index(dim), 1, [&](Value inner) {
      columns ? copy(inner, outer) : copy(outer, inner);
    });
  });
  kernel.clear(kernel.advance(to, {kernel.mul(count, row)}),
               kernel.mul(kernel.sub(padded, count), row));
}

void RowProductLaunch::packTable(KernelBuilder &kernel,
                                 ArgumentBlock &arguments, Index head,
                                 const KernelBuilder::Range &used,
                                 Value to) const {
  int64_t width = kernel.width();
  Index count = arguments.getSize(table, columns ? 1 : 0);
  kernel.loop(used.low, used.high, width, [&](Value entry) {
    Index present = kernel.max(kernel.min(kernel.sub(count, entry), width), 0);
    kernel.loop(0, dim, 1, [&](Value lane) {
      Value at =
          kernel.advance(to, {kernel.mul(entry, dim), kernel.mul(lane, width)});
      auto copyVector = [&] {
        Value from = getTableElement(kernel, arguments, head, entry, lane);
        kernel.storeVector(kernel.loadPart(kernel.vf32, from, present), at);
      };
      auto copyElements = [&] {
        kernel.storeVector(kernel.splatF32(0.0), at);
        kernel.loop(0, present, 1, [&](Value r) {
          Value from = getTableElement(kernel, arguments, head,
                                       kernel.add(entry, r), lane);
          kernel.store(kernel.load(kernel.f32, from), kernel.advance(at, {r}));
        });
      };
      if (!columns)
        return copyElements();
      kernel.when(kernel.equal(arguments.getStride(table, 1), 1), copyVector,
                  copyElements);
    });
  });
}

void RowProductLaunch::copyRows(KernelBuilder &kernel, ArgumentBlock &arguments,
                                Index batch, Index head, Index first,
                                Index count, Value to) const {
  RowCopy copy;
  copy.tensor = rows;
  copy.batch = batch;
  copy.head = head;
  copy.first = first;
  copy.count = count;
  copy.dim = dim;
  copy.to = to;
  copy.rowWords = row;
  emitRowCopy(kernel, arguments, copy, element);
  if (!addend)
    return;
  kernel.loop(0, dim, 1, [&](Value lane) {
    Value more = kernel.loadF32(arguments.getAddress(*addend, {head, lane}));
    kernel.loop(0, count, 1, [&](Value number) {
      Value at = kernel.advance(to, {kernel.mul(number, row), lane});
      kernel.store(kernel.addF(kernel.loadF32(at), more), at);
    });
  });
}

void RowProductLaunch::addReads(const RowProducts &products,
                                LaunchOperands &operands) {
  rows = operands.read(products.rows);
  table = operands.read(products.table);
  if (products.addend)
    addend = operands.read(products.addend);
  if (products.used)
    used = operands.read(products.used);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// A vector of rows times a vector of entries: a vector per row.
static Values emitSquare(KernelBuilder &kernel, const RowProductLaunch &task,
                         Value panel, Value rows) {
  int64_t width = kernel.width();
  SmallVector<TileRow> tileRows;
  for (int64_t r = 0; r < width; ++r)
    tileRows.push_back({rows, r * task.row});
  RegisterTile tile;
  tile.rows = tileRows;
  tile.base = panel;
  tile.vectorStep = width;
  tile.vectors = 1;
  tile.count = task.dim;
  return emitTile(kernel, tile, Values(width, kernel.splatF32(0.0)));
}

/// Stores a square at the products of its rows, which have `stride` entries.
static void storeSquare(KernelBuilder &kernel, ProductLayout layout,
                        Values square, Value to, Index stride, Index entry) {
  int64_t width = kernel.width();
  bool hasLanes = layout == ProductLayout::Lanes;
  if (hasLanes)
    square = kernel.transpose(square);
  for (auto [r, vector] : llvm::enumerate(square))
    kernel.storeVector(vector, to,
                       {hasLanes ? kernel.mul(entry, width) : Index(entry),
                        hasLanes ? Index(r * width) : kernel.mul(stride, r)});
}

Value sextant::codegen::launchRowProducts(const Lowering &lowering,
                                          StringRef suffix,
                                          const RowProducts &products,
                                          ProductLayout layout) {
  int64_t width = lowering.target.width;
  Value padded = products.padRows(lowering);
  Value entries = products.padTableRows(lowering);
  SmallVector<Value> sizes{lowering.getDim(products.rows, 0),
                           lowering.getDim(products.rows, 1), padded, entries};
  SmallVector<int64_t> shape(4, ShapedType::kDynamic);
  if (layout == ProductLayout::Lanes) {
    Value step = arith::ConstantIndexOp::create(lowering.builder,
                                                lowering.getLoc(), width);
    sizes[2] = arith::CeilDivSIOp::create(lowering.builder, lowering.getLoc(),
                                          padded, step);
    sizes.emplace_back();
    shape.push_back(width);
  }
  Value result = lowering.allocate(getBufferType(lowering, shape), sizes);
  LaunchOperands operands;
  RowProductLaunch task(products, width);
  task.addReads(products, operands);
  unsigned target = operands.write(result);

  auto getRows = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    Index rows = arguments.getSize(target, 2);
    return layout == ProductLayout::Lanes ? kernel.mul(rows, width) : rows;
  };
  auto getItems = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(kernel, {arguments.getSize(target, 0),
                              arguments.getSize(target, 1),
                              {getRows(kernel, arguments), rowsPerItem}});
  };
  auto scratchBytes = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    Index table = kernel.mul(arguments.getSize(target, 3), task.dim);
    return kernel.mul(kernel.add(table, productRowUnit * task.row), 4);
  };
  auto emitBlock = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                       Index batch, Index head, Index first, Value table,
                       Value rows) {
    Index stride = arguments.getSize(target, 3);
    task.copyRows(kernel, arguments, batch, head, first, productRowUnit, rows);
    Value to = arguments.getAddress(
        target,
        {batch, head,
         layout == ProductLayout::Lanes ? kernel.div(first, width) : first});
    KernelBuilder::Range used = task.getUsed(kernel, arguments, stride);
    // A panel of the table stays in the first cache for all rows.
    kernel.loop(used.low, used.high, width, [&](Value entry) {
      Value panel = kernel.advance(table, {kernel.mul(entry, task.dim)});
      kernel.loop(0, productRowUnit, width, [&](Value row) {
        storeSquare(
            kernel, layout,
            emitSquare(kernel, task, panel,
                       kernel.advance(rows, {kernel.mul(row, task.row)})),
            kernel.advance(to, {kernel.mul(row, stride)}), stride, entry);
      });
    });
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value scratch) {
    Index entries = arguments.getSize(target, 3);
    Value copied = kernel.advance(scratch, {kernel.mul(entries, task.dim)});
    items.forEach([&](const Item &item) {
      task.packTable(kernel, arguments, item[1],
                     task.getUsed(kernel, arguments, entries), scratch);
      kernel.loop(item[2], item.end(2), productRowUnit, [&](Value row) {
        emitBlock(kernel, arguments, item[0], item[1], row, scratch, copied);
      });
    });
  };
  operands.launch(lowering, suffix, {getItems, scratchBytes, run});
  return result;
}

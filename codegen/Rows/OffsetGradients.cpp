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
#include "codegen/Tiles/RegisterTile.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// Blocks of entries whose sums are f32.
static constexpr int64_t blocksOfSpan = 8;
static constexpr int64_t block = OffsetShape::block;

static Value extend(KernelBuilder &kernel, Value value) {
  Type type = kernel.builder.getF64Type();
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    type = VectorType::get(vector.getShape(), type);
  return arith::ExtFOp::create(kernel.builder, kernel.loc, type, value);
}

/// Adds `value` (f64) to the number at `pointer`.
static void addWide(KernelBuilder &kernel, Value value, Value pointer) {
  Value old = kernel.load(value.getType(), pointer);
  kernel.store(arith::AddFOp::create(kernel.builder, kernel.loc, old, value),
               pointer);
}

//===----------------------------------------------------------------------===//
// Sums of rows
//===----------------------------------------------------------------------===//

/// [chunks, B, H, entries, row] becomes [H, entries, row].
static Value launchSumOfPartials(const Lowering &lowering, StringRef suffix,
                                 const OffsetShape &shape, Value partials) {
  LaunchOperands operands;
  unsigned source = operands.read(partials);
  auto type = RankedTensorType::get(
      {ShapedType::kDynamic, ShapedType::kDynamic, shape.row},
      lowering.builder.getF32Type());
  Value result =
      lowering.allocate(type, {lowering.getDim(partials, 2),
                               lowering.getDim(partials, 3), Value()});
  unsigned target = operands.write(result);
  auto countItems = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return kernel.mul(arguments.getSize(target, 0),
                      kernel.div(arguments.getSize(target, 1), block));
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments, Index begin,
                 Index end, Value) {
    Index blocks = kernel.div(arguments.getSize(target, 1), block);
    Index chunks = arguments.getSize(source, 0);
    Index batches = arguments.getSize(source, 1);
    auto wide = VectorType::get(kernel.width(), kernel.builder.getF64Type());
    kernel.loop(begin, end, 1, [&](Value item) {
      Index head = kernel.div(item, blocks);
      Index first = kernel.mul(kernel.rem(item, blocks), block);
      Value to = arguments.getAddress(target, {head, first});
      kernel.loop(0, block * shape.row, kernel.width(), [&](Value lane) {
        Values sum{
            kernel.constant(cast<TypedAttr>(kernel.builder.getZeroAttr(wide)))};
        sum = kernel.loop(
            0, chunks, 1, sum, [&](Value chunk, ValueRange outer) -> Values {
              return kernel.loop(
                  0, batches, 1, outer,
                  [&](Value batch, ValueRange now) -> Values {
                    Value from = arguments.getAddress(
                        source, {chunk, batch, head, first});
                    Value addend =
                        extend(kernel, kernel.loadVector(from, {lane}));
                    return {arith::AddFOp::create(kernel.builder, kernel.loc,
                                                  now[0], addend)};
                  });
            });
        Value narrow = arith::TruncFOp::create(kernel.builder, kernel.loc,
                                               kernel.vf32, sum[0]);
        kernel.storeVector(narrow, to, {lane});
      });
    });
  };
  operands.launch(lowering, suffix, {countItems, noScratch, run});
  return result;
}

void sextant::codegen::launchRowSum(const Lowering &lowering, StringRef suffix,
                                    Value rows, Value gradient) {
  LaunchOperands operands;
  unsigned source = operands.read(rows);
  unsigned target = operands.write(gradient);
  auto countItems = [&](KernelBuilder &, ArgumentBlock &arguments) {
    return arguments.getSize(target, 0);
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments, Index begin,
                 Index end, Value) {
    Index lanes = arguments.getSize(target, 1);
    auto wide = VectorType::get(kernel.width(), kernel.builder.getF64Type());
    kernel.loop(begin, end, 1, [&](Value head) {
      kernel.loop(0, lanes, kernel.width(), [&](Value lane) {
        // Every row is padded to whole vectors.
        auto add = [&](Index chunk, Index batch, Index row, Value sum) {
          Value from =
              arguments.getAddress(source, {chunk, batch, head, row, lane});
          return arith::AddFOp::create(kernel.builder, kernel.loc, sum,
                                       extend(kernel, kernel.loadVector(from)))
              .getResult();
        };
        Values sum{
            kernel.constant(cast<TypedAttr>(kernel.builder.getZeroAttr(wide)))};
        sum = kernel.loop(0, arguments.getSize(source, 0), 1, sum,
                          [&](Value chunk, ValueRange outer) -> Values {
                            return kernel.loop(
                                0, arguments.getSize(source, 1), 1, outer,
                                [&](Value batch, ValueRange inner) -> Values {
                                  return kernel.loop(
                                      0, arguments.getSize(source, 3), 1, inner,
                                      [&](Value row, ValueRange now) -> Values {
                                        return {add(chunk, batch, row, now[0])};
                                      });
                                });
                          });
        Index count = kernel.min(kernel.width(), kernel.sub(lanes, lane));
        Value to = arguments.getAddress(target, {head, lane});
        Value old = kernel.loadPart(wide, to, count);
        kernel.storePart(
            arith::AddFOp::create(kernel.builder, kernel.loc, old, sum[0]), to,
            count);
      });
    });
  };
  operands.launch(lowering, suffix, {countItems, noScratch, run});
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

  void emitItem(KernelBuilder &kernel, ArgumentBlock &arguments, Index head,
                Index panel, Value wide, Value narrow) const;
  void addBlock(KernelBuilder &kernel, ArgumentBlock &arguments, Index head,
                Index panel, Index number, Value sums) const;
  void addToTable(KernelBuilder &kernel, ArgumentBlock &arguments, Index head,
                  Index panel, Value sums) const;
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

/// table[part + row][panel] += sums[row].
void TableProduct::addToTable(KernelBuilder &kernel, ArgumentBlock &arguments,
                              Index head, Index panel, Value sums) const {
  Type f64 = kernel.builder.getF64Type();
  Index part =
      kernel.select(kernel.equal(arguments.getSize(target, 0), shape.dim), 0,
                    kernel.mul(head, shape.dim));
  Index first = kernel.mul(panel, shape.lanes);
  Index count =
      kernel.min(shape.lanes, kernel.sub(arguments.getSize(target, 1), first));
  kernel.loop(0, shape.dim, 1, [&](Value row) {
    Value to = arguments.getAddress(target, {kernel.add(part, row), first});
    Index step = arguments.getStride(target, 1);
    kernel.loop(0, count, 1, [&](Value column) {
      Value from =
          kernel.advance(sums, {kernel.mul(row, shape.lanes), column}, f64);
      addWide(kernel, kernel.load(f64, from),
              kernel.advance(to, {kernel.mul(column, step)}, f64));
    });
  });
}

void TableProduct::emitItem(KernelBuilder &kernel, ArgumentBlock &arguments,
                            Index head, Index panel, Value wide,
                            Value narrow) const {
  Type f64 = kernel.builder.getF64Type();
  Value zero = kernel.constant(cast<TypedAttr>(
      kernel.builder.getZeroAttr(VectorType::get(kernel.width(), f64))));
  auto eachVector = [&](function_ref<void(Value, Value)> body) {
    kernel.loop(0, countSums(), kernel.width(), [&](Value lane) {
      body(kernel.advance(wide, {lane}, f64), kernel.advance(narrow, {lane}));
    });
  };
  eachVector([&](Value at, Value) { kernel.store(zero, at); });
  Index blocks = arguments.getSize(seen, 0);
  kernel.loop(0, blocks, blocksOfSpan, [&](Value first) {
    eachVector(
        [&](Value, Value at) { kernel.storeVector(kernel.splatF32(0.0), at); });
    Index last = kernel.min(kernel.add(first, blocksOfSpan), blocks);
    kernel.loop(first, last, 1, [&](Value number) {
      kernel.when(isBlockSeen(kernel, arguments, seen, number), [&] {
        addBlock(kernel, arguments, head, panel, number, narrow);
      });
    });
    eachVector([&](Value to, Value from) {
      addWide(kernel, extend(kernel, kernel.loadVector(from)), to);
    });
  });
  addToTable(kernel, arguments, head, panel, wide);
}

LogicalResult sextant::codegen::launchOffsetPullback(const Lowering &lowering,
                                                     size_t number,
                                                     const OffsetRows &made,
                                                     Value partials,
                                                     Value tableGradient) {
  auto query = cast<RankedTensorType>(
      getOwnerOperands(lowering.plan.owner).query.getType());
  OffsetShape shape(lowering.target, query.getDimSize(3));
  std::string suffix = getOffsetSuffix("sum", number);
  Value summed = launchSumOfPartials(lowering, suffix, shape, partials);
  if (lowering.plan.offsetProducts[number].index)
    return launchTakenPullback(lowering, number, shape, made.seen, summed,
                               tableGradient);
  LaunchOperands operands;
  TableProduct task{shape};
  task.seen = operands.read(made.seen);
  task.factors = operands.read(made.factors);
  task.rows = operands.read(summed);
  task.target = operands.write(tableGradient);
  // Heads that share a table are one item, in order.
  auto countItems = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    Index parts = kernel.select(
        kernel.equal(arguments.getSize(task.target, 0), shape.dim), 1,
        arguments.getSize(task.rows, 0));
    return kernel.mul(arguments.getSize(task.factors, 0), parts);
  };
  auto scratchBytes = [&](KernelBuilder &, ArgumentBlock &) {
    return Index((8 + 4) * task.countSums());
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments, Index begin,
                 Index end, Value scratch) {
    Index panels = arguments.getSize(task.factors, 0);
    Index heads = arguments.getSize(task.rows, 0);
    Value isShared = kernel.equal(arguments.getSize(task.target, 0), shape.dim);
    Value narrow = kernel.advance(scratch, {task.countSums()},
                                  kernel.builder.getF64Type());
    kernel.loop(begin, end, 1, [&](Value item) {
      // Panels first: threads work on neighbouring ones of a head.
      Index part = kernel.div(item, panels), panel = kernel.rem(item, panels);
      Index last = kernel.select(isShared, heads, kernel.add(part, 1));
      kernel.loop(part, last, 1, [&](Value head) {
        task.emitItem(kernel, arguments, head, panel, scratch, narrow);
      });
    });
  };
  operands.launch(lowering, getOffsetSuffix("table", number),
                  {countItems, scratchBytes, run});
  return success();
}

//===- OffsetProducts.cpp - One row per offset ----------------------------===//

#include "codegen/Rows/OffsetProducts.h"
#include "codegen/Rows/OffsetPoint.h"
#include "codegen/Rows/RowCopy.h"
#include "codegen/Tables/PayloadCall.h"
#include "codegen/Tiles/RegisterTile.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

static constexpr int64_t block = OffsetShape::block;

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

static OwnerOperands getOperands(const Lowering &lowering) {
  return getOwnerOperands(lowering.plan.owner);
}

static OffsetShape getShape(const Lowering &lowering) {
  auto query = cast<RankedTensorType>(getOperands(lowering).query.getType());
  return OffsetShape(lowering.target, query.getDimSize(3));
}

static Value constantIndex(const Lowering &lowering, int64_t value) {
  return arith::ConstantIndexOp::create(lowering.builder, lowering.getLoc(),
                                        value);
}

template <typename OpTy>
static Value compute(const Lowering &lowering, Value a, int64_t b) {
  return OpTy::create(lowering.builder, lowering.getLoc(), a,
                      constantIndex(lowering, b));
}

static Value ceilDiv(const Lowering &lowering, Value size, int64_t unit) {
  return compute<arith::CeilDivSIOp>(lowering, size, unit);
}

static Value roundUp(const Lowering &lowering, Value size, int64_t unit) {
  return compute<arith::MulIOp>(lowering, ceilDiv(lowering, size, unit), unit);
}

/// Beyond the last offset a forward or backward tile reaches past the rows of
/// the other side by less than two tiles of them or a block, and a vector.
static constexpr int64_t entriesPastRows = 192;

Value codegen::countHeads(const Lowering &lowering,
                          const OffsetProduct &product) {
  OwnerOperands operands = getOperands(lowering);
  return lowering.getDim(product.table.side == pos::Side::query ? operands.query
                                                                : operands.key,
                         1);
}

Value OffsetShape::countEntries(const Lowering &lowering,
                                pos::Side side) const {
  OwnerOperands operands = getOperands(lowering);
  bool isQuery = side == pos::Side::query;
  Value rows = isQuery ? operands.query : operands.key;
  Value others = isQuery ? operands.key : operands.query;
  Value both =
      arith::AddIOp::create(lowering.builder, lowering.getLoc(),
                            roundUp(lowering, lowering.getDim(rows, 2), block),
                            lowering.getDim(others, 2));
  int64_t slack = block + tileRows + entriesPastRows;
  return roundUp(lowering, compute<arith::AddIOp>(lowering, both, slack),
                 block);
}

static RankedTensorType getType(const Lowering &lowering, int64_t rank,
                                ArrayRef<int64_t> last, Type element = {}) {
  SmallVector<int64_t> shape(rank, ShapedType::kDynamic);
  llvm::append_range(shape, last);
  return RankedTensorType::get(shape, element ? element
                                              : lowering.builder.getF32Type());
}

static Value getTable(const Lowering &lowering, size_t number) {
  RowTable table = lowering.plan.offsetProducts[number].table;
  pos::SitesOwnerInterface owner = lowering.plan.owner;
  return owner.getParamOperands()[table.param];
}

//===----------------------------------------------------------------------===//
// Factors
//===----------------------------------------------------------------------===//

static Value launchFactors(const Lowering &lowering, size_t number,
                           const OffsetShape &shape, Value entries,
                           Value seen) {
  const OffsetProduct &product = lowering.plan.offsetProducts[number];
  Value table = getTable(lowering, number);
  LaunchOperands operands;
  unsigned flags = operands.read(seen);
  PointLayout layout =
      addPointOperands(lowering, operands, [](unsigned) { return false; });
  Value panels = ceilDiv(lowering, lowering.getDim(table, 1), shape.lanes);
  Value result = lowering.allocate(getType(lowering, 2, shape.lanes),
                                   {panels, entries, Value()});
  unsigned target = operands.write(result);

  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(kernel, {arguments.getSize(flags, 0)});
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value) {
    OffsetPoint point(kernel, arguments, layout, lowering.plan);
    llvm::SetVector<Operation *> ops;
    point.collect(product.factor, ops);
    point.collect(product.count, ops);
    // The factors of a vector of columns at one entry.
    auto emitVector = [&](Index panel, int64_t v, Index entry) {
      point.moveToEntry(shape, entry, product.table.side);
      PayloadEmitter emitter(kernel.builder, point);
      Value columns = kernel.lanes(
          kernel.add(kernel.mul(panel, shape.lanes), v * kernel.width()));
      emitter.bind(product.column, columns);
      Value factor =
          callOps(kernel, emitter, ops.getArrayRef(), product.factor);
      if (!factor)
        return;
      Value count = emitter.get(product.count);
      factor = kernel.narrow(emitter.toLanes(factor));
      Value exists = arith::CmpIOp::create(kernel.builder, kernel.loc,
                                           arith::CmpIPredicate::slt, columns,
                                           kernel.broadcast(count));
      kernel.storeVector(kernel.selectF(exists, factor, kernel.splatF32(0.0)),
                         arguments.getAddress(target, {panel, entry}),
                         {v * kernel.width()});
    };
    items.forEach([&](const Item &item) {
      Index first = kernel.mul(item[0], block);
      kernel.when(isBlockSeen(kernel, arguments, flags, item[0]), [&] {
        // Entries inside: what depends on the column only is computed once.
        kernel.loop(0, arguments.getSize(target, 0), 1, [&](Value panel) {
          for (int64_t v = 0; v < 2; ++v)
            kernel.loop(first, kernel.add(first, block), 1,
                        [&](Value entry) { emitVector(panel, v, entry); });
        });
      });
    });
  };
  operands.launch(lowering, getOffsetSuffix("factors", number),
                  {items, noScratch, run});
  return result;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// The table as rows read it: [H, row / lanes, columns, lanes of a row].
static Value launchWeights(const Lowering &lowering, size_t number,
                           const OffsetShape &shape) {
  Value table = getTable(lowering, number);
  LaunchOperands operands;
  unsigned source = operands.read(table);
  Value columns = roundUp(lowering, lowering.getDim(table, 1), shape.lanes);
  Value result = lowering.allocate(
      getType(lowering, 3, shape.lanes),
      {countHeads(lowering, lowering.plan.offsetProducts[number]),
       constantIndex(lowering, shape.row / shape.lanes), columns, Value()});
  unsigned target = operands.write(result);
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(
        kernel, {arguments.getSize(target, 0), arguments.getSize(target, 1)});
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value) {
    Index isShared = arguments.getSize(source, 0);
    Index count = arguments.getSize(source, 1);
    items.forEach([&](const Item &item) {
      Index head = item[0], panel = item[1];
      Index first = kernel.mul(panel, shape.lanes);
      Index part = kernel.select(kernel.equal(isShared, shape.dim), 0,
                                 kernel.mul(head, shape.dim));
      Value to = arguments.getAddress(target, {head, panel});
      kernel.clear(to, kernel.mul(arguments.getSize(target, 2), shape.lanes));
      Index rest = kernel.min(shape.lanes, kernel.sub(shape.dim, first));
      kernel.loop(0, rest, 1, [&](Value lane) {
        Index row = kernel.add(kernel.add(part, first), lane);
        Value from = arguments.getAddress(source, {row});
        Index step = arguments.getStride(source, 1);
        kernel.loop(0, count, 1, [&](Value column) {
          kernel.store(
              kernel.loadF32(from, {kernel.mul(column, step)}),
              kernel.advance(to, {kernel.mul(column, shape.lanes), lane}));
        });
      });
    });
  };
  operands.launch(lowering, getOffsetSuffix("weights", number),
                  {items, noScratch, run});
  return result;
}

/// Panels of columns that are added at once: with the factors of a block of
/// entries they stay in the first cache.
static constexpr int64_t panelsAtOnce = 2;

static Value launchRows(const Lowering &lowering, size_t number,
                        const OffsetShape &shape, Value entries,
                        const OffsetRows &made, Value weights) {
  LaunchOperands operands;
  unsigned flags = operands.read(made.seen);
  unsigned factors = operands.read(made.factors);
  unsigned packed = operands.read(weights);
  Value result = lowering.allocate(
      getType(lowering, 2, shape.row),
      {countHeads(lowering, lowering.plan.offsetProducts[number]), entries,
       Value()});
  unsigned target = operands.write(result);
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(kernel, {arguments.getSize(flags, 0)});
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value) {
    // Adds the product of some columns for entries first .. first + tileRows -
    // 1 and the lanes of a panel of the row.
    auto addColumns = [&](Index head, Index panel, Index first, Index part) {
      Value to = kernel.advance(arguments.getAddress(target, {head, first}),
                                {kernel.mul(panel, shape.lanes)});
      Values sums;
      for (int64_t r = 0; r < shape.tileRows; ++r)
        for (int64_t v = 0; v < 2; ++v)
          sums.push_back(
              kernel.loadVector(to, {r * shape.row + v * kernel.width()}));
      Index end = kernel.min(kernel.add(part, panelsAtOnce),
                             arguments.getSize(factors, 0));
      sums = kernel.loop(
          part, end, 1, sums, [&](Value number, ValueRange carried) {
            SmallVector<TileRow> rows;
            Value from = arguments.getAddress(factors, {number, first});
            for (int64_t r = 0; r < shape.tileRows; ++r)
              rows.push_back({from, r * shape.lanes});
            RegisterTile tile;
            tile.rows = rows;
            tile.base = arguments.getAddress(
                packed, {head, panel, kernel.mul(number, shape.lanes)});
            tile.vectorStep = shape.lanes;
            tile.count = shape.lanes;
            return emitTile(kernel, tile, carried);
          });
      for (int64_t r = 0; r < shape.tileRows; ++r)
        for (int64_t v = 0; v < 2; ++v)
          kernel.storeVector(sums[2 * r + v], to,
                             {r * shape.row + v * kernel.width()});
    };
    items.forEach([&](const Item &item) {
      Index first = kernel.mul(item[0], block);
      Value seen = isBlockSeen(kernel, arguments, flags, item[0]);
      kernel.loop(0, arguments.getSize(target, 0), 1, [&](Value head) {
        Value to = arguments.getAddress(target, {head, first});
        kernel.clear(to, block * shape.row);
        auto addBlock = [&](Value panel, Value part) {
          kernel.loop(
              first, kernel.add(first, block), shape.tileRows,
              [&](Value entry) { addColumns(head, panel, entry, part); });
        };
        kernel.when(seen, [&] {
          kernel.loop(0, shape.row / shape.lanes, 1, [&](Value panel) {
            kernel.loop(0, arguments.getSize(factors, 0), panelsAtOnce,
                        [&](Value part) { addBlock(panel, part); });
          });
        });
      });
    });
  };
  operands.launch(lowering, getOffsetSuffix("rows", number),
                  {items, noScratch, run});
  return result;
}

static Value launchTranspose(const Lowering &lowering, size_t number,
                             const OffsetShape &shape, Value entries,
                             Value rows) {
  LaunchOperands operands;
  unsigned source = operands.read(rows);
  SmallVector<int64_t> last{shape.row, shape.width};
  Value vectors = ceilDiv(lowering, entries, shape.width);
  Value result = lowering.allocate(
      getType(lowering, 2, last),
      {countHeads(lowering, lowering.plan.offsetProducts[number]), vectors,
       Value(), Value()});
  unsigned target = operands.write(result);
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(kernel, {arguments.getSize(target, 0),
                              {arguments.getSize(source, 1), block}});
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value) {
    items.forEach([&](const Item &item) {
      Index head = item[0], first = item[1];
      kernel.loop(0, block, shape.width, [&](Value step) {
        Index entry = kernel.add(first, step);
        Value from = arguments.getAddress(source, {head, entry});
        Value to = arguments.getAddress(target,
                                        {head, kernel.div(entry, shape.width)});
        kernel.loop(0, shape.row, shape.width, [&](Value lane) {
          Values square;
          for (int64_t r = 0; r < shape.width; ++r)
            square.push_back(kernel.loadVector(from, {lane, r * shape.row}));
          square = kernel.transpose(square);
          for (int64_t k = 0; k < shape.width; ++k)
            kernel.storeVector(
                square[k], to,
                {kernel.mul(lane, shape.width), k * shape.width});
        });
      });
    });
  };
  operands.launch(lowering, getOffsetSuffix("transpose", number),
                  {items, noScratch, run});
  return result;
}

/// The rows of a sum, and the factors that its gradient needs.
static Value launchSummedRows(const Lowering &lowering, size_t number,
                              const OffsetShape &shape, Value entries,
                              OffsetRows &made) {
  made.factors = launchFactors(lowering, number, shape, entries, made.seen);
  Value weights = launchWeights(lowering, number, shape);
  return launchRows(lowering, number, shape, entries, made, weights);
}

OffsetRows sextant::codegen::launchOffsetRows(const Lowering &lowering,
                                              const HoistTables &tables,
                                              size_t number, bool transposes) {
  OffsetShape shape = getShape(lowering);
  const OffsetProduct &product = lowering.plan.offsetProducts[number];
  pos::Side side = product.table.side;
  Value entries = shape.countEntries(lowering, side);
  OffsetRows result;
  Value endsOfRanges;
  if (product.isClipped) {
    endsOfRanges = launchOffsetEnds(lowering, number, shape, entries);
    result.ends = lowering.allocate(
        RankedTensorType::get({2}, lowering.builder.getI32Type()), {});
  }
  result.seen = launchSeenOffsets(
      lowering, tables, getOffsetSuffix("seen", number),
      ceilDiv(lowering, entries, block), side, endsOfRanges, result.ends);
  result.rows =
      product.index
          ? launchTakenRows(lowering, number, shape, entries, result.seen)
          : launchSummedRows(lowering, number, shape, entries, result);
  if (transposes)
    result.transposed =
        launchTranspose(lowering, number, shape, entries, result.rows);
  return result;
}

//===----------------------------------------------------------------------===//
// What is added to query rows
//===----------------------------------------------------------------------===//

void codegen::clearSeenRows(KernelBuilder &kernel, ArgumentBlock &arguments,
                            unsigned seen, int64_t row, Value rows) {
  kernel.loop(0, arguments.getSize(seen, 0), 1, [&](Value number) {
    kernel.when(isBlockSeen(kernel, arguments, seen, number), [&] {
      kernel.clear(kernel.advance(rows, {kernel.mul(number, block * row)}),
                   block * row);
    });
  });
}

void sextant::codegen::copyAddend(KernelBuilder &kernel,
                                  ArgumentBlock &arguments, unsigned addend,
                                  Index head, int64_t dim, int64_t row,
                                  Value to) {
  kernel.clear(to, row);
  kernel.loop(0, dim, 1, [&](Value lane) {
    Value from = arguments.getAddress(addend, {head, lane});
    kernel.store(kernel.loadF32(from), kernel.advance(to, {lane}));
  });
}

void sextant::codegen::addToRows(KernelBuilder &kernel, Value addend,
                                 Index count, int64_t dim, int64_t row,
                                 Value rows) {
  kernel.loop(0, dim, kernel.width(), [&](Value lane) {
    Value vector = kernel.loadVector(addend, {lane});
    kernel.loop(0, count, 1, [&](Value number) {
      Value at = kernel.advance(rows, {kernel.mul(number, row), lane});
      kernel.storeVector(kernel.addF(kernel.loadVector(at), vector), at);
    });
  });
}

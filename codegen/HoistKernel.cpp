//===- HoistKernel.cpp - Kernels of the tables of hoisted values
//------------===//
//
// A buffer [B', H', (rows,) columns] is walked row by row, vectors along the
// columns; a vector that reaches past the end works on clamped columns and is
// stored in part. Tables of row maps compute in double (angles of any length),
// all others in f32.
//
//===----------------------------------------------------------------------===//

#include "codegen/HoistKernel.h"
#include "codegen/OffsetRange.h"
#include "codegen/Payload.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using pos::RowOperand;
using pos::Side;

/// Columns of one work item of a filling kernel, or rows of lanes.
static constexpr int64_t columnsPerItem = 512, rowsPerItem = 64;

//===----------------------------------------------------------------------===//
// Where a payload stands in a table
//===----------------------------------------------------------------------===//

namespace {
/// A vector of columns of one row of the buffer.
class TablePoint : public ArgumentPoint {
public:
  TablePoint(KernelBuilder &kernel, ArgumentBlock &arguments,
             const HoistKernel &source, FloatType computeType)
      : ArgumentPoint(kernel, arguments, source.layout.point,
                      source.lowering.plan, computeType),
        entry(source.entry), options(source.options), layout(source.layout) {}

  /// Stands at columns `first` .. `first + count - 1` of a row.
  void moveTo(Index batch, Index head, Index row, Index first, Index count);

  int64_t getLanes() override { return isScalar() ? 1 : kernel.width(); }
  Value index(OpBuilder &builder, Side side) override;
  Value coord(OpBuilder &builder, Side side, int64_t axis) override;
  Value offset(OpBuilder &builder, int64_t axis) override;
  Value lane(OpBuilder &) override {
    return entry.form == HoistForm::RowLaneTable ? column : Value();
  }
  Value hoisted(OpBuilder &builder, pos::HoistOp hoist) override;
  void addToHoisted(OpBuilder &builder, pos::HoistOp hoist,
                    Value cotangent) override;
  bool wantsGradient(pos::HoistOp hoist) override {
    return layout.gradients.contains(hoist);
  }
  using ArgumentPoint::wantsGradient;

  /// Address of the point in a buffer of the same form; for a scalar per head,
  /// of that.
  Value getAddress(unsigned tensor, bool isScalarBuffer);
  Index getCount() const { return count; }

private:
  bool isScalar() const { return entry.form == HoistForm::HeadScalar; }
  /// The row of the operand (i32, scalar or vector) that the point stands for.
  Value getRow();
  Index getRowCount();

  const Hoisted &entry;
  const HoistTableOptions &options;
  const HoistLayout &layout;
  Index batch = 0, headIndex = 0, row = 0, first = 0, count = 1;
  Value column; ///< clamped to the columns that exist
};
} // namespace

void TablePoint::moveTo(Index toBatch, Index toHead, Index toRow, Index toFirst,
                        Index toCount) {
  batch = toBatch;
  headIndex = toHead;
  row = toRow;
  first = toFirst;
  count = toCount;
  setBatch(kernel.toI32(batch));
  setHead(kernel.toI32(headIndex));
  if (isScalar())
    return;
  Value last =
      kernel.broadcast(kernel.toI32(kernel.sub(kernel.add(first, count), 1)));
  column = arith::MinSIOp::create(kernel.builder, kernel.loc,
                                  kernel.lanes(first), last);
}

Index TablePoint::getRowCount() {
  bool isQuery =
      entry.form == HoistForm::QueryVector ||
      (entry.form == HoistForm::RowLaneTable &&
       entry.operand != RowOperand::key && entry.operand != RowOperand::value);
  return getExtent(isQuery ? pos::Extent::query : pos::Extent::key);
}

Value TablePoint::getRow() {
  return entry.form == HoistForm::RowLaneTable ? kernel.toI32(row) : column;
}

/// The side whose rows a `self` of an operand means.
static Side getSide(RowOperand operand) {
  return operand == RowOperand::key || operand == RowOperand::value
             ? Side::key
             : Side::query;
}

Value TablePoint::index(OpBuilder &, Side side) {
  if (entry.form == HoistForm::QueryVector && side == Side::query)
    return getQueryIndex(getRow());
  if (entry.form == HoistForm::KeyVector && side == Side::key)
    return getRow();
  if (entry.form == HoistForm::RowLaneTable && side == Side::self)
    return getSide(entry.operand) == Side::key ? getRow()
                                               : getQueryIndex(getRow());
  return {};
}

Value TablePoint::coord(OpBuilder &builder, Side side, int64_t axis) {
  Value place = index(builder, side);
  if (!place)
    return {};
  Side of = side == Side::self ? getSide(entry.operand) : side;
  Value given = getPosition(of, axis, getRow());
  return given ? given : place;
}

Value TablePoint::offset(OpBuilder &builder, int64_t axis) {
  if (entry.form != HoistForm::OffsetTable || axis != 0)
    return {};
  Location loc = kernel.loc;
  Value low, high, value;
  if (layout.range) {
    low = loadOffsetRange(kernel, arguments, *layout.range, 0);
    high = loadOffsetRange(kernel, arguments, *layout.range, 1);
    value = addI(column, low);
  } else {
    Value queries = kernel.toI32(getExtent(pos::Extent::query));
    Value keys = kernel.toI32(getExtent(pos::Extent::key));
    Value one = kernel.constantI32(1);
    low = subI(one, keys);
    high = subI(queries, one);
    Value step = subI(column, kernel.constantI32(options.padding));
    value = options.order == OffsetOrder::Ascending ? addI(step, low)
                                                    : subI(high, step);
  }
  value = arith::MaxSIOp::create(builder, loc, value, kernel.broadcast(low));
  return arith::MinSIOp::create(builder, loc, value, kernel.broadcast(high));
}

Value TablePoint::getAddress(unsigned tensor, bool isScalarBuffer) {
  SmallVector<Index> indices{entry.perBatch ? batch : Index(0),
                             entry.perHead ? headIndex : Index(0)};
  // An earlier hoist may vary with less than this one.
  for (unsigned dim : {0u, 1u})
    indices[dim] = kernel.rem(indices[dim], arguments.getSize(tensor, dim));
  if (!isScalarBuffer) {
    if (entry.form == HoistForm::RowLaneTable)
      indices.push_back(row);
    indices.push_back(first);
  }
  return arguments.getAddress(tensor, indices);
}

Value TablePoint::hoisted(OpBuilder &builder, pos::HoistOp hoist) {
  auto found = layout.buffers.find(hoist);
  if (found == layout.buffers.end()) {
    FailureOr<Value> value = emitHoist(builder, hoist, *this);
    return succeeded(value) ? *value : Value();
  }
  Value address = getAddress(found->second, /*isScalarBuffer=*/false);
  Type stored = arguments.getElementType(found->second);
  Value value =
      kernel.loadPart(VectorType::get(kernel.width(), stored), address, count);
  if (stored.isInteger(8))
    return arith::TruncIOp::create(builder, kernel.loc, kernel.vi1, value);
  return convert(value, computeType);
}

void TablePoint::addToHoisted(OpBuilder &builder, pos::HoistOp hoist,
                              Value cotangent) {
  unsigned tensor = layout.gradients.at(hoist);
  const Hoisted *target = plan.find(hoist, entry.operand);
  bool toScalar = target->form == HoistForm::HeadScalar;
  Value address = getAddress(tensor, toScalar);
  Type type = kernel.f32;
  if (toScalar && isa<VectorType>(cotangent.getType()))
    cotangent = kernel.sumLanes(cotangent);
  if (toScalar) {
    Value old = convert(kernel.load(type, address), computeType);
    Value sum = arith::AddFOp::create(builder, kernel.loc, old, cotangent);
    return kernel.store(convert(sum, type), address);
  }
  Value old =
      convert(kernel.loadPart(kernel.vf32, address, count), computeType);
  Value sum = arith::AddFOp::create(builder, kernel.loc, old, cotangent);
  kernel.storePart(convert(sum, type), address, count);
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

static FloatType getComputeType(const HoistKernel &source, OpBuilder &builder) {
  return source.entry.form == HoistForm::RowLaneTable ? builder.getF64Type()
                                                      : builder.getF32Type();
}

/// Sizes of the table: [batch, heads, rows, columns].
static std::array<Index, 4> getSizes(const HoistKernel &source,
                                     ArgumentBlock &arguments) {
  unsigned table = source.layout.table;
  auto size = [&](unsigned dim) { return arguments.getSize(table, dim); };
  switch (source.entry.form) {
  case HoistForm::HeadScalar:
    return {size(0), size(1), 1, 1};
  case HoistForm::RowLaneTable:
    return {size(0), size(1), size(2), size(3)};
  default:
    return {size(0), size(1), 1, size(2)};
  }
}

/// The value in the element type of its buffer.
static Value toStored(KernelBuilder &k, TablePoint &point, Value value,
                      Type stored) {
  value = k.broadcast(value);
  auto type = VectorType::get(k.width(), stored);
  if (stored.isInteger(8))
    return arith::ExtUIOp::create(k.builder, k.loc, type, value);
  if (!stored.isF32() || value.getType() == type)
    return value;
  return arith::TruncFOp::create(k.builder, k.loc, type, value);
}

/// Number of offsets that given positions span.
static Index getSpan(KernelBuilder &k, ArgumentBlock &arguments,
                     unsigned range) {
  auto entryOf = [&](int64_t number) {
    return k.fromI32(loadOffsetRange(k, arguments, range, number));
  };
  return k.add(k.sub(entryOf(1), entryOf(0)), 1);
}

/// The number of work items; none for a table that is not used.
static Index countItems(KernelBuilder &k, ArgumentBlock &arguments,
                        std::optional<unsigned> range, Index items) {
  if (!range)
    return items;
  return k.select(emitHasOffsetTables(k, arguments, *range), items, 0);
}

LogicalResult HoistKernel::createFill(StringRef suffix) const {
  LogicalResult result = success();
  bool hasRows = entry.form == HoistForm::RowLaneTable;
  auto blocks = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    auto [batch, heads, rows, columns] = getSizes(*this, arguments);
    return hasRows ? k.ceilDiv(rows, rowsPerItem)
                   : k.ceilDiv(columns, columnsPerItem);
  };
  auto items = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    auto sizes = getSizes(*this, arguments);
    return countItems(k, arguments, layout.range,
                      k.mul(k.mul(sizes[0], sizes[1]), blocks(k, arguments)));
  };
  auto scratch = [](KernelBuilder &, ArgumentBlock &) { return Index(0); };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, Index begin,
                 Index end, Value) {
    TablePoint point(k, arguments, *this, getComputeType(*this, k.builder));
    Type stored = arguments.getElementType(layout.table);
    auto [batch, heads, rows, columns] = getSizes(*this, arguments);
    Index headCount = heads, rowCount = rows, columnCount = columns;
    Index perHead = blocks(k, arguments);
    auto fillVector = [&](Index item, Index row, Index first, Index limit) {
      Index outer = k.div(item, perHead);
      Index count = k.min(k.width(), k.sub(limit, first));
      point.moveTo(k.div(outer, headCount), k.rem(outer, headCount), row, first,
                   count);
      FailureOr<Value> value = emitHoist(k.builder, entry.op, point);
      if (failed(value)) {
        result = failure();
        return;
      }
      Value vector = toStored(k, point, *value, stored);
      k.storePart(vector, point.getAddress(layout.table, false), count);
    };
    k.loop(begin, end, 1, [&](Value item) {
      Index block = k.rem(item, perHead);
      if (hasRows) {
        Index low = k.mul(block, rowsPerItem);
        Index high = k.min(k.add(low, rowsPerItem), rowCount);
        // Rows inside: what depends on the lane only is computed once.
        k.loop(0, columnCount, k.width(), [&](Value first) {
          k.loop(low, high, 1,
                 [&](Value row) { fillVector(item, row, first, columnCount); });
        });
        return;
      }
      Index low = k.mul(block, columnsPerItem);
      Index high = k.min(k.add(low, columnsPerItem), columnCount);
      k.loop(low, high, k.width(),
             [&](Value first) { fillVector(item, 0, first, high); });
    });
  };
  createKernel(lowering.kernels, lowering.getLoc(),
               lowering.getKernelName(suffix), operands, lowering.target.vector,
               {items, scratch, run});
  return result;
}

LogicalResult HoistKernel::createPullback(StringRef suffix,
                                          bool itemPerHead) const {
  LogicalResult result = success();
  auto items = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return countItems(k, arguments, layout.range,
                      itemPerHead ? getSizes(*this, arguments)[1] : Index(1));
  };
  auto scratch = [](KernelBuilder &, ArgumentBlock &) { return Index(0); };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, Index begin,
                 Index end, Value) {
    FloatType compute = getComputeType(*this, k.builder);
    TablePoint point(k, arguments, *this, compute);
    auto [batches, heads, rows, columns] = getSizes(*this, arguments);
    Index batchCount = batches, rowCount = rows;
    bool isScalar = entry.form == HoistForm::HeadScalar;
    // Padding of an offset table has no gradient.
    Index low = 0, high = columns;
    if (entry.form == HoistForm::OffsetTable && layout.range) {
      high = k.min(columns, getSpan(k, arguments, *layout.range));
    } else if (entry.form == HoistForm::OffsetTable) {
      low = options.padding;
      high = k.sub(k.sub(columns, options.padding), 1);
    }
    auto pullVector = [&](Index batch, Index head, Index row, Index first) {
      Index count = isScalar ? Index(1) : k.min(k.width(), k.sub(high, first));
      point.moveTo(batch, head, row, first, count);
      Value address = point.getAddress(layout.table, isScalar);
      Value ct = isScalar ? k.load(k.f32, address)
                          : k.loadPart(k.vf32, address, count);
      if (compute.isF64())
        ct = arith::ExtFOp::create(
            k.builder, k.loc,
            isScalar ? Type(compute) : VectorType::get(k.width(), compute), ct);
      if (failed(pullbackHoist(k.builder, entry.op, ct, point)))
        result = failure();
    };
    Index headBegin = itemPerHead ? begin : Index(0);
    Index headEnd = itemPerHead ? end : heads;
    auto pullHeads = [&] {
      k.loop(headBegin, headEnd, 1, [&](Value head) {
        k.loop(0, batchCount, 1, [&](Value batch) {
          k.loop(0, rowCount, 1, [&](Value row) {
            k.loop(low, high, isScalar ? 1 : k.width(),
                   [&](Value first) { pullVector(batch, head, row, first); });
          });
        });
      });
    };
    if (itemPerHead)
      pullHeads();
    else // The range may be empty.
      k.loop(begin, end, 1, [&](Value) { pullHeads(); });
  };
  createKernel(lowering.kernels, lowering.getLoc(),
               lowering.getKernelName(suffix), operands, lowering.target.vector,
               {items, scratch, run});
  return result;
}

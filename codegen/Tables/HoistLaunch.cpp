//===- HoistLaunch.cpp - Kernels of the tables of hoisted values ----------===//
//
// A buffer [B', H', (rows,) columns] is walked row by row, vectors along the
// columns; a vector that reaches past the end works on clamped columns and is
// stored in part. Tables of row maps compute in double (angles of any length),
// all others in f32.
//
//===----------------------------------------------------------------------===//

#include "codegen/Tables/HoistLaunch.h"
#include "codegen/Payload/Payload.h"
#include "codegen/Tables/HoistGroup.h"
#include "codegen/Tables/OffsetRange.h"
#include "codegen/Tables/ParamSums.h"
#include "codegen/Tables/PayloadCall.h"
#include "codegen/Tables/TablePoint.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// Columns of one work item of a filling kernel at most, or rows of lanes.
static constexpr int64_t mostColumns = 512, rowsPerItem = 64;

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

static FloatType getComputeType(const HoistLaunch &source, OpBuilder &builder) {
  return source.entry.form == HoistForm::RowLaneTable ? builder.getF64Type()
                                                      : builder.getF32Type();
}

/// Sizes of the table: [batch, heads, rows, columns].
static std::array<Index, 4> getSizes(const HoistLaunch &source,
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

pos::RunningSumOp codegen::getRunningSum(const Hoisted &entry) {
  pos::HoistOp hoist = entry.op;
  Operation *yield = hoist.getBody().front().getTerminator();
  return yield->getOperand(0).getDefiningOp<pos::RunningSumOp>();
}

void HoistLaunch::create(StringRef suffix, const KernelBody &body) const {
  createKernel(lowering, suffix, operands, lowering.target, body);
}

OwningOpRef<pos::HoistOp> HoistLaunch::merge() const {
  SmallVector<pos::HoistOp> hoists;
  for (const HoistMember &member : members)
    hoists.push_back(member.op);
  return mergeBodies(hoists);
}

void HoistLaunch::createFill(StringRef suffix) const {
  if (entry.extent)
    return createVectorFill(*this, suffix);
  if (pos::RunningSumOp sum = getRunningSum(entry))
    return createRunningFill(*this, suffix, sum);
  OwningOpRef<pos::HoistOp> merged = merge();
  Block &payload = merged->getBody().front();
  bool hasRows = entry.form == HoistForm::RowLaneTable;
  int64_t columnsPerItem = lowering.target.countPerItem(mostColumns);
  auto items = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    auto [batch, heads, rows, columns] = getSizes(*this, arguments);
    ItemAxis block(hasRows ? rows : columns,
                   hasRows ? rowsPerItem : columnsPerItem);
    return ItemSpace(k, {batch, heads, block});
  };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, const Items &items,
                 Value) {
    TablePoint point(k, arguments, *this, getComputeType(*this, k.builder));
    Type stored = arguments.getElementType(layout.table);
    auto [batch, heads, rows, columns] = getSizes(*this, arguments);
    Index columnCount = columns;
    // Under given positions only what is in use is filled.
    if (layout.range)
      columnCount = getColumnsInUse(k, arguments, columns).second;
    auto fillVector = [&](const Item &item, Index row, Index first,
                          Index limit) {
      Index count = k.min(k.width(), k.sub(limit, first));
      point.moveTo(item[0], item[1], row, first, count);
      Values values = callPayload(k, payload, {}, point);
      for (auto [member, value] : llvm::zip_equal(members, values))
        k.storePart(toStored(k, point, value, stored),
                    point.getAddress(member.table, false), count);
    };
    items.forEach([&](const Item &item) {
      if (hasRows) {
        // Rows inside: what depends on the lane only is computed once.
        Index end = item.end(2);
        k.loop(0, columnCount, k.width(), [&](Value first) {
          k.loop(item[2], end, 1,
                 [&](Value row) { fillVector(item, row, first, columnCount); });
        });
        return;
      }
      Index high = k.min(k.add(item[2], columnsPerItem), columnCount);
      k.loop(item[2], high, k.width(),
             [&](Value first) { fillVector(item, 0, first, high); });
    });
  };
  create(suffix, {items, noScratch, run});
}

std::pair<Index, Index> HoistLaunch::getColumnsInUse(KernelBuilder &k,
                                                     ArgumentBlock &arguments,
                                                     Index columns) const {
  if (layout.range) {
    OffsetRange range(k, arguments, *layout.range);
    Index count = k.min(columns, k.fromI32(range.getCount()));
    return {0, k.select(range.emitHasTables(), count, 0)};
  }
  if (entry.form == HoistForm::OffsetTable) {
    TablePoint point(k, arguments, *this, k.builder.getF32Type());
    pos::Extent before = pos::Extent::query, behind = pos::Extent::key;
    if (options.order == OffsetOrder::Descending)
      std::swap(before, behind);
    Index end = k.sub(columns, point.countOutside(behind));
    return {point.countOutside(before), k.sub(end, 1)};
  }
  return {0, columns};
}

Index HoistLaunch::countRanges(ArgumentBlock &arguments) const {
  return layout.ranges ? arguments.getScalar(*layout.ranges) : Index(1);
}

KernelBuilder::Range HoistLaunch::getColumns(KernelBuilder &k, Index range,
                                             Index ranges,
                                             KernelBuilder::Range columns) {
  Index extent = k.max(k.sub(columns.high, columns.low), 0);
  auto begin = [&](Index number) {
    return k.add(columns.low,
                 getRangeBegin(k, number, ranges, extent, k.width()));
  };
  return {begin(range), begin(k.add(range, 1))};
}

/// The rows of a range. Those that read one row of a parameter are all of the
/// first range.
static KernelBuilder::Range getRows(KernelBuilder &k, TablePoint &point,
                                    Index range, Index ranges, Index rows) {
  Index shared = k.min(point.countSharingRows(), rows);
  Index first = k.max(getRangeBegin(k, range, ranges, rows, 1), shared);
  Index end = k.max(getRangeBegin(k, k.add(range, 1), ranges, rows, 1), shared);
  return {k.select(k.equal(range, 0), 0, first), end};
}

/// The gradient of a scalar per head at the point, of which `address` has a
/// part.
static Value loadScalar(KernelBuilder &k, ArgumentBlock &arguments,
                        const HoistMember &member, Value address,
                        TablePoint &point) {
  Value first = k.load(k.f32, address);
  if (member.ofRanges.empty())
    return first;
  Value sum = k.widen(first);
  for (unsigned tensor : member.ofRanges)
    sum = sumLoaded(
        k, {{0, arguments.getSize(tensor, 0)}}, sum, [&](ValueRange at) {
          return k.load(k.f64, point.getRangeAddress(tensor, at[0]));
        });
  return k.narrow(sum);
}

void HoistLaunch::createPullback(StringRef suffix, bool itemPerHead) const {
  if (entry.extent)
    return createVectorPullback(*this, suffix);
  if (pos::RunningSumOp sum = getRunningSum(entry))
    return createRunningPullback(*this, suffix, sum, itemPerHead);
  OwningOpRef<pos::HoistOp> merged = merge();
  Block &payload = merged->getBody().front();
  auto items = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return ItemSpace(k, {itemPerHead ? getSizes(*this, arguments)[1] : Index(1),
                         countRanges(arguments)});
  };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, const Items &items,
                 Value) {
    FloatType compute = getComputeType(*this, k.builder);
    TablePoint point(k, arguments, *this, compute);
    auto [batches, heads, rows, columns] = getSizes(*this, arguments);
    Index batchCount = batches, rowCount = rows;
    bool hasRows = entry.form == HoistForm::RowLaneTable;
    bool isScalar = entry.form == HoistForm::HeadScalar;
    // Padding of an offset table has no gradient.
    auto [low, high] = getColumnsInUse(k, arguments, columns);
    auto pullVector = [&](Index batch, Index head, Index row, Index first,
                          Index end) {
      Index count = isScalar ? Index(1) : k.min(k.width(), k.sub(end, first));
      point.moveTo(batch, head, row, first, count);
      SmallVector<Value> cotangents;
      for (const HoistMember &member : members) {
        Value address = point.getAddress(member.table, isScalar);
        Value ct = isScalar ? loadScalar(k, arguments, member, address, point)
                            : k.loadPart(k.vf32, address, count);
        if (compute.isF64())
          ct = k.widen(ct);
        cotangents.push_back(ct);
      }
      callPullback(k, payload, {}, cotangents, point);
    };
    items.forEach([&](const Item &item) {
      Index end = itemPerHead ? k.add(item[0], 1) : heads;
      KernelBuilder::Range ofItem{itemPerHead ? item[0] : Index(0), end};
      KernelBuilder::Range ofRows{0, rowCount}, ofColumns{low, high};
      if (layout.ranges) {
        point.setRange(item[1]);
        if (hasRows)
          ofRows = getRows(k, point, item[1], countRanges(arguments), rowCount);
        else
          ofColumns = getColumns(k, item[1], countRanges(arguments), ofColumns);
      }
      k.nest({ofItem, {0, batchCount}, ofRows}, [&](ValueRange at) {
        k.loop(ofColumns.low, ofColumns.high, isScalar ? 1 : k.width(),
               [&](Value first) {
                 pullVector(at[1], at[0], at[2], first, ofColumns.high);
               });
      });
    });
  };
  create(suffix, {items, noScratch, run});
}

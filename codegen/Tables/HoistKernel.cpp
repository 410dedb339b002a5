//===- HoistKernel.cpp - Kernels of the tables of hoisted values ----------===//
//
// A buffer [B', H', (rows,) columns] is walked row by row, vectors along the
// columns; a vector that reaches past the end works on clamped columns and is
// stored in part. Tables of row maps compute in double (angles of any length),
// all others in f32.
//
//===----------------------------------------------------------------------===//

#include "codegen/Tables/HoistKernel.h"
#include "codegen/Payload/Payload.h"
#include "codegen/Tables/HoistGroup.h"
#include "codegen/Tables/OffsetRange.h"
#include "codegen/Tables/TablePoint.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Columns of one work item of a filling kernel, or rows of lanes.
static constexpr int64_t columnsPerItem = 512, rowsPerItem = 64;

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

OwningOpRef<pos::HoistOp> HoistKernel::merge() const {
  SmallVector<pos::HoistOp> hoists;
  for (const HoistMember &member : members)
    hoists.push_back(member.op);
  return mergeBodies(hoists);
}

LogicalResult HoistKernel::createFill(StringRef suffix) const {
  if (entry.extent)
    return createVectorFill(suffix);
  if (pos::RunningSumOp sum = getRunningSum())
    return createRunningFill(suffix, sum);
  LogicalResult result = success();
  OwningOpRef<pos::HoistOp> merged = merge();
  Block &payload = merged->getBody().front();
  bool hasRows = entry.form == HoistForm::RowLaneTable;
  auto blocks = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    auto [batch, heads, rows, columns] = getSizes(*this, arguments);
    return hasRows ? k.ceilDiv(rows, rowsPerItem)
                   : k.ceilDiv(columns, columnsPerItem);
  };
  auto items = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    auto sizes = getSizes(*this, arguments);
    return k.mul(k.mul(sizes[0], sizes[1]), blocks(k, arguments));
  };
  auto scratch = [](KernelBuilder &, ArgumentBlock &) { return Index(0); };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, Index begin,
                 Index end, Value) {
    TablePoint point(k, arguments, *this, getComputeType(*this, k.builder));
    Type stored = arguments.getElementType(layout.table);
    auto [batch, heads, rows, columns] = getSizes(*this, arguments);
    Index headCount = heads, rowCount = rows, columnCount = columns;
    // Under given positions only what is in use is filled.
    if (layout.range)
      columnCount = getColumnsInUse(k, arguments, columns).second;
    Index perHead = blocks(k, arguments);
    auto fillVector = [&](Index item, Index row, Index first, Index limit) {
      Index outer = k.div(item, perHead);
      Index count = k.min(k.width(), k.sub(limit, first));
      point.moveTo(k.div(outer, headCount), k.rem(outer, headCount), row, first,
                   count);
      FailureOr<SmallVector<Value>> values =
          emitPayload(k.builder, payload, {}, point);
      if (failed(values)) {
        result = failure();
        return;
      }
      for (auto [member, value] : llvm::zip_equal(members, *values))
        k.storePart(toStored(k, point, value, stored),
                    point.getAddress(member.table, false), count);
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
               lowering.getKernelName(suffix), operands, lowering.target,
               {items, scratch, run});
  return result;
}

std::pair<Index, Index> HoistKernel::getColumnsInUse(KernelBuilder &k,
                                                     ArgumentBlock &arguments,
                                                     Index columns) const {
  if (layout.range) {
    OffsetRange range(k, arguments, *layout.range);
    Index count = k.min(columns, k.fromI32(range.getCount()));
    return {0, k.select(range.emitHasTables(), count, 0)};
  }
  if (entry.form == HoistForm::OffsetTable)
    return {options.padding, k.sub(k.sub(columns, options.padding), 1)};
  return {0, columns};
}

LogicalResult HoistKernel::createPullback(StringRef suffix,
                                          bool itemPerHead) const {
  if (entry.extent)
    return createVectorPullback(suffix);
  if (pos::RunningSumOp sum = getRunningSum())
    return createRunningPullback(suffix, sum, itemPerHead);
  LogicalResult result = success();
  OwningOpRef<pos::HoistOp> merged = merge();
  Block &payload = merged->getBody().front();
  auto items = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return itemPerHead ? getSizes(*this, arguments)[1] : Index(1);
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
    auto [low, high] = getColumnsInUse(k, arguments, columns);
    auto pullVector = [&](Index batch, Index head, Index row, Index first) {
      Index count = isScalar ? Index(1) : k.min(k.width(), k.sub(high, first));
      point.moveTo(batch, head, row, first, count);
      SmallVector<Value> cotangents;
      for (const HoistMember &member : members) {
        Value address = point.getAddress(member.table, isScalar);
        Value ct = isScalar ? k.load(k.f32, address)
                            : k.loadPart(k.vf32, address, count);
        if (compute.isF64())
          ct = arith::ExtFOp::create(
              k.builder, k.loc,
              isScalar ? Type(compute) : VectorType::get(k.width(), compute),
              ct);
        cotangents.push_back(ct);
      }
      if (failed(emitPullback(k.builder, payload, {}, cotangents, point)))
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
               lowering.getKernelName(suffix), operands, lowering.target,
               {items, scratch, run});
  return result;
}

//===- RunningSumKernel.cpp - Kernels of running sums over keys -----------===//
//
// A hoisted running sum is a vector over the rows of a side. One pass over the
// keys of a head fills it; the gradient of a term is the sum of the vector's
// gradient over all rows that the term reaches, so one pass from the last key
// to the first pulls it back. Terms are computed as vectors of keys, by way of
// scratch memory, and summed one after the other. Both sum in double: rows far
// apart differ by little of what they share.
//
//===----------------------------------------------------------------------===//

#include "codegen/Tables/HeadPoint.h"
#include "codegen/Tables/HoistKernel.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

namespace {
/// Lanes are keys of a head.
class KeysPoint : public HeadPoint {
public:
  using HeadPoint::HeadPoint;

  int64_t getLanes() override { return kernel.width(); }
  Index getKeys() { return getExtent(pos::Extent::key); }
  /// A vector of keys, clamped to those that exist.
  Value getKeysAt(Index first) {
    Value last = kernel.broadcast(kernel.toI32(kernel.sub(getKeys(), 1)));
    return arith::MinSIOp::create(kernel.builder, kernel.loc,
                                  kernel.lanes(first), last);
  }
  /// Index of the first row of a side among the keys.
  Index getFirst(pos::Side side) {
    if (side == pos::Side::key)
      return 0;
    return getQueryShift();
  }
};
} // namespace

pos::RunningSumOp HoistKernel::getRunningSum() const {
  pos::HoistOp hoist = entry.op;
  return hoist.getBody()
      .front()
      .getTerminator()
      ->getOperand(0)
      .getDefiningOp<pos::RunningSumOp>();
}

/// Memory for a vector of doubles.
static Index getScratchBytes(KernelBuilder &k, ArgumentBlock &) {
  return 8 * k.width();
}

static Value addF64(KernelBuilder &k, Value a, Value b) {
  return arith::AddFOp::create(k.builder, k.loc, a, b);
}

/// Whether a key's index is that of a row.
static Value isBetween(KernelBuilder &k, Index first, Index key, Index past) {
  return arith::AndIOp::create(k.builder, k.loc,
                               k.compare(arith::CmpIPredicate::sge, key, first),
                               k.less(key, past));
}

static Value getZero(KernelBuilder &k) {
  return k.constant(k.builder.getF64FloatAttr(0.0));
}

LogicalResult HoistKernel::createRunningFill(StringRef suffix,
                                             pos::RunningSumOp sum) const {
  LogicalResult result = success();
  unsigned table = layout.table;
  auto items = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return k.mul(arguments.getSize(table, 0), arguments.getSize(table, 1));
  };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, Index begin,
                 Index end, Value terms) {
    KeysPoint point(k, arguments, layout.point, lowering.plan);
    Type f64 = k.builder.getF64Type();
    Index first = point.getFirst(sum.getSide());
    k.loop(begin, end, 1, [&](Value item) {
      Index heads = arguments.getSize(table, 1);
      Index batch = k.div(item, heads), head = k.rem(item, heads);
      point.moveTo(batch, head);
      // Queries before the first key sum nothing.
      k.loop(0, k.min(k.max(k.sub(0, first), 0), arguments.getSize(table, 2)),
             1, [&](Value row) {
               k.store(k.constantF32(0.0),
                       arguments.getAddress(table, {batch, head, row}));
             });
      Index keys = point.getKeys();
      Index past = k.add(first, arguments.getSize(table, 2));
      auto addBlock = [&](Value block, ValueRange before) -> Values {
        FailureOr<SmallVector<Value>> term = emitPayload(
            k.builder, sum.getBody().front(), {point.getKeysAt(block)}, point);
        if (failed(term)) {
          result = failure();
          return {before[0]};
        }
        k.store(k.broadcast(term->front()), terms);
        Index count = k.min(k.width(), k.sub(keys, block));
        return k.loop(
            0, count, 1, before, [&](Value lane, ValueRange sofar) -> Values {
              Value next = k.load(f64, k.advance(terms, {lane}, f64));
              Value total = addF64(k, sofar[0], next);
              Index key = k.add(block, lane);
              k.when(isBetween(k, first, key, past), [&] {
                Value narrow =
                    arith::TruncFOp::create(k.builder, k.loc, k.f32, total);
                k.store(narrow, arguments.getAddress(
                                    table, {batch, head, k.sub(key, first)}));
              });
              return {total};
            });
      };
      Values carried{getZero(k)};
      k.loop(0, keys, k.width(), carried, addBlock);
    });
  };
  createKernel(lowering.kernels, lowering.getLoc(),
               lowering.getKernelName(suffix), operands, lowering.target,
               {items, getScratchBytes, run});
  return result;
}

LogicalResult HoistKernel::createRunningPullback(StringRef suffix,
                                                 pos::RunningSumOp sum,
                                                 bool itemPerHead) const {
  if (!layout.gradients.empty())
    return sum.emitOpError("needs a hoisted value that is trained, which has "
                           "no gradient here");
  LogicalResult result = success();
  unsigned table = layout.table;
  auto items = [&](KernelBuilder &, ArgumentBlock &arguments) {
    return itemPerHead ? arguments.getSize(table, 1) : Index(1);
  };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, Index begin,
                 Index end, Value terms) {
    KeysPoint point(k, arguments, layout.point, lowering.plan);
    Type f64 = k.builder.getF64Type();
    Index first = point.getFirst(sum.getSide());
    auto pullHead = [&](Index batch, Index head) {
      point.moveTo(batch, head);
      Index past = k.add(first, arguments.getSize(table, 2));
      // The gradient of a key's row, 0 before the first row and after the last.
      auto loadSeed = [&](Index key) -> Value {
        Value seed = k.choose(
                          isBetween(k, first, key, past), k.f32,
                          [&]() -> Values {
                            return {k.loadF32(arguments.getAddress(
                                table, {batch, head, k.sub(key, first)}))};
                          },
                          [&]() -> Values { return {k.constantF32(0.0)}; })
                         .front();
        return arith::ExtFOp::create(k.builder, k.loc, f64, seed);
      };
      Index keys = point.getKeys();
      Index blocks = k.ceilDiv(keys, k.width());
      auto pullBlock = [&](Value step, ValueRange after) -> Values {
        Index block = k.mul(k.sub(k.sub(blocks, 1), step), k.width());
        Index count = k.min(k.width(), k.sub(keys, block));
        // Lanes past the last key have no gradient.
        k.store(k.broadcast(getZero(k)), terms);
        Values totals = k.loop(
            0, count, 1, after, [&](Value lane, ValueRange sofar) -> Values {
              Index place = k.sub(k.sub(count, 1), lane);
              Value total = addF64(k, sofar[0], loadSeed(k.add(block, place)));
              k.store(total, k.advance(terms, {place}, f64));
              return {total};
            });
        Value cotangents = k.load(VectorType::get(k.width(), f64), terms);
        if (failed(emitPullback(k.builder, sum.getBody().front(),
                                {point.getKeysAt(block)}, {cotangents}, point)))
          result = failure();
        return totals;
      };
      Values carried{getZero(k)};
      k.loop(0, blocks, 1, carried, pullBlock);
    };
    auto pullHeads = [&](Index low, Index high) {
      k.loop(low, high, 1, [&](Value head) {
        k.loop(0, arguments.getSize(table, 0), 1,
               [&](Value batch) { pullHead(batch, head); });
      });
    };
    if (itemPerHead)
      pullHeads(begin, end);
    else
      k.loop(begin, end, 1,
             [&](Value) { pullHeads(0, arguments.getSize(table, 1)); });
  };
  createKernel(lowering.kernels, lowering.getLoc(),
               lowering.getKernelName(suffix), operands, lowering.target,
               {items, getScratchBytes, run});
  return result;
}

//===- RunningSumTable.cpp - Kernels of running sums over keys ------------===//
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
#include "codegen/Tables/HoistLaunch.h"
#include "codegen/Tables/PayloadCall.h"

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

/// Memory for a vector of doubles.
static Index getScratchBytes(KernelBuilder &k, ArgumentBlock &) {
  return 8 * k.width();
}

/// Whether a key's index is that of a row.
static Value isBetween(KernelBuilder &k, Index first, Index key, Index past) {
  return k.both(k.compare(arith::CmpIPredicate::sge, key, first),
                k.less(key, past));
}

void codegen::createRunningFill(const HoistLaunch &source, StringRef suffix,
                                pos::RunningSumOp sum) {
  unsigned table = source.layout.table;
  auto items = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return ItemSpace(
        k, {arguments.getSize(table, 0), arguments.getSize(table, 1)});
  };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, const Items &items,
                 Value terms) {
    KeysPoint point(k, arguments, source.layout.point, source.lowering.plan);
    Index first = point.getFirst(sum.getSide());
    items.forEach([&](const Item &item) {
      Index batch = item[0], head = item[1];
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
        Values term = callPayload(k, sum.getBody().front(),
                                  {point.getKeysAt(block)}, point);
        k.store(k.broadcast(term.front()), terms);
        Index count = k.min(k.width(), k.sub(keys, block));
        return k.loop(
            0, count, 1, before, [&](Value lane, ValueRange sofar) -> Values {
              Value next = k.load(k.f64, k.advance(terms, {lane}, k.f64));
              Value total = k.addF64(sofar[0], next);
              Index key = k.add(block, lane);
              k.when(isBetween(k, first, key, past), [&] {
                Value narrow = k.narrow(total);
                k.store(narrow, arguments.getAddress(
                                    table, {batch, head, k.sub(key, first)}));
              });
              return {total};
            });
      };
      Values carried{k.zero(k.f64)};
      k.loop(0, keys, k.width(), carried, addBlock);
    });
  };
  source.create(suffix, {items, getScratchBytes, run});
}

void codegen::createRunningPullback(const HoistLaunch &source, StringRef suffix,
                                    pos::RunningSumOp sum, bool itemPerHead) {
  if (!source.layout.gradients.empty())
    return source.lowering.check(
        sum.emitOpError("needs a hoisted value that is trained, which has "
                        "no gradient here"));
  unsigned table = source.layout.table;
  auto items = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return ItemSpace(k, {itemPerHead ? arguments.getSize(table, 1) : Index(1)});
  };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, const Items &items,
                 Value terms) {
    KeysPoint point(k, arguments, source.layout.point, source.lowering.plan);
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
        return k.widen(seed);
      };
      Index keys = point.getKeys();
      Index blocks = k.ceilDiv(keys, k.width());
      auto pullBlock = [&](Value step, ValueRange after) -> Values {
        Index block = k.mul(k.sub(k.sub(blocks, 1), step), k.width());
        Index count = k.min(k.width(), k.sub(keys, block));
        // Lanes past the last key have no gradient.
        k.store(k.broadcast(k.zero(k.f64)), terms);
        Values totals = k.loop(
            0, count, 1, after, [&](Value lane, ValueRange sofar) -> Values {
              Index place = k.sub(k.sub(count, 1), lane);
              Value total = k.addF64(sofar[0], loadSeed(k.add(block, place)));
              k.store(total, k.advance(terms, {place}, k.f64));
              return {total};
            });
        Value cotangents = k.load(k.vf64, terms);
        callPullback(k, sum.getBody().front(), {point.getKeysAt(block)},
                     {cotangents}, point);
        return totals;
      };
      Values carried{k.zero(k.f64)};
      k.loop(0, blocks, 1, carried, pullBlock);
    };
    items.forEach([&](const Item &item) {
      Index end = itemPerHead ? k.add(item[0], 1) : arguments.getSize(table, 1);
      k.nest({{itemPerHead ? item[0] : Index(0), end},
              {0, arguments.getSize(table, 0)}},
             [&](ValueRange at) { pullHead(at[1], at[0]); });
    });
  };
  source.create(suffix, {items, getScratchBytes, run});
}

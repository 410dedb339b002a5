//===- RunningSumTable.cpp - Kernels of running sums over keys ------------===//
//
// A hoisted running sum is a vector over the rows of a side: of the terms of
// the keys up to a row. The gradient of a term is the sum of the vector's
// gradient over all rows that the term reaches. Keys are cut into ranges: one
// launch sums those of each range, another one begins each range with the sum
// of the ranges before it, or after it for the gradient. Terms are computed as
// vectors of keys, by way of scratch memory, and summed one after the other.
// All sums are in double: rows far apart differ by little of what they share.
//
//===----------------------------------------------------------------------===//

#include "codegen/Tables/HeadPoint.h"
#include "codegen/Tables/HoistLaunch.h"
#include "codegen/Tables/ParamSums.h"
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

/// The keys of a range, in whole vectors but for the last.
static KernelBuilder::Range getKeys(KernelBuilder &k, KeysPoint &point,
                                    Index range, Index ranges) {
  auto begin = [&](Index number) {
    return getRangeBegin(k, number, ranges, point.getKeys(), k.width());
  };
  return {begin(range), begin(k.add(range, 1))};
}

/// The sum of the ranges from `first` to `last` - 1 of a head.
static Value sumRanges(KernelBuilder &k, ArgumentBlock &arguments,
                       unsigned sums, ArrayRef<Index> head, Index first,
                       Index last) {
  return sumOver(k, {{first, last}}, k.zero(k.f64), [&](ValueRange at) {
    return k.load(k.f64, arguments.getAddress(sums, {head[0], head[1], at[0]}));
  });
}

namespace {
/// Writes the passes over the keys of a range.
struct RunningPass {
  KernelBuilder &k;
  ArgumentBlock &arguments;
  KeysPoint &point;
  pos::RunningSumOp sum;
  unsigned table; ///< the vector, or its gradient
  Value terms;    ///< scratch memory
  Index first = point.getFirst(sum.getSide());

  /// Terms of keys from `initial` on; `store` takes the sum up to each key.
  Value addTerms(KernelBuilder::Range keys, Value initial,
                 function_ref<void(Index key, Value total)> store);
  /// The gradient of the row of a key, 0 before the first row and after the
  /// last.
  Value loadSeed(ArrayRef<Index> head, Index key);
  Index getPast() { return k.add(first, arguments.getSize(table, 2)); }
};
} // namespace

Value RunningPass::addTerms(KernelBuilder::Range keys, Value initial,
                            function_ref<void(Index, Value)> store) {
  auto addBlock = [&](Value block, ValueRange before) -> Values {
    Values term =
        callPayload(k, sum.getBody().front(), {point.getKeysAt(block)}, point);
    k.store(k.broadcast(term.front()), terms);
    Index count = k.min(k.width(), k.sub(keys.high, block));
    return k.loop(0, count, 1, before,
                  [&](Value lane, ValueRange sofar) -> Values {
                    Value next = k.load(k.f64, k.advance(terms, {lane}, k.f64));
                    Value total = k.addF64(sofar[0], next);
                    if (store)
                      store(k.add(block, lane), total);
                    return {total};
                  });
  };
  return k.loop(keys.low, keys.high, k.width(), Values{initial}, addBlock)[0];
}

Value RunningPass::loadSeed(ArrayRef<Index> head, Index key) {
  Value seed = k.choose(
                    isBetween(k, first, key, getPast()), k.f32,
                    [&]() -> Values {
                      return {k.loadF32(arguments.getAddress(
                          table, {head[0], head[1], k.sub(key, first)}))};
                    },
                    [&]() -> Values { return {k.constantF32(0.0)}; })
                   .front();
  return k.widen(seed);
}

void codegen::createRunningRanges(const HoistLaunch &source, StringRef suffix,
                                  pos::RunningSumOp sum,
                                  std::optional<unsigned> gradient) {
  unsigned sums = source.layout.table;
  auto items = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return ItemSpace(k, {arguments.getSize(sums, 0), arguments.getSize(sums, 1),
                         arguments.getSize(sums, 2)});
  };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, const Items &items,
                 Value terms) {
    KeysPoint point(k, arguments, source.layout.point, source.lowering.plan);
    RunningPass pass{k,    arguments, point, sum, gradient ? *gradient : sums,
                     terms};
    items.forEach([&](const Item &item) {
      Index head[] = {item[0], item[1]};
      point.moveTo(item[0], item[1]);
      KernelBuilder::Range keys =
          getKeys(k, point, item[2], arguments.getSize(sums, 2));
      Value zero = k.zero(k.f64);
      Value total = gradient ? sumOver(k, {keys}, zero,
                                       [&](ValueRange at) {
                                         return pass.loadSeed(head, at[0]);
                                       })
                             : pass.addTerms(keys, zero, nullptr);
      k.store(total, arguments.getAddress(sums, {item[0], item[1], item[2]}));
    });
  };
  source.create(suffix, {items, getScratchBytes, run});
}

void codegen::createRunningFill(const HoistLaunch &source, StringRef suffix,
                                pos::RunningSumOp sum) {
  unsigned table = source.layout.table, sums = *source.layout.rangeSums;
  auto items = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return ItemSpace(k,
                     {arguments.getSize(table, 0), arguments.getSize(table, 1),
                      arguments.getSize(sums, 2)});
  };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, const Items &items,
                 Value terms) {
    KeysPoint point(k, arguments, source.layout.point, source.lowering.plan);
    RunningPass pass{k, arguments, point, sum, table, terms};
    items.forEach([&](const Item &item) {
      Index batch = item[0], head = item[1];
      point.moveTo(batch, head);
      // Queries before the first key sum nothing.
      Index before =
          k.min(k.max(k.sub(0, pass.first), 0), arguments.getSize(table, 2));
      k.loop(0, k.select(k.equal(item[2], 0), before, 0), 1, [&](Value row) {
        k.store(k.constantF32(0.0),
                arguments.getAddress(table, {batch, head, row}));
      });
      auto store = [&](Index key, Value total) {
        k.when(isBetween(k, pass.first, key, pass.getPast()), [&] {
          Value narrow = k.narrow(total);
          k.store(narrow, arguments.getAddress(
                              table, {batch, head, k.sub(key, pass.first)}));
        });
      };
      Value initial = sumRanges(k, arguments, sums, {batch, head}, 0, item[2]);
      pass.addTerms(getKeys(k, point, item[2], arguments.getSize(sums, 2)),
                    initial, store);
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
  unsigned table = source.layout.table, sums = *source.layout.rangeSums;
  auto items = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return ItemSpace(k, {itemPerHead ? arguments.getSize(table, 1) : Index(1),
                         arguments.getSize(sums, 2)});
  };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, const Items &items,
                 Value terms) {
    KeysPoint point(k, arguments, source.layout.point, source.lowering.plan);
    RunningPass pass{k, arguments, point, sum, table, terms};
    Index ranges = arguments.getSize(sums, 2);
    auto pullHead = [&](Index batch, Index head, Index range) {
      point.moveTo(batch, head);
      KernelBuilder::Range keys = getKeys(k, point, range, ranges);
      Index count = k.sub(keys.high, keys.low);
      Index blocks = k.ceilDiv(count, k.width());
      auto pullBlock = [&](Value step, ValueRange after) -> Values {
        Index block =
            k.add(keys.low, k.mul(k.sub(k.sub(blocks, 1), step), k.width()));
        Index lanes = k.min(k.width(), k.sub(keys.high, block));
        // Lanes past the last key have no gradient.
        k.store(k.broadcast(k.zero(k.f64)), terms);
        Values totals = k.loop(
            0, lanes, 1, after, [&](Value lane, ValueRange sofar) -> Values {
              Index place = k.sub(k.sub(lanes, 1), lane);
              Value seed = pass.loadSeed({batch, head}, k.add(block, place));
              Value total = k.addF64(sofar[0], seed);
              k.store(total, k.advance(terms, {place}, k.f64));
              return {total};
            });
        Value cotangents = k.load(k.vf64, terms);
        callPullback(k, sum.getBody().front(), {point.getKeysAt(block)},
                     {cotangents}, point);
        return totals;
      };
      Values carried{sumRanges(k, arguments, sums, {batch, head},
                               k.add(range, 1), ranges)};
      k.loop(0, blocks, 1, carried, pullBlock);
    };
    items.forEach([&](const Item &item) {
      point.setRange(item[1]);
      Index end = itemPerHead ? k.add(item[0], 1) : arguments.getSize(table, 1);
      k.nest({{itemPerHead ? item[0] : Index(0), end},
              {0, arguments.getSize(table, 0)}},
             [&](ValueRange at) { pullHead(at[1], at[0], item[1]); });
    });
  };
  source.create(suffix, {items, getScratchBytes, run});
}

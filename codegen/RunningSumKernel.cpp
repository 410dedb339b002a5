//===- RunningSumKernel.cpp - Kernels of running sums over keys -----------===//
//
// A hoisted running sum is a vector over the rows of a side. One pass over the
// keys of a head fills it; the gradient of a term is the sum of the vector's
// gradient over all rows that the term reaches, so one pass from the last key
// to the first pulls it back. Both sum in double: rows far apart differ by
// little of what they share.
//
//===----------------------------------------------------------------------===//

#include "codegen/HoistKernel.h"
#include "codegen/Payload.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

namespace {
/// A head of a batch element: all that the terms may ask about.
class HeadPoint : public ArgumentPoint {
public:
  HeadPoint(KernelBuilder &kernel, ArgumentBlock &arguments,
            const HoistKernel &source)
      : ArgumentPoint(kernel, arguments, source.layout.point,
                      source.lowering.plan, kernel.builder.getF64Type()) {}

  Value index(OpBuilder &, pos::Side) override { return {}; }
  Value coord(OpBuilder &, pos::Side, int64_t) override { return {}; }
  Value offset(OpBuilder &, int64_t) override { return {}; }
  Value lane(OpBuilder &) override { return {}; }
  Value hoisted(OpBuilder &builder, pos::HoistOp hoist) override {
    FailureOr<Value> value = emitHoist(builder, hoist, *this);
    return succeeded(value) ? *value : Value();
  }
  void addToHoisted(OpBuilder &, pos::HoistOp, Value) override {}
  bool wantsGradient(pos::HoistOp) override { return false; }
  using ArgumentPoint::wantsGradient;

  void moveTo(Index batch, Index head) {
    setBatch(kernel.toI32(batch));
    setHead(kernel.toI32(head));
  }
  Index getKeys() { return getExtent(pos::Extent::key); }
  /// Index of the first row of a side among the keys.
  Index getFirst(pos::Side side) {
    if (side == pos::Side::key)
      return 0;
    return kernel.sub(getKeys(), getExtent(pos::Extent::query));
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

static Index noScratch(KernelBuilder &, ArgumentBlock &) { return 0; }

static Value addF64(KernelBuilder &k, Value a, Value b) {
  return arith::AddFOp::create(k.builder, k.loc, a, b);
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
                 Index end, Value) {
    HeadPoint point(k, arguments, *this);
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
      Values carried{getZero(k)};
      k.loop(0, point.getKeys(), 1, carried,
             [&](Value key, ValueRange sofar) -> Values {
               FailureOr<SmallVector<Value>> term = emitPayload(
                   k.builder, sum.getBody().front(), {k.toI32(key)}, point);
               if (failed(term)) {
                 result = failure();
                 return {sofar[0]};
               }
               Value total = addF64(k, sofar[0], term->front());
               k.when(k.compare(arith::CmpIPredicate::sge, key, first), [&] {
                 Value narrow =
                     arith::TruncFOp::create(k.builder, k.loc, k.f32, total);
                 k.store(narrow, arguments.getAddress(
                                     table, {batch, head, k.sub(key, first)}));
               });
               return {total};
             });
    });
  };
  createKernel(lowering.kernels, lowering.getLoc(),
               lowering.getKernelName(suffix), operands, lowering.target.vector,
               {items, noScratch, run});
  return result;
}

LogicalResult HoistKernel::createRunningPullback(StringRef suffix,
                                                 pos::RunningSumOp sum,
                                                 bool itemPerHead) const {
  LogicalResult result = success();
  unsigned table = layout.table;
  auto items = [&](KernelBuilder &, ArgumentBlock &arguments) {
    return itemPerHead ? arguments.getSize(table, 1) : Index(1);
  };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, Index begin,
                 Index end, Value) {
    HeadPoint point(k, arguments, *this);
    Index first = point.getFirst(sum.getSide());
    auto pullHead = [&](Index batch, Index head) {
      point.moveTo(batch, head);
      Index keys = point.getKeys();
      Values carried{getZero(k)};
      k.loop(0, keys, 1, carried, [&](Value step, ValueRange after) -> Values {
        Index key = k.sub(k.sub(keys, 1), step);
        Value seed =
            k.choose(
                 k.compare(arith::CmpIPredicate::sge, key, first), k.f32,
                 [&]() -> Values {
                   return {k.loadF32(arguments.getAddress(
                       table, {batch, head, k.sub(key, first)}))};
                 },
                 [&]() -> Values { return {k.constantF32(0.0)}; })
                .front();
        Value wide = arith::ExtFOp::create(k.builder, k.loc,
                                           k.builder.getF64Type(), seed);
        Value total = addF64(k, after[0], wide);
        if (failed(emitPullback(k.builder, sum.getBody().front(),
                                {k.toI32(key)}, {total}, point)))
          result = failure();
        return {total};
      });
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
               lowering.getKernelName(suffix), operands, lowering.target.vector,
               {items, noScratch, run});
  return result;
}

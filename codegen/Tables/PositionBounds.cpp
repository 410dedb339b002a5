//===- PositionBounds.cpp - The range of given positions ------------------===//

#include "codegen/Tables/PositionBounds.h"
#include "codegen/Tables/ArgumentPoint.h"
#include "codegen/Tables/RowBounds.h"
#include "dialects/Exec/IR/Exec.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"
#include <limits>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using pos::Bound;
using pos::Side;

Index codegen::getIndexBound(KernelBuilder &kernel, Bound bound, Side side,
                             Index shift, Index queries, Index keys) {
  bool isKey = side == Side::key;
  if (bound == Bound::least)
    return isKey ? Index(0) : shift;
  return kernel.sub(isKey ? keys : kernel.add(shift, queries), 1);
}

namespace {
/// Launches a kernel of one item that fills a buffer from the coordinates in
/// use, which launches before it have found by ranges.
class BoundsFiller {
public:
  BoundsFiller(const Lowering &lowering, StringRef name, int64_t axes);

  /// Called for each axis with the bounds of both sides: `base` is that of the
  /// buffer.
  using StoreBounds =
      llvm::function_ref<void(KernelBuilder &k, Value base, int64_t axis,
                              NumberBounds query, NumberBounds key)>;
  Value fill(RankedTensorType type, StoreBounds store);

private:
  NumberBounds find(KernelBuilder &k, ArgumentBlock &arguments, Side side,
                    int64_t axis) const;

  const Lowering &lowering;
  StringRef name;
  int64_t axes;
  LaunchOperands operands;
  PointLayout layout;
  std::optional<unsigned> ofQueries, ofKeys; ///< of positions: see RowBounds.h
};
} // namespace

BoundsFiller::BoundsFiller(const Lowering &lowering, StringRef name,
                           int64_t axes)
    : lowering(lowering), name(name), axes(axes) {
  OwnerOperands owner = getOwnerOperands(lowering.plan.owner);
  auto columns = llvm::to_vector(llvm::seq<int64_t>(0, axes));
  auto launch = [&](Value positions, const Twine &suffix) {
    return operands.read(launchRowBounds(lowering, (name + suffix).str(),
                                         positions, columns, RowBatch::All));
  };
  layout = addPointOperands(lowering, operands, [](unsigned) { return false; });
  if (owner.queryPositions)
    ofQueries = launch(owner.queryPositions, "_of_queries");
  if (owner.keyPositions)
    ofKeys = owner.keyPositions == owner.queryPositions
                 ? ofQueries
                 : launch(owner.keyPositions, "_of_keys");
}

NumberBounds BoundsFiller::find(KernelBuilder &k, ArgumentBlock &arguments,
                                Side side, int64_t axis) const {
  if (auto given = side == Side::key ? ofKeys : ofQueries)
    return joinRowBounds(k, arguments, *given, /*element=*/std::nullopt, axis);
  Index queries = arguments.getScalar(layout.firstScalar + 3);
  Index keys = arguments.getScalar(layout.firstScalar + 4);
  Index shift = k.sub(keys, queries);
  if (layout.queryTail)
    shift = k.sub(shift, arguments.getSize(*layout.queryTail, 0));
  return {getIndexBound(k, Bound::least, side, shift, queries, keys),
          getIndexBound(k, Bound::greatest, side, shift, queries, keys)};
}

Value BoundsFiller::fill(RankedTensorType type, StoreBounds store) {
  Value buffer = lowering.allocate(type, {});
  unsigned number = operands.write(buffer);
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, const Items &items,
                 Value) {
    items.forEach([&](const Item &) {
      Value base = arguments.getPointer(number);
      for (int64_t axis = 0; axis < axes; ++axis) {
        NumberBounds query = find(k, arguments, Side::query, axis);
        store(k, base, axis, query, find(k, arguments, Side::key, axis));
      }
    });
  };
  operands.launch(lowering, name, {oneItem, noScratch, run});
  return buffer;
}

/// The number of axes that ops of this kind ask about.
template <typename Op> static int64_t countAxes(Region &sites) {
  int64_t axes = 0;
  sites.walk([&](Op op) { axes = std::max<int64_t>(axes, op.getAxis() + 1); });
  return axes;
}

Value codegen::launchBounds(const Lowering &lowering) {
  pos::SitesOwnerInterface owner = lowering.plan.owner;
  int64_t axes = countAxes<pos::BoundOp>(owner.getSitesRegion());
  if (axes == 0 || !lowering.plan.hasPositions)
    return Value();
  auto type = RankedTensorType::get({4 * axes}, lowering.builder.getI32Type());
  return BoundsFiller(lowering, "bounds", axes)
      .fill(type, [](KernelBuilder &k, Value base, int64_t axis,
                     NumberBounds query, NumberBounds key) {
        int64_t entry = 4 * axis;
        for (Index bound :
             {query.least, query.greatest, key.least, key.greatest})
          k.store(k.toI32(bound), k.advance(base, {entry++}, k.i32));
      });
}

namespace {

/// What a check of given positions looks at, per axis: how many coordinates lie
/// between the least and the greatest, both included, and the greatest
/// difference of a key and a query, and of a query and a key.
enum class Span : int64_t { All, KeyMinusQuery, QueryMinusKey };
constexpr int64_t spansPerAxis = 3;

/// Checks of the coordinates in use: of indices by integers of the program, of
/// given positions by a buffer i64 [3 axes].
class SpanChecker {
public:
  explicit SpanChecker(const Lowering &lowering)
      : lowering(lowering), builder(lowering.builder), loc(lowering.getLoc()) {}

  void require(pos::RequireSpanOp op);
  /// An offset is computed with 32 bits, on every target.
  void offsets(int64_t axis);

private:
  Value constant(int64_t number) {
    return arith::ConstantIndexOp::create(builder, loc, number);
  }
  void atMost(Span span, int64_t axis, int64_t most, const Twine &message);
  void launch();

  const Lowering &lowering;
  OpBuilder &builder;
  Location loc;
  Value spans;
};
} // namespace

void SpanChecker::launch() {
  pos::SitesOwnerInterface owner = lowering.plan.owner;
  Region &sites = owner.getSitesRegion();
  int64_t axes = std::max(countAxes<pos::RequireSpanOp>(sites),
                          countAxes<pos::OffsetOp>(sites));
  Type wide = builder.getI64Type();
  spans =
      BoundsFiller(lowering, "spans", axes)
          .fill(RankedTensorType::get({spansPerAxis * axes}, wide),
                [&](KernelBuilder &k, Value base, int64_t axis,
                    NumberBounds query, NumberBounds key) {
                  Index least = k.min(query.least, key.least);
                  Index greatest = k.max(query.greatest, key.greatest);
                  int64_t entry = spansPerAxis * axis;
                  for (Index span : {k.add(k.sub(greatest, least), 1),
                                     k.sub(key.greatest, query.least),
                                     k.sub(query.greatest, key.least)})
                    k.store(k.value(span), k.advance(base, {entry++}, wide));
                });
}

void SpanChecker::atMost(Span span, int64_t axis, int64_t most,
                         const Twine &message) {
  if (!spans)
    launch();
  exec::CheckDataOp::create(
      builder, loc, spans, spansPerAxis * axis + static_cast<int64_t>(span),
      exec::Predicate::at_most, constant(most), message.str());
}

void SpanChecker::require(pos::RequireSpanOp op) {
  APInt limit;
  matchPattern(op.getLimit(), m_ConstantInt(&limit));
  if (lowering.plan.hasPositions)
    return atMost(Span::All, op.getAxis(), limit.getSExtValue(),
                  op.getMessage());
  // Indices, aligned at the end.
  OwnerOperands operands = getOwnerOperands(lowering.plan.owner);
  unsigned lengthDim = operands.values.empty() ? 1 : 2;
  Value queries = lowering.getDim(operands.query, lengthDim);
  if (operands.queryTail)
    queries = arith::AddIOp::create(builder, loc, queries,
                                    lowering.getDim(operands.queryTail, 0));
  Value span = arith::MaxSIOp::create(builder, loc, queries,
                                      lowering.getDim(operands.key, lengthDim));
  exec::CheckOp::create(builder, loc, span, exec::Predicate::at_most,
                        constant(limit.getSExtValue()), op.getMessage());
}

void SpanChecker::offsets(int64_t axis) {
  auto check = [&](Span span, const Twine &which) {
    atMost(span, axis, std::numeric_limits<int32_t>::max(),
           which + " positions do not fit 32 bits as a difference (axis " +
               Twine(axis) + ")");
  };
  check(Span::KeyMinusQuery, "key minus query");
  check(Span::QueryMinusKey, "query minus key");
}

void codegen::emitSpanChecks(const Lowering &lowering) {
  pos::SitesOwnerInterface owner = lowering.plan.owner;
  Region &sites = owner.getSitesRegion();
  if (sites.empty())
    return;
  SpanChecker checker(lowering);
  for (auto op : sites.front().getOps<pos::RequireSpanOp>())
    checker.require(op);
  if (!lowering.plan.hasPositions)
    return;
  llvm::SmallSetVector<int64_t, 2> axes;
  sites.walk([&](pos::OffsetOp op) { axes.insert(op.getAxis()); });
  for (int64_t axis : axes)
    checker.offsets(axis);
}

Value codegen::loadBound(KernelBuilder &kernel, Value buffer, Bound bound,
                         Side side, int64_t axis) {
  int64_t entry = 4 * axis + (side == Side::key ? 2 : 0) +
                  (bound == Bound::greatest ? 1 : 0);
  return kernel.load(kernel.i32, kernel.advance(buffer, {entry}, kernel.i32));
}

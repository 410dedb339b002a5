//===- RowRanges.cpp - Ranges of what masks know of rows ------------------===//

#include "codegen/Tables/RowRanges.h"
#include "codegen/Tables/ArgumentPoint.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using pos::Side;

/// Ranges of one work item.
static constexpr int64_t rangesPerItem = 64;

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

SmallVector<RowSource> codegen::getRowSources(const KernelPlan &plan) {
  SmallVector<RowSource> sources;
  if (!plan.mask)
    return sources;
  auto add = [&](RowSource source) {
    if (llvm::none_of(sources, [&](const RowSource &known) {
          return known.side == source.side && known.axis == source.axis &&
                 known.hoisted == source.hoisted;
        }))
      sources.push_back(source);
  };
  OwnerOperands owner = getOwnerOperands(plan.owner);
  auto addPosition = [&](Side side, int64_t axis) {
    if (side == Side::key ? owner.keyPositions : owner.queryPositions)
      add({side, nullptr, axis});
  };
  auto mask = plan.mask;
  mask.walk([&](Operation *op) {
    llvm::TypeSwitch<Operation *>(op)
        .Case<pos::CoordOp>(
            [&](auto coord) { addPosition(coord.getSide(), coord.getAxis()); })
        .Case<pos::OffsetOp>([&](auto offset) {
          addPosition(Side::query, offset.getAxis());
          addPosition(Side::key, offset.getAxis());
        });
    for (Value operand : op->getOperands()) {
      auto hoist = operand.getDefiningOp<pos::HoistOp>();
      const Hoisted *hoisted = hoist ? plan.find(hoist) : nullptr;
      if (hoisted && hoisted->form == HoistForm::QueryVector)
        add({Side::query, hoisted, 0});
      if (hoisted && hoisted->form == HoistForm::KeyVector)
        add({Side::key, hoisted, 0});
    }
  });
  return sources;
}

//===----------------------------------------------------------------------===//
// Kernel
//===----------------------------------------------------------------------===//

namespace {
/// Numbers of the operands, and what the rows are.
struct RowRangeLaunch {
  unsigned values = 0, ranges = 0;
  std::optional<int64_t> axis; ///< of a position
  Index getLength(ArgumentBlock &arguments) const {
    return arguments.getSize(values, axis ? 1 : 2);
  }
  void emitRange(KernelBuilder &kernel, ArgumentBlock &arguments, Index batch,
                 Index head, Index block) const;
};
} // namespace

void RowRangeLaunch::emitRange(KernelBuilder &kernel, ArgumentBlock &arguments,
                               Index batch, Index head, Index block) const {
  OpBuilder &builder = kernel.builder;
  Location loc = kernel.loc;
  bool isFloat = isa<FloatType>(arguments.getElementType(ranges));
  auto load = [&](Index row) -> Value {
    Value address = axis ? arguments.getAddress(values, {batch, row, *axis})
                         : arguments.getAddress(values, {batch, head, row});
    Value value = kernel.load(arguments.getElementType(values), address);
    if (value.getType().isInteger(8))
      return arith::ExtUIOp::create(builder, loc, kernel.i32, value);
    return value;
  };
  auto least = [&](Value a, Value b) -> Value {
    if (isFloat) // either NaN gives NaN
      return arith::MinimumFOp::create(builder, loc, a, b);
    return arith::MinSIOp::create(builder, loc, a, b);
  };
  auto most = [&](Value a, Value b) -> Value {
    if (isFloat)
      return arith::MaximumFOp::create(builder, loc, a, b);
    return arith::MaxSIOp::create(builder, loc, a, b);
  };
  Index first = kernel.mul(block, rowsPerRange);
  Index end = kernel.min(kernel.add(first, rowsPerRange), getLength(arguments));
  Value start = load(first);
  KernelBuilder::Values range =
      kernel.loop(kernel.add(first, 1), end, 1, {start, start},
                  [&](Value row, ValueRange known) -> KernelBuilder::Values {
                    Value value = load(row);
                    return {least(known[0], value), most(known[1], value)};
                  });
  for (int64_t end : {0, 1})
    kernel.store(range[end],
                 arguments.getAddress(ranges, {end, batch, head, block}));
}

static void createKernelOf(const Lowering &lowering, StringRef suffix,
                           const RowRangeLaunch &source,
                           const KernelOperands &operands) {
  auto size = [&](ArgumentBlock &arguments, unsigned dim) {
    return arguments.getSize(source.ranges, dim);
  };
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(kernel, {size(arguments, 1),
                              size(arguments, 2),
                              {size(arguments, 3), rangesPerItem}});
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value) {
    items.forEach([&](const Item &item) {
      kernel.loop(item[2], item.end(2), 1, [&](Value block) {
        source.emitRange(kernel, arguments, item[0], item[1], block);
      });
    });
  };
  createKernel(lowering, suffix, operands, lowering.target,
               {items, noScratch, run});
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

SmallVector<Value> codegen::launchRowRanges(const Lowering &lowering,
                                            ArrayRef<Value> buffers) {
  const KernelPlan &plan = lowering.plan;
  OwnerOperands owner = getOwnerOperands(plan.owner);
  OpBuilder &builder = lowering.builder;
  Location loc = lowering.getLoc();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, loc, value);
  };
  SmallVector<Value> results;
  for (const RowSource &source : getRowSources(plan)) {
    bool isKey = source.side == Side::key;
    Value operand = isKey ? owner.key : owner.query;
    Value values, batch, heads = constant(1);
    RowRangeLaunch kernel;
    if (const Hoisted *hoisted = source.hoisted) {
      values = buffers[hoisted - plan.hoisted.begin()];
      batch = hoisted->perBatch ? lowering.getDim(operand, 0) : constant(1);
      if (hoisted->perHead)
        heads = lowering.getDim(owner.query, 1);
    } else {
      values = isKey ? owner.keyPositions : owner.queryPositions;
      batch = lowering.getDim(values, 0);
      kernel.axis = source.axis;
    }
    LaunchOperands operands;
    kernel.values = operands.read(values);
    Type element = operands.layout.tensors[kernel.values].getElementType();
    if (element.isInteger(8))
      element = builder.getI32Type();
    Value blocks = arith::CeilDivSIOp::create(
        builder, loc, lowering.getDim(operand, 2), constant(rowsPerRange));
    SmallVector<int64_t> shape(4, ShapedType::kDynamic);
    shape[0] = 2;
    results.push_back(lowering.allocate(RankedTensorType::get(shape, element),
                                        {Value(), batch, heads, blocks}));
    kernel.ranges = operands.write(results.back());
    std::string suffix = ("row_range" + Twine(results.size() - 1)).str();
    createKernelOf(lowering, suffix, kernel, operands.layout);
    operands.launch(lowering, suffix);
  }
  return results;
}

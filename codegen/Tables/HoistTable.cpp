//===- HoistTable.cpp - Launches of the tables of hoisted values ----------===//

#include "codegen/Tables/HoistTable.h"
#include "codegen/Tables/HoistGroup.h"
#include "codegen/Tables/HoistLaunch.h"
#include "codegen/Tables/OffsetRange.h"
#include "codegen/Tables/PiecewiseLinearTable.h"
#include "codegen/Tables/PositionBounds.h"
#include "codegen/Tables/RowRanges.h"
#include "dialects/Exec/IR/Exec.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using pos::RowOperand;

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

HoistGradientShape
codegen::getHoistGradientShape(const Lowering &lowering, const Hoisted &entry,
                               const HoistTableOptions &options) {
  OwnerOperands owner = getOwnerOperands(lowering.plan.owner);
  OpBuilder &builder = lowering.builder;
  Location loc = lowering.getLoc();
  bool isAttention = !owner.values.empty();
  bool isKey =
      entry.operand == RowOperand::key || entry.operand == RowOperand::value;
  Value operand = isKey ? owner.key : owner.query;
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, loc, value);
  };
  unsigned lengthDim = isAttention ? 2 : 1;
  constexpr int64_t dynamic = ShapedType::kDynamic;

  HoistGradientShape shape;
  SmallVector<int64_t> dims{entry.perBatch ? dynamic : 1,
                            entry.perHead ? dynamic : 1};
  shape.sizes.push_back(entry.perBatch ? lowering.getDim(operand, 0)
                                       : constant(1));
  if (entry.extent)
    dims.back() = entry.extent;
  shape.sizes.push_back(entry.perHead && isAttention
                            ? lowering.getDim(operand, 1)
                            : constant(std::max<int64_t>(entry.extent, 1)));
  switch (entry.form) {
  case HoistForm::HeadScalar:
    break;
  case HoistForm::OffsetTable: {
    Value sum = arith::AddIOp::create(builder, loc,
                                      lowering.getDim(owner.query, lengthDim),
                                      lowering.getDim(owner.key, lengthDim));
    Value size =
        lowering.plan.hasPositions
            ? arith::MulIOp::create(builder, loc, sum, constant(offsetsPerRow))
                  .getResult()
            : arith::AddIOp::create(builder, loc, sum,
                                    constant(2 * options.padding))
                  .getResult();
    dims.push_back(dynamic);
    shape.sizes.push_back(size);
    break;
  }
  case HoistForm::QueryVector:
    dims.push_back(dynamic);
    shape.sizes.push_back(lowering.getDim(owner.query, lengthDim));
    break;
  case HoistForm::KeyVector:
    dims.push_back(dynamic);
    shape.sizes.push_back(lowering.getDim(owner.key, lengthDim));
    break;
  case HoistForm::RowLaneTable: {
    int64_t groups = countTableColumns(lowering.plan, entry);
    dims.append({dynamic, groups});
    shape.sizes.append({lowering.getDim(operand, lengthDim), constant(groups)});
    break;
  }
  }
  shape.type = RankedTensorType::get(dims, builder.getF32Type());
  return shape;
}

static Value allocateTable(const Lowering &lowering, const Hoisted &entry,
                           const HoistTableOptions &options) {
  HoistGradientShape shape = getHoistGradientShape(lowering, entry, options);
  Type element = getElementTypeOrSelf(entry.op->getResult(0).getType());
  if (element.isInteger(1))
    element = lowering.builder.getIntegerType(8);
  return lowering.allocate(
      RankedTensorType::get(shape.type.getShape(), element), shape.sizes);
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

namespace {
/// What the body of a hoist needs; scalars per head are emitted in place, so
/// their needs count as well.
struct Needs {
  llvm::SmallSetVector<unsigned, 4> params;
  llvm::SmallSetVector<Operation *, 4> hoists; ///< with a buffer
  llvm::SmallSetVector<Operation *, 4> scalars;
};
} // namespace

/// The tensor that an op of a payload reads elements of, null for other ops.
static Value getReadParam(Operation *op) {
  if (auto read = dyn_cast<pos::ReadOp>(op))
    return read.getTensor();
  if (auto contract = dyn_cast<pos::ContractOp>(op))
    return contract.getMatrix();
  if (auto elements = dyn_cast<pos::ElementsOp>(op))
    return elements.getParam();
  return {};
}

static void collectNeeds(const KernelPlan &plan, const Hoisted &entry,
                         Needs &needs) {
  entry.op->walk([&](Operation *op) {
    if (auto read = dyn_cast<pos::ReadOp>(op))
      if (auto param = dyn_cast<BlockArgument>(read.getTensor()))
        needs.params.insert(param.getArgNumber());
    for (Value value : op->getOperands()) {
      auto hoist = value.getDefiningOp<pos::HoistOp>();
      if (!hoist)
        continue;
      const Hoisted *used = plan.find(hoist, entry.operand);
      assert(used && "a hoist is planned for the operands of its users");
      if (used->form == HoistForm::HeadScalar) {
        needs.scalars.insert(hoist);
        collectNeeds(plan, *used, needs);
      } else {
        needs.hoists.insert(hoist);
      }
    }
  });
}

static unsigned getNumber(const KernelPlan &plan, Operation *hoist,
                          RowOperand operand) {
  return plan.find(cast<pos::HoistOp>(hoist), operand) - plan.hoisted.begin();
}

/// Adds what both kernels of a group of hoists read.
static HoistLayout addReads(const Lowering &lowering, const HoistTables &tables,
                            ArrayRef<unsigned> group,
                            LaunchOperands &operands) {
  const Hoisted &entry = lowering.plan.hoisted[group.front()];
  Needs needs;
  for (unsigned number : group)
    collectNeeds(lowering.plan, lowering.plan.hoisted[number], needs);
  HoistLayout layout;
  layout.point = addPointOperands(lowering, operands, [&](unsigned number) {
    return needs.params.contains(number);
  });
  for (Operation *hoist : needs.hoists)
    layout.buffers[hoist] = operands.read(
        tables.buffers[getNumber(lowering.plan, hoist, entry.operand)]);
  if (tables.offsets.range && entry.form == HoistForm::OffsetTable)
    layout.range = operands.read(tables.offsets.range);
  if (entry.extent)
    layout.packed = operands.read(tables.packed);
  if (tables.bounds)
    layout.point.bounds = operands.read(tables.bounds);
  return layout;
}

//===----------------------------------------------------------------------===//
// Filling
//===----------------------------------------------------------------------===//

/// The rows that queries of an attention read at their indices: as many as
/// there are up to the last query's, and one for any query before them.
static Value countRowsAtIndex(const Lowering &lowering) {
  OpBuilder &builder = lowering.builder;
  Location loc = lowering.getLoc();
  OwnerOperands owner = getOwnerOperands(lowering.plan.owner);
  Value rows = lowering.getDim(owner.key, 2);
  if (owner.queryTail)
    rows = arith::SubIOp::create(builder, loc, rows,
                                 lowering.getDim(owner.queryTail, 0));
  Value any =
      arith::MinSIOp::create(builder, loc, lowering.getDim(owner.query, 2),
                             arith::ConstantIndexOp::create(builder, loc, 1));
  return arith::MaxSIOp::create(builder, loc, rows, any);
}

/// The parameter that is the table of a value, of which kernels read without a
/// look at its sizes: they are checked here.
static Value useInPlace(const Lowering &lowering, const Hoisted &entry) {
  pos::SitesOwnerInterface owner = lowering.plan.owner;
  Value param = owner.getParamOperands()[*entry.param];
  HoistGradientShape shape = getHoistGradientShape(lowering, entry, {});
  bool isOfQueries = entry.isAtIndex && entry.operand == RowOperand::query &&
                     lowering.plan.inputRows.empty();
  if (isOfQueries)
    shape.sizes[2] = countRowsAtIndex(lowering);
  StringRef names[] = {"heads than",
                       isOfQueries ? "rows than indices of" : "rows than",
                       "lanes than"};
  for (auto [dim, name] : llvm::enumerate(names))
    exec::CheckOp::create(
        lowering.builder, lowering.getLoc(), shape.sizes[dim + 1],
        exec::Predicate::at_most, lowering.getDim(param, dim + 1),
        ("a row map reads a parameter that has fewer " + name + " its " +
         pos::stringifyRowOperand(entry.operand))
            .str());
  return param;
}

HoistTables codegen::launchHoists(const Lowering &lowering,
                                  const HoistTableOptions &options,
                                  const AllHeadsWeights *weights,
                                  Value packed) {
  const KernelPlan &plan = lowering.plan;
  HoistTables tables{options, {},      {},     launchBounds(lowering),
                     {},      weights, packed, {}};
  bool hasOffsets = llvm::any_of(plan.hoisted, [](const Hoisted &entry) {
    return entry.form == HoistForm::OffsetTable;
  });
  if (plan.hasPositions && hasOffsets)
    tables.offsets = launchOffsetRange(lowering, options.order);
  tables.buffers.resize(plan.hoisted.size());
  for (auto [entry, buffer] : llvm::zip_equal(plan.hoisted, tables.buffers))
    if (entry.param)
      buffer = useInPlace(lowering, entry);
  for (ArrayRef<unsigned> group : groupHoists(plan)) {
    const Hoisted &entry = plan.hoisted[group.front()];
    if (entry.form == HoistForm::HeadScalar || entry.param)
      continue;
    LaunchOperands operands;
    HoistLayout layout = addReads(lowering, tables, group, operands);
    SmallVector<HoistMember> members;
    for (unsigned number : group) {
      Value &buffer = tables.buffers[number];
      buffer = allocateTable(lowering, plan.hoisted[number], options);
      members.push_back({plan.hoisted[number].op, operands.write(buffer)});
    }
    layout.table = members.front().table;
    std::string suffix = ("hoist" + Twine(group.front())).str();
    HoistLaunch kernel{lowering, entry,           options, layout,
                       members,  operands.layout, weights};
    kernel.createFill(suffix);
    operands.launch(lowering, suffix);
  }
  tables.hinges = launchPiecewiseLinearTables(lowering, tables.bounds);
  tables.rowRanges = launchRowRanges(lowering, tables.buffers);
  return tables;
}

//===----------------------------------------------------------------------===//
// Pullback
//===----------------------------------------------------------------------===//

/// Whether heads add to separate elements: every wanted parameter is read at
/// the head itself, and every earlier hoist has one value per head.
static bool isSeparatePerHead(const Lowering &lowering, const Hoisted &entry,
                              ArrayRef<Value> paramGradients) {
  bool separate = entry.perHead;
  entry.op->walk([&](Operation *op) {
    if (auto read = dyn_cast<pos::ReadOp>(op)) {
      auto param = dyn_cast<BlockArgument>(read.getTensor());
      if (param && paramGradients[param.getArgNumber()])
        separate &= llvm::any_of(read.getIndices(), [](Value index) {
          return index.getDefiningOp<pos::HeadOp>() != nullptr;
        });
    }
    for (Value value : op->getOperands())
      if (auto hoist = value.getDefiningOp<pos::HoistOp>()) {
        const Hoisted *used = lowering.plan.find(hoist, entry.operand);
        separate &= !used->wantsGradient || used->perHead;
      }
  });
  return separate;
}

void codegen::launchHoistPullbacks(const Lowering &lowering,
                                   const HoistTables &tables,
                                   ArrayRef<Value> gradients,
                                   ArrayRef<Value> paramGradients) {
  const KernelPlan &plan = lowering.plan;
  SmallVector<SmallVector<unsigned>> groups = groupHoists(plan);
  for (SmallVector<unsigned> &group : llvm::reverse(groups)) {
    const Hoisted &entry = plan.hoisted[group.front()];
    llvm::erase_if(group, [&](unsigned number) { return !gradients[number]; });
    if (!entry.wantsGradient || group.empty())
      continue;
    LaunchOperands operands;
    HoistLayout layout = addReads(lowering, tables, group, operands);
    SmallVector<HoistMember> members;
    Needs needs, own;
    bool isSeparate = true;
    for (unsigned number : group) {
      const Hoisted &member = plan.hoisted[number];
      members.push_back({member.op, operands.read(gradients[number])});
      collectNeeds(plan, member, needs);
      isSeparate &= isSeparatePerHead(lowering, member, paramGradients);
      // The needs of scalars are theirs to pull back, in their own launch.
      auto op = member.op;
      op->walk([&](Operation *nested) {
        Value tensor = getReadParam(nested);
        if (auto param = dyn_cast_or_null<BlockArgument>(tensor))
          own.params.insert(param.getArgNumber());
      });
    }
    layout.table = members.front().table;
    for (unsigned param : own.params)
      if (paramGradients[param])
        layout.point.paramGradients[param] =
            operands.write(paramGradients[param]);
    for (auto &set : {needs.hoists, needs.scalars})
      for (Operation *hoist : set) {
        unsigned earlier = getNumber(plan, hoist, entry.operand);
        if (plan.hoisted[earlier].wantsGradient && gradients[earlier])
          layout.gradients[hoist] = operands.write(gradients[earlier]);
      }
    std::string suffix = ("hoist" + Twine(group.front()) + "_pullback").str();
    HoistLaunch kernel{lowering, entry,           tables.options, layout,
                       members,  operands.layout, tables.weights};
    kernel.createPullback(suffix, isSeparate);
    operands.launch(lowering, suffix);
  }
}

//===- HoistTable.cpp - Launches of the tables of hoisted values ----------===//

#include "codegen/Tables/HoistTable.h"
#include "codegen/Emit/Sizes.h"
#include "codegen/Tables/HoistGroup.h"
#include "codegen/Tables/HoistLaunch.h"
#include "codegen/Tables/HoistReads.h"
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
    auto sum = [&](int64_t unit) {
      auto count = [&](Value rows) {
        Value length = lowering.getDim(rows, lengthDim);
        return unit == 1 ? length : Sizes{lowering}.roundUp(length, unit);
      };
      return arith::AddIOp::create(builder, loc, count(owner.query),
                                   count(owner.key))
          .getResult();
    };
    Value size = lowering.plan.hasPositions
                     ? arith::MulIOp::create(builder, loc, sum(1),
                                             constant(offsetsPerRow))
                           .getResult()
                     : arith::AddIOp::create(builder, loc, sum(options.unit),
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
/// What the body of a hoist needs; what is emitted in place, scalars per head
/// among it, has needs that count as well.
struct Needs {
  llvm::SmallSetVector<unsigned, 4> params;
  llvm::SmallSetVector<Operation *, 4> hoists; ///< with a buffer
  llvm::SmallSetVector<Operation *, 4> inPlace;
};
} // namespace

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
      if (used->isEmittedInPlace) {
        needs.inPlace.insert(hoist);
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

HoistLayout codegen::addHoistReads(const Lowering &lowering,
                                   const HoistTables &tables,
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

/// Launches the sums of ranges of a running sum's terms, or of the gradients of
/// its vector.
static Value launchRanges(const Lowering &lowering, const HoistTables &tables,
                          unsigned number, Value ranges, StringRef suffix,
                          Value gradient) {
  const Hoisted &entry = lowering.plan.hoisted[number];
  LaunchOperands operands;
  HoistLayout layout = addHoistReads(lowering, tables, {number}, operands);
  std::optional<unsigned> source;
  if (gradient)
    source = operands.read(gradient);
  HoistGradientShape shape =
      getHoistGradientShape(lowering, entry, tables.options);
  Value sums = lowering.allocate(
      RankedTensorType::get({shape.type.getDimSize(0), shape.type.getDimSize(1),
                             ShapedType::kDynamic},
                            lowering.builder.getF64Type()),
      {shape.sizes[0], shape.sizes[1], ranges});
  layout.table = operands.write(sums);
  HoistLaunch kernel{lowering, entry,           tables.options, layout,
                     {},       operands.layout, tables.weights};
  std::string name = (suffix + "_ranges").str();
  createRunningRanges(kernel, name, getRunningSum(entry), source);
  operands.launch(lowering, name);
  return sums;
}

/// Keys that a range of a running sum has at least.
static constexpr int64_t leastKeys = 256;

static Value countKeys(const Lowering &lowering) {
  OwnerOperands owner = getOwnerOperands(lowering.plan.owner);
  return lowering.getDim(owner.key, owner.values.empty() ? 1 : 2);
}

HoistTables codegen::launchHoists(const Lowering &lowering,
                                  const HoistTableOptions &options,
                                  const AllHeadsWeights *weights, Value packed,
                                  ArrayRef<unsigned> leftOut) {
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
    bool isLeftOut = llvm::all_of(group, [&](unsigned number) {
      return llvm::is_contained(leftOut, number);
    });
    if (entry.isEmittedInPlace || entry.param || isLeftOut)
      continue;
    std::string suffix = ("hoist" + Twine(group.front())).str();
    Value rangeSums;
    if (getRunningSum(entry))
      rangeSums = launchRanges(
          lowering, tables, group.front(),
          countRanges(lowering, countKeys(lowering), leastKeys), suffix, {});
    LaunchOperands operands;
    HoistLayout layout = addHoistReads(lowering, tables, group, operands);
    if (rangeSums)
      layout.rangeSums = operands.read(rangeSums);
    SmallVector<HoistMember> members;
    for (unsigned number : group) {
      Value &buffer = tables.buffers[number];
      buffer = allocateTable(lowering, plan.hoisted[number], options);
      members.push_back({plan.hoisted[number].op, operands.write(buffer)});
    }
    layout.table = members.front().table;
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

/// What a range of a pullback has at least: columns, of which a vector is
/// enough where items are what runs meanwhile, or rows of lanes.
static constexpr int64_t columnsPerRange = 256, leastRows = 32;

namespace {
/// The pullbacks of an op's hoisted values.
class HoistPullbacks {
public:
  HoistPullbacks(const Lowering &lowering, const HoistTables &tables,
                 ArrayRef<Value> gradients, ParamSums &params)
      : lowering(lowering), plan(lowering.plan), tables(tables),
        gradients(gradients), ofRanges(gradients.size()), params(params) {}

  /// Of a group, after those that use its values.
  void launch(ArrayRef<unsigned> group);

private:
  Value countRanges(const Hoisted &entry, ArrayRef<unsigned> shared);
  SmallVector<unsigned> getOwnParams(ArrayRef<unsigned> group) const;
  Value addSums(unsigned scalar, Value ranges);
  void addEarlier(ArrayRef<unsigned> group, Value ranges, HoistLayout &layout,
                  LaunchOperands &operands);

  const Lowering &lowering;
  const KernelPlan &plan;
  const HoistTables &tables;
  ArrayRef<Value> gradients;
  /// Sums of ranges of scalars per head, as `gradients`.
  SmallVector<SmallVector<Value>> ofRanges;
  ParamSums &params;
};
} // namespace

/// Into how many ranges a pullback is cut; null for scalars, which are few.
Value HoistPullbacks::countRanges(const Hoisted &entry,
                                  ArrayRef<unsigned> shared) {
  if (entry.form == HoistForm::HeadScalar)
    return {};
  if (getRunningSum(entry))
    return params.countRanges(countKeys(lowering), leastKeys, shared);
  bool hasRows = entry.form == HoistForm::RowLaneTable;
  HoistGradientShape shape =
      getHoistGradientShape(lowering, entry, tables.options);
  int64_t leastColumns = lowering.target.countPerItem(columnsPerRange);
  return params.countRanges(shape.sizes[2], hasRows ? leastRows : leastColumns,
                            shared);
}

/// What the bodies of a group read themselves: the needs of scalars are theirs
/// to pull back, in their own launch.
SmallVector<unsigned>
HoistPullbacks::getOwnParams(ArrayRef<unsigned> group) const {
  llvm::SmallSetVector<unsigned, 4> own;
  for (unsigned number : group) {
    auto op = plan.hoisted[number].op;
    op->walk([&](Operation *nested) {
      auto param = dyn_cast_or_null<BlockArgument>(getReadParam(nested));
      if (param && params.isWanted(param.getArgNumber()))
        own.insert(param.getArgNumber());
    });
  }
  return own.takeVector();
}

/// Zeros for the sums of ranges of a scalar per head.
Value HoistPullbacks::addSums(unsigned scalar, Value ranges) {
  auto type = cast<RankedTensorType>(gradients[scalar].getType());
  SmallVector<int64_t> shape{ShapedType::kDynamic};
  llvm::append_range(shape, type.getShape());
  if (!ranges)
    ranges =
        arith::ConstantIndexOp::create(lowering.builder, lowering.getLoc(), 1);
  Value sums = lowering.allocate(
      RankedTensorType::get(shape, lowering.builder.getF64Type()),
      {ranges, lowering.getDim(gradients[scalar], 0),
       lowering.getDim(gradients[scalar], 1)},
      /*zero=*/true);
  ofRanges[scalar].push_back(sums);
  return sums;
}

/// Adds the gradients of the earlier hoists that a group uses.
void HoistPullbacks::addEarlier(ArrayRef<unsigned> group, Value ranges,
                                HoistLayout &layout, LaunchOperands &operands) {
  Needs needs;
  for (unsigned number : group)
    collectNeeds(plan, plan.hoisted[number], needs);
  RowOperand operand = plan.hoisted[group.front()].operand;
  for (auto &set : {needs.hoists, needs.inPlace})
    for (Operation *hoist : set) {
      unsigned earlier = getNumber(plan, hoist, operand);
      const Hoisted &used = plan.hoisted[earlier];
      if (used.wantsGradient && gradients[earlier])
        layout.gradients[hoist] = operands.write(
            used.form == HoistForm::HeadScalar ? addSums(earlier, ranges)
                                               : gradients[earlier]);
    }
}

void HoistPullbacks::launch(ArrayRef<unsigned> group) {
  const Hoisted &entry = plan.hoisted[group.front()];
  SmallVector<unsigned> own = getOwnParams(group), shared;
  llvm::copy_if(own, std::back_inserter(shared), [&](unsigned param) {
    return !isSeparatePerRow(plan, group, param);
  });
  Value ranges = countRanges(entry, shared);
  std::string suffix = ("hoist" + Twine(group.front()) + "_pullback").str();
  Value rangeSums;
  if (getRunningSum(entry))
    rangeSums = launchRanges(lowering, tables, group.front(), ranges, suffix,
                             gradients[group.front()]);
  LaunchOperands operands;
  HoistLayout layout = addHoistReads(lowering, tables, group, operands);
  if (rangeSums)
    layout.rangeSums = operands.read(rangeSums);
  SmallVector<HoistMember> members;
  for (unsigned number : group) {
    members.push_back(
        {plan.hoisted[number].op, operands.read(gradients[number])});
    for (Value sums : ofRanges[number])
      members.back().ofRanges.push_back(operands.read(sums));
  }
  layout.table = members.front().table;
  if (ranges) {
    layout.ranges = operands.scalar(ranges);
    layout.point.ofRanges.insert_range(shared);
  }
  for (unsigned param : own)
    layout.point.paramGradients[param] = operands.write(
        layout.point.ofRanges.contains(param) ? params.addRanges(param, ranges)
                                              : params.getSum(param));
  addEarlier(group, ranges, layout, operands);
  HoistLaunch kernel{lowering, entry,           tables.options, layout,
                     members,  operands.layout, tables.weights};
  kernel.createPullback(suffix, isSeparatePerHead(plan, group, own));
  operands.launch(lowering, suffix);
}

void codegen::launchHoistPullbacks(const Lowering &lowering,
                                   const HoistTables &tables,
                                   ArrayRef<Value> gradients,
                                   ParamSums &params) {
  HoistPullbacks pullbacks(lowering, tables, gradients, params);
  SmallVector<SmallVector<unsigned>> groups = groupHoists(lowering.plan);
  for (SmallVector<unsigned> &group : llvm::reverse(groups)) {
    bool isWanted = lowering.plan.hoisted[group.front()].wantsGradient;
    llvm::erase_if(group, [&](unsigned number) { return !gradients[number]; });
    if (isWanted && !group.empty())
      pullbacks.launch(group);
  }
}

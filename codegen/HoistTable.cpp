//===- HoistTable.cpp - Launches of the tables of hoisted values ----------===//

#include "codegen/HoistTable.h"
#include "codegen/HingeTable.h"
#include "codegen/HoistKernel.h"
#include "codegen/OffsetRange.h"
#include "codegen/PositionBounds.h"
#include "codegen/RowRanges.h"
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

/// Groups of lanes that the row maps using a hoisted value run over, or columns
/// that are made of it.
static int64_t getNumGroups(const KernelPlan &plan, const Hoisted &entry) {
  int64_t groups = plan.countColumns(entry.op);
  if (groups > 0)
    return groups;
  for (const SmallVector<RowMap> *maps :
       {&plan.queryRows, &plan.keyRows, &plan.valueRows, &plan.inputRows})
    for (const RowMap &map : *maps)
      groups = std::max(groups, map.getNumGroups());
  return groups;
}

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
    int64_t groups = getNumGroups(lowering.plan, entry);
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

/// Adds what both kernels of a hoist read.
static HoistLayout addReads(const Lowering &lowering, const HoistTables &tables,
                            const Hoisted &entry, LaunchOperands &operands) {
  Needs needs;
  collectNeeds(lowering.plan, entry, needs);
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

FailureOr<HoistTables> codegen::launchHoists(const Lowering &lowering,
                                             const HoistTableOptions &options,
                                             const HeadsWeights *weights,
                                             Value packed) {
  const KernelPlan &plan = lowering.plan;
  HoistTables tables{options, {},      {},     launchBounds(lowering),
                     {},      weights, packed, {}};
  bool hasOffsets = llvm::any_of(plan.hoisted, [](const Hoisted &entry) {
    return entry.form == HoistForm::OffsetTable;
  });
  if (plan.hasPositions && hasOffsets)
    tables.offsets = launchOffsetRange(lowering, options.order);
  for (auto [number, entry] : llvm::enumerate(plan.hoisted)) {
    if (entry.form == HoistForm::HeadScalar) {
      tables.buffers.push_back({});
      continue;
    }
    LaunchOperands operands;
    HoistLayout layout = addReads(lowering, tables, entry, operands);
    tables.buffers.push_back(allocateTable(lowering, entry, options));
    layout.table = operands.write(tables.buffers.back());
    std::string suffix = ("hoist" + Twine(number)).str();
    HoistKernel kernel{lowering, entry,           options,
                       layout,   operands.layout, weights};
    if (failed(kernel.createFill(suffix)))
      return failure();
    operands.launch(lowering, suffix);
  }
  FailureOr<SmallVector<Value>> hinges =
      launchHingeTables(lowering, tables.bounds);
  if (failed(hinges))
    return failure();
  tables.hinges = *hinges;
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

LogicalResult codegen::launchHoistPullbacks(const Lowering &lowering,
                                            const HoistTables &tables,
                                            ArrayRef<Value> gradients,
                                            ArrayRef<Value> paramGradients) {
  const KernelPlan &plan = lowering.plan;
  for (int64_t number = plan.hoisted.size() - 1; number >= 0; --number) {
    const Hoisted &entry = plan.hoisted[number];
    if (!entry.wantsGradient || !gradients[number])
      continue;
    LaunchOperands operands;
    HoistLayout layout = addReads(lowering, tables, entry, operands);
    layout.table = operands.read(gradients[number]);
    Needs needs;
    collectNeeds(plan, entry, needs);
    // The needs of scalars are theirs to pull back, in their own launch.
    Needs own;
    entry.op->walk([&](Operation *op) {
      Value tensor = getReadParam(op);
      if (auto param = dyn_cast_or_null<BlockArgument>(tensor))
        own.params.insert(param.getArgNumber());
    });
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
    std::string suffix = ("hoist" + Twine(number) + "_pullback").str();
    HoistKernel kernel{lowering, entry,           tables.options,
                       layout,   operands.layout, tables.weights};
    if (failed(kernel.createPullback(
            suffix, isSeparatePerHead(lowering, entry, paramGradients))))
      return failure();
    operands.launch(lowering, suffix);
  }
  return success();
}

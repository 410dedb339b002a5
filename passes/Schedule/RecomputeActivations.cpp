//===- RecomputeActivations.cpp - Makes cheap values of the forward again -===//
//
// What the forward makes for the backward lives through both. A value that one
// pass over other kept values makes need not: the backward makes it again
// where it reads it first, and the forward frees it after its own last use. So
// of an MLP only the input of its activation is kept, of a normalisation its
// input. The bits are the same.
//
// Only operands that live at that place anyway are read again: keeping another
// one would cost what was gained. And functions such as gelu are evaluated
// again only where products with many columns cover their time. What is small
// beside activations stays: statistics of rows, and what is made of parameters,
// of which a step holds four tensors of f32 each.
//
//===----------------------------------------------------------------------===//

#include "dialects/Nn/IR/Nn.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/Schedule/Memory.h"
#include "passes/Schedule/Schedule.h"

namespace sextant::passes {
#define GEN_PASS_DEF_RECOMPUTEACTIVATIONS
#include "passes/Schedule/Schedule.h.inc"
} // namespace sextant::passes

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

/// A reshape of what is not contiguous is a copy.
static bool isCopy(Operation *op) {
  auto reshape = dyn_cast<nn::ReshapeOp>(op);
  return reshape && mayBeStrided(reshape.getInput());
}

static bool isCheap(Operation *op) {
  return op->hasTrait<nn::CheapToRepeat>() || isCopy(op);
}

/// The value whose memory this one has.
static Value getOwner(Value value) {
  Operation *maker = value.getDefiningOp();
  Value source = maker && !isCopy(maker) ? getViewSource(maker) : Value();
  return source ? getOwner(source) : value;
}

namespace {
/// One function, whose backward is what follows its loss.
class Recomputation {
public:
  Recomputation(func::FuncOp function, int64_t leastColumns)
      : block(function.front()),
        loss(block.getTerminator()->getOperand(0).getDefiningOp()),
        leastColumns(leastColumns) {}

  /// The number of ops that the backward repeats.
  unsigned run();

private:
  bool isLate(Operation *user) const {
    return loss->isBeforeInBlock(block.findAncestorOpInBlock(*user));
  }
  Operation *findFirstRead(Operation *op) const;
  bool livesUntil(Value value, Operation *place) const;
  bool isCovered(Operation *op) const;
  bool isLarge(Operation *op) const;

  Block &block;
  Operation *loss;
  int64_t leastColumns;
};
} // namespace

/// The first op of the backward that reads what `op` makes, for which the
/// forward keeps it; null if there is none, or if the function gives it back.
Operation *Recomputation::findFirstRead(Operation *op) const {
  Operation *first = nullptr;
  bool isReadEarly = false;
  for (Operation *user : op->getUsers()) {
    if (isa<tensor::DimOp>(user))
      continue;
    Operation *reader = block.findAncestorOpInBlock(*user);
    if (reader == block.getTerminator())
      return nullptr;
    if (!isLate(reader))
      isReadEarly = true;
    else if (!first || reader->isBeforeInBlock(first))
      first = reader;
  }
  return isReadEarly ? first : nullptr;
}

/// Whether a value is in memory at a place for the sake of others.
bool Recomputation::livesUntil(Value value, Operation *place) const {
  Value owner = getOwner(value);
  Operation *maker = owner.getDefiningOp();
  if (!maker || maker->hasTrait<OpTrait::ConstantLike>() ||
      !isa<RankedTensorType>(owner.getType()))
    return true;
  for (Value view : collectViews(owner)) {
    if (getOwner(view) != owner)
      continue;
    for (Operation *user : view.getUsers())
      if (!isa<tensor::DimOp>(user) &&
          !block.findAncestorOpInBlock(*user)->isBeforeInBlock(place))
        return true;
  }
  return false;
}

/// Whether evaluating the op again costs little beside the products of the
/// forward that read what it makes, themselves or through other cheap ops.
bool Recomputation::isCovered(Operation *op) const {
  if (!op->hasTrait<nn::EvaluatesFunction>())
    return true;
  llvm::SetVector<Operation *> readers;
  readers.insert(op);
  for (unsigned i = 0; i < readers.size(); ++i)
    for (Operation *user : readers[i]->getUsers()) {
      if (user->getBlock() != &block || isLate(user))
        continue;
      if (isa<nn::LinearOp, nn::MatmulOp>(user)) {
        auto type = cast<RankedTensorType>(user->getResult(0).getType());
        int64_t columns = type.getShape().back();
        if (ShapedType::isDynamic(columns) || columns >= leastColumns)
          return true;
      } else if (isCheap(user) || getViewSource(user)) {
        readers.insert(user);
      }
    }
  return false;
}

/// Whether what the backward reads of the op is as large as an activation: more
/// than the statistics of a normalisation, which follow its rows, and not made
/// of parameters alone, as narrow weights are.
bool Recomputation::isLarge(Operation *op) const {
  bool isOfParameters = llvm::all_of(op->getOperands(), [](Value operand) {
    auto argument = dyn_cast<BlockArgument>(operand);
    auto function =
        argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp())
                 : func::FuncOp();
    return function &&
           function.getArgAttr(argument.getArgNumber(), nn::kParameterAttr);
  });
  return !isOfParameters &&
         llvm::any_of(op->getResult(0).getUsers(), [&](Operation *user) {
           return !isa<tensor::DimOp>(user) && isLate(user);
         });
}

unsigned Recomputation::run() {
  if (!loss)
    return 0;
  SmallVector<Operation *> ops;
  for (Operation &op : block)
    if (op.isBeforeInBlock(loss) && isCheap(&op) && isCovered(&op) &&
        isLarge(&op))
      ops.push_back(&op);
  unsigned count = 0;
  // Of a chain the last op comes first: what it reads again is a reason to
  // repeat what comes before it.
  for (Operation *op : llvm::reverse(ops)) {
    Operation *place = findFirstRead(op);
    if (!place || !llvm::all_of(op->getOperands(), [&](Value operand) {
          return livesUntil(operand, place);
        }))
      continue;
    Operation *again = OpBuilder(place).clone(*op);
    for (auto [result, repeated] :
         llvm::zip_equal(op->getResults(), again->getResults()))
      result.replaceUsesWithIf(repeated, [&](OpOperand &use) {
        return use.getOwner() != again && !isa<tensor::DimOp>(use.getOwner()) &&
               isLate(use.getOwner());
      });
    ++count;
  }
  return count;
}

namespace {
/// Goes through the functions that derive from losses.
class RecomputeActivations
    : public passes::impl::RecomputeActivationsBase<RecomputeActivations> {
public:
  using RecomputeActivationsBase::RecomputeActivationsBase;

  LogicalResult initialize(MLIRContext *context) override {
    if (leastColumns >= 1)
      return success();
    return emitError(UnknownLoc::get(context), getArgument())
           << ": least-columns must be at least 1, got "
           << leastColumns.getValue();
  }

  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    unsigned count = 0;
    for (auto loss : getOperation().getOps<func::FuncOp>()) {
      auto gradients =
          loss->getAttrOfType<FlatSymbolRefAttr>(nn::kGradientsAttr);
      if (!gradients)
        continue;
      count += recompute(symbols.lookup<func::FuncOp>(gradients.getAttr()));
      if (auto optimizer =
              loss->getAttrOfType<nn::AdamWAttr>(nn::kOptimizerAttr))
        count += recompute(
            symbols.lookup<func::FuncOp>(optimizer.getTrainStep().getAttr()));
    }
    numRepeated += count;
    remark::passed(
        getOperation().getLoc(),
        remark::RemarkOpts::name("recomputed").category(getArgument()))
        << remark::metric("Ops", count);
  }

private:
  /// Of a function that is derived already. One that is written by hand may be
  /// a declaration, have several blocks, or give nothing.
  unsigned recompute(func::FuncOp function) {
    if (!function || !function.getBody().hasOneBlock() ||
        function.front().getTerminator()->getNumOperands() == 0)
      return 0;
    return Recomputation(function, leastColumns).run();
  }
};
} // namespace

//===- AllHeadsPullback.cpp - Pullbacks of payloads of vectors ------------===//
//
// Reverse mode over the ops of one block. Cotangents of vectors over heads are
// kept in registers. Streamed vectors that elementwise ops connect form one
// chain, whose pullback is one loop over groups of units: cotangents come from
// the contractions that consume the chain, and go to those that it starts with.
//
//===----------------------------------------------------------------------===//

#include "codegen/Tables/AllHeadsPayload.h"
#include "codegen/Tables/PayloadCall.h"
#include "dialects/Interfaces/DerivativeRules.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

static bool isFloatVector(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && isa<FloatType>(type.getElementType());
}

static bool isElementwise(Operation *op) {
  return OpTrait::hasElementwiseMappableTraits(op) &&
         op->getNumRegions() == 0 && !op->hasTrait<OpTrait::ConstantLike>();
}

namespace {
class AllHeadsPullback {
public:
  AllHeadsPullback(OpBuilder &builder, AllHeadsEmitter &forward, Block &block,
                   AllHeadsSeeds seeds)
      : builder(builder), forward(forward), kernel(forward.kernel),
        point(forward.point), weights(forward.weights), block(block),
        seeds(seeds), yielded(block.getTerminator()->getOperand(0)) {}

  Values run();

private:
  /// Cotangents of vectors, of all elements or of the group at hand.
  using Cotangents = llvm::MapVector<Value, Values>;
  /// A product that takes a chain's units to registers, and the cotangents of
  /// its results.
  using Consumers = SmallVector<std::pair<pos::ContractOp, Values>>;

  bool isActive(Value vector);
  bool isTrained(Value scalar);
  bool isActiveOp(Operation &op);
  bool wants(Value param) {
    return point.getScalarPoint().wantsGradient(cast<BlockArgument>(param));
  }
  void add(Cotangents &to, Value vector, ValueRange cotangents);
  void pullOp(Operation &op, Values cotangents);
  void pullElementwise(Operation &op, ValueRange cotangents, Index first,
                       Cotangents &to);
  void pullContract(pos::ContractOp op, Values cotangents);
  void pullForHeads(pos::ForHeadsOp op, ValueRange cotangents);
  void pullChain(Value last);
  SmallVector<Operation *> findChain(Value last);
  void pullGroup(ArrayRef<Operation *> chain, const Consumers &ending,
                 Index first, int64_t count, Cotangents &inRegisters);
  void findSeed();
  /// The values where there is a seed, zeros elsewhere.
  Values guarded(ValueRange values);
  Values guardedCotangents(ValueRange values) {
    return keepsZeros ? Values(values) : guarded(values);
  }
  void recordOperand(pos::ContractOp op, Index first, Values elements);

  OpBuilder &builder;
  AllHeadsEmitter &forward;
  KernelBuilder &kernel;
  AllHeadsPoint &point;
  const AllHeadsWeights &weights;
  Block &block;
  AllHeadsSeeds seeds;
  Value yielded;
  Cotangents cotangents;
  Consumers consumers;
  DenseMap<Value, bool> active;
  DenseSet<Operation *> pulled;
  bool keepsZeros; ///< cotangents of 0 stay so, whatever the values are
  Value hasSeed;   ///< per lane; null where nothing asks
};
} // namespace

//===----------------------------------------------------------------------===//
// Points that nobody sees
//===----------------------------------------------------------------------===//

/// Whether the pullback of an op gives 0 for 0, whatever else it takes.
static bool keepsZero(Operation &op) {
  if (isa<arith::MulFOp>(op))
    return llvm::any_of(op.getOperands(), [](Value operand) {
      Operation *made = operand.getDefiningOp();
      return made && made->hasTrait<OpTrait::ConstantLike>();
    });
  bool isFloat = llvm::any_of(op.getResultTypes(), [](Type type) {
    return isa<FloatType>(getElementTypeOrSelf(type));
  });
  return !isFloat || op.hasTrait<OpTrait::ConstantLike>() ||
         isa<arith::AddFOp, arith::SubFOp, arith::NegFOp, arith::MaximumFOp,
             arith::MinimumFOp, arith::MaxNumFOp, arith::MinNumFOp,
             arith::SelectOp, pos::ContractOp, pos::ElementsOp, pos::HoistOp,
             pos::ForHeadsOp, tensor::SplatOp>(op);
}

/// Gradients are linear in the seeds, so they are 0 where all of those are.
/// What stands there may be infinite or NaN, but for the scores, which are
/// zeros.
void AllHeadsPullback::findSeed() {
  keepsZeros = llvm::all_of(block.without_terminator(), keepsZero);
  bool recordsOthers =
      llvm::any_of(block.getOps<pos::ContractOp>(), [&](pos::ContractOp op) {
        return wants(op.getMatrix()) && !isa<BlockArgument>(op.getVector());
      });
  if (keepsZeros && !recordsOthers)
    return;
  Value zero = kernel.splatF32(0), one = kernel.splatF32(1);
  auto isSeed = [&](Value seed) {
    return kernel.compareF(arith::CmpFPredicate::UNE, seed, zero);
  };
  int64_t extent = getVectorExtent(yielded);
  if (!forward.isStreamed(yielded)) {
    for (Value seed : seeds(0, extent))
      hasSeed = kernel.either(hasSeed, isSeed(seed));
    return;
  }
  Values found = forward.forGroups(
      extent, {zero}, [&](Index first, ValueRange carried) -> Values {
        Value any = carried[0];
        for (Value seed : seeds(first, getGroup(extent)))
          any = kernel.selectF(isSeed(seed), one, any);
        return {any};
      });
  hasSeed = isSeed(found[0]);
}

Values AllHeadsPullback::guarded(ValueRange values) {
  Values results;
  for (Value value : values)
    results.push_back(kernel.selectF(hasSeed, value, kernel.splatF32(0)));
  return results;
}

void AllHeadsPullback::recordOperand(pos::ContractOp op, Index first,
                                     Values elements) {
  bool areScores = isa<BlockArgument>(op.getVector());
  point.recordOperand(op, first, areScores ? elements : guarded(elements));
}

//===----------------------------------------------------------------------===//
// Activity
//===----------------------------------------------------------------------===//

bool AllHeadsPullback::isActive(Value vector) {
  if (!isFloatVector(vector))
    return false;
  if (isa<BlockArgument>(vector))
    return vector.getParentBlock() == &block;
  auto [entry, isNew] = active.try_emplace(vector, false);
  if (!isNew)
    return entry->second;
  bool result = isActiveOp(*vector.getDefiningOp());
  return active[vector] = result;
}

/// Whether a parameter stands behind a scalar of the payload whose gradient is
/// wanted.
bool AllHeadsPullback::isTrained(Value scalar) {
  Operation *op = scalar.getDefiningOp();
  if (!op || !isa<FloatType>(scalar.getType()))
    return false;
  if (auto hoist = dyn_cast<pos::HoistOp>(op))
    return point.getScalarPoint().wantsGradient(hoist);
  bool found = false;
  op->walk([&](Operation *nested) {
    if (auto read = dyn_cast<pos::ReadOp>(nested))
      found |= wants(read.getTensor());
    for (Value operand : nested->getOperands())
      if (operand.getParentBlock() == &block ||
          operand.getDefiningOp<pos::HoistOp>())
        found |= isTrained(operand);
  });
  return found;
}

bool AllHeadsPullback::isActiveOp(Operation &op) {
  PayloadPoint &site = point.getScalarPoint();
  if (auto splat = dyn_cast<tensor::SplatOp>(op))
    return isTrained(splat.getInput());
  if (auto hoist = dyn_cast<pos::HoistOp>(op))
    return site.wantsGradient(hoist);
  if (auto elements = dyn_cast<pos::ElementsOp>(op))
    return wants(elements.getParam());
  if (auto contract = dyn_cast<pos::ContractOp>(op))
    return wants(contract.getMatrix()) || isActive(contract.getVector());
  if (auto forHeads = dyn_cast<pos::ForHeadsOp>(op)) {
    bool found = llvm::any_of(forHeads.getInputs(),
                              [&](Value input) { return isActive(input); });
    forHeads.getBody().walk([&](Operation *nested) {
      if (auto read = dyn_cast<pos::ReadOp>(nested))
        found |= wants(read.getTensor());
      if (auto sum = dyn_cast<pos::HingeSumOp>(nested))
        found |= site.wantsUnits(sum);
      for (Value operand : nested->getOperands())
        if (auto hoist = operand.getDefiningOp<pos::HoistOp>())
          found |= site.wantsGradient(hoist);
    });
    return found;
  }
  return llvm::any_of(op.getOperands(),
                      [&](Value operand) { return isActive(operand); });
}

void AllHeadsPullback::add(Cotangents &to, Value vector, ValueRange added) {
  if (!isActive(vector))
    return;
  Values &sums = to[vector];
  if (sums.empty()) {
    sums = Values(added);
    return;
  }
  for (auto [sum, value] : llvm::zip_equal(sums, added))
    sum = kernel.addF(sum, value);
}

//===----------------------------------------------------------------------===//
// Vectors in registers
//===----------------------------------------------------------------------===//

void AllHeadsPullback::pullElementwise(Operation &op, ValueRange given,
                                       Index first, Cotangents &to) {
  auto rule = dyn_cast<DerivativeRuleInterface>(op);
  if (!rule)
    return kernel.check(op.emitOpError("has no derivative rule"));
  int64_t count = given.size();
  SmallVector<Values> operands =
      forward.getElements(op.getOperands(), first, count);
  Values results = forward.getElements(op.getResult(0), first, count);
  SmallVector<Values> sums(op.getNumOperands());
  for (int64_t number = 0; number < count; ++number) {
    Values arguments;
    for (Values &operand : operands)
      arguments.push_back(operand[number]);
    SmallVector<Value> values =
        rule.pullBack(builder, arguments, results[number], given[number]);
    for (auto [sum, value] : llvm::zip_equal(sums, values))
      if (value)
        sum.push_back(value);
  }
  for (auto [operand, sum] : llvm::zip_equal(op.getOperands(), sums))
    if (!sum.empty())
      add(to, operand, sum);
}

void AllHeadsPullback::pullContract(pos::ContractOp op, Values given) {
  Value operand = op.getVector();
  bool wantsMatrix = wants(op.getMatrix());
  if (wantsMatrix)
    point.recordResult(op, 0, guardedCotangents(given));
  if (forward.isStreamed(operand)) {
    Operation *producer = operand.getDefiningOp();
    if (isActive(operand) && producer->getBlock() == &block) {
      consumers.emplace_back(op, given); // pulled with its chain
      return;
    }
    int64_t count = getGroup(getVectorExtent(operand));
    auto group = [&](Index first, ValueRange) {
      Cotangents none;
      pullGroup({}, {{op, given}}, first, count, none);
      return Values();
    };
    forward.forGroups(getVectorExtent(operand), {}, group);
    return;
  }
  if (wantsMatrix)
    recordOperand(op, 0, forward.getAll(operand));
  if (isActive(operand))
    add(cotangents, operand,
        forward.multiply(weights.getPullback(op), given, op.getResult()));
}

void AllHeadsPullback::pullForHeads(pos::ForHeadsOp op, ValueRange given) {
  SmallVector<Values> inputs =
      forward.getElements(op.getInputs(), 0, given.size());
  SmallVector<Values> sums(inputs.size());
  point.beginHeads();
  for (auto [head, cotangent] : llvm::enumerate(given)) {
    point.enterHead(head);
    Values arguments;
    for (Values &input : inputs)
      arguments.push_back(input[head]);
    Values values = callPullback(kernel, op.getBody().front(), arguments,
                                 cotangent, point.getScalarPoint());
    for (auto [sum, value] : llvm::zip_equal(sums, values))
      sum.push_back(value ? kernel.broadcast(value) : kernel.splatF32(0));
  }
  point.endHeads();
  for (auto [input, sum] : llvm::zip_equal(op.getInputs(), sums))
    add(cotangents, input, sum);
}

void AllHeadsPullback::pullOp(Operation &op, Values given) {
  if (auto contract = dyn_cast<pos::ContractOp>(op))
    return pullContract(contract, given);
  if (auto forHeads = dyn_cast<pos::ForHeadsOp>(op))
    return pullForHeads(forHeads, given);
  if (auto elements = dyn_cast<pos::ElementsOp>(op))
    return point.addToElements(elements, 0, guardedCotangents(given));
  pullElementwise(op, given, 0, cotangents);
}

//===----------------------------------------------------------------------===//
// Chains of streamed vectors
//===----------------------------------------------------------------------===//

/// The ops of the chain of `last`, latest first.
SmallVector<Operation *> AllHeadsPullback::findChain(Value last) {
  llvm::SetVector<Value> members;
  members.insert(last);
  auto visit = [&](Value value) {
    if (isFloatVector(value) && value.getParentBlock() == &block &&
        forward.isStreamed(value))
      members.insert(value);
  };
  for (size_t next = 0; next < members.size(); ++next) {
    Value member = members[next];
    Operation *op = member.getDefiningOp();
    if (isElementwise(op))
      for (Value operand : op->getOperands())
        visit(operand);
    for (Operation *user : member.getUsers())
      if (user->getBlock() == &block && isElementwise(user))
        visit(user->getResult(0));
  }
  DenseSet<Operation *> ops;
  for (Value member : members) {
    ops.insert(member.getDefiningOp());
    for (Operation *user : member.getUsers()) {
      auto contract = dyn_cast<pos::ContractOp>(user);
      if (!contract || contract->getBlock() != &block)
        continue;
      if (forward.isStreamed(contract.getResult()))
        kernel.check(contract.emitOpError("of hidden units to hidden units has "
                                          "no gradient on this target"));
      else if (contract->isBeforeInBlock(last.getDefiningOp()))
        kernel.check(contract.emitOpError("of units that are used again after "
                                          "it has no gradient on this target"));
    }
  }
  SmallVector<Operation *> chain;
  for (Operation &op : llvm::reverse(block))
    if (ops.contains(&op))
      chain.push_back(&op);
  return chain;
}

void AllHeadsPullback::pullGroup(ArrayRef<Operation *> chain,
                                 const Consumers &ending, Index first,
                                 int64_t count, Cotangents &inRegisters) {
  Cotangents units;
  for (auto [contract, given] : ending) {
    pos::ContractOp op = contract;
    if (wants(op.getMatrix()))
      recordOperand(op, first,
                    forward.getElements(op.getVector(), first, count));
    if (isActive(op.getVector()))
      add(units, op.getVector(),
          forward.multiplyGroup(weights.getPullback(op), given, first, count));
  }
  if (llvm::is_contained(chain, yielded.getDefiningOp()))
    add(units, yielded, seeds(first, count));
  for (Operation *op : chain) {
    auto found = units.find(op->getResult(0));
    if (found == units.end())
      continue;
    Values given = found->second;
    if (auto contract = dyn_cast<pos::ContractOp>(op)) {
      if (wants(contract.getMatrix()))
        point.recordResult(contract, first, guardedCotangents(given));
      Value operand = contract.getVector();
      if (isActive(operand))
        inRegisters[operand] = forward.accumulate(
            weights.getPullback(contract), first, given, inRegisters[operand]);
      continue;
    }
    if (auto elements = dyn_cast<pos::ElementsOp>(op)) {
      point.addToElements(elements, first, guardedCotangents(given));
      continue;
    }
    if (!isElementwise(op))
      return kernel.check(op->emitOpError("has no gradient on this target"));
    pullElementwise(*op, given, first, units);
  }
  for (auto &[value, given] : units)
    if (auto hoist = value.getDefiningOp<pos::HoistOp>())
      point.addToElements(hoist, first, guardedCotangents(given));
}

void AllHeadsPullback::pullChain(Value last) {
  SmallVector<Operation *> chain = findChain(last);
  if (failed(kernel.getStatus()))
    return;
  pulled.insert(chain.begin(), chain.end());
  Consumers ending;
  for (auto &[contract, given] : consumers)
    if (llvm::is_contained(
            chain, pos::ContractOp(contract).getVector().getDefiningOp()))
      ending.emplace_back(contract, given);

  // The operands of the contractions that the chain starts with.
  llvm::SetVector<Value> operands;
  for (Operation *op : chain) {
    auto contract = dyn_cast<pos::ContractOp>(op);
    if (!contract)
      continue;
    Value operand = contract.getVector();
    assert(!forward.isStreamed(operand) && "checked with its own chain");
    if (wants(contract.getMatrix()))
      recordOperand(contract, 0, forward.getAll(operand));
    if (isActive(operand))
      operands.insert(operand);
  }
  Values initial;
  for (Value operand : operands) {
    Values &sums = cotangents[operand];
    if (sums.empty())
      sums.assign(getVectorExtent(operand), kernel.splatF32(0));
    initial.append(sums);
  }
  int64_t count = getGroup(getVectorExtent(last));
  auto group = [&](Index first, ValueRange carried) {
    Cotangents inRegisters;
    size_t at = 0;
    for (Value operand : operands) {
      inRegisters[operand] =
          Values(carried.slice(at, getVectorExtent(operand)));
      at += getVectorExtent(operand);
    }
    pullGroup(chain, ending, first, count, inRegisters);
    Values next;
    for (Value operand : operands)
      next.append(inRegisters[operand]);
    return next;
  };
  Values sums = forward.forGroups(getVectorExtent(last), initial, group);
  size_t at = 0;
  for (Value operand : operands)
    for (Value &sum : cotangents[operand])
      sum = sums[at++];
}

//===----------------------------------------------------------------------===//
// The whole payload
//===----------------------------------------------------------------------===//

Values AllHeadsPullback::run() {
  findSeed();
  if (isActive(yielded) && !forward.isStreamed(yielded))
    cotangents[yielded] = seeds(0, getVectorExtent(yielded));
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    if (failed(kernel.getStatus()))
      break;
    if (op.getNumResults() != 1 || !isActive(op.getResult(0)) ||
        pulled.contains(&op))
      continue;
    Value result = op.getResult(0);
    if (isa<tensor::SplatOp>(op))
      kernel.check(op.emitOpError("of a value behind which a trained parameter "
                                  "stands has no gradient on this target"));
    else if (forward.isStreamed(result))
      pullChain(result);
    else if (Values given = cotangents.lookup(result); !given.empty())
      pullOp(op, given);
  }
  for (auto &[value, given] : cotangents)
    if (auto hoist = value.getDefiningOp<pos::HoistOp>())
      point.addToElements(hoist, 0, guardedCotangents(given));
  if (block.getNumArguments() == 0)
    return Values();
  Values result = cotangents.lookup(block.getArgument(0));
  if (result.empty())
    result.assign(getVectorExtent(block.getArgument(0)), kernel.splatF32(0));
  return guardedCotangents(result);
}

Values
codegen::emitAllHeadsPullback(OpBuilder &builder, Block &block,
                              ValueRange argument,
                              function_ref<void(AllHeadsEmitter &)> between,
                              AllHeadsSeeds seeds, AllHeadsPoint &point) {
  AllHeadsEmitter forward(builder, point, /*keepsUnits=*/true);
  forward.emit(block, argument);
  between(forward);
  forward.useKept();
  return AllHeadsPullback(builder, forward, block, seeds).run();
}

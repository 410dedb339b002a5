//===- WarpLanes.cpp - From lanes of a vector to threads of a warp --------===//
//
// Values are visited in an order in which what dominates comes first. Vectors
// stay until all have their scalars, then they are erased. A thread of a vector
// that has fewer lanes than the warp computes what lane `thread modulo lanes`
// does; stores are left to the first of them.
//
//===----------------------------------------------------------------------===//

#include "codegen/CUDA/WarpLanes.h"
#include "codegen/CUDA/LaneExchange.h"
#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/InstVisitor.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace llvm;
using namespace sextant::codegen;

static FixedVectorType *getVector(const Value *value) {
  return dyn_cast<FixedVectorType>(value->getType());
}

static bool hasVectors(const Instruction &instruction) {
  return getVector(&instruction) ||
         any_of(instruction.operands(),
                [](const Use &operand) { return getVector(operand); });
}

/// Of an element of a vector in memory.
static Align getElementAlign(Type *type) {
  return Align(std::max(type->getScalarSizeInBits() / 8, 1u));
}

namespace {

class Distribution : public InstVisitor<Distribution> {
public:
  explicit Distribution(Function &function)
      : function(function), builder(function.getContext()),
        exchange(builder, &*function.getEntryBlock().getFirstInsertionPt()) {}

  Error run();

  void visitPHINode(PHINode &phi);
  void visitLoadInst(LoadInst &load);
  void visitStoreInst(StoreInst &store);
  void visitInsertElementInst(InsertElementInst &insert);
  void visitExtractElementInst(ExtractElementInst &extract);
  void visitShuffleVectorInst(ShuffleVectorInst &shuffle);
  void visitCastInst(CastInst &cast);
  void visitGetElementPtrInst(GetElementPtrInst &address);
  void visitIntrinsicInst(IntrinsicInst &call);
  void visitInstruction(Instruction &instruction);

private:
  /// The thread's element of a vector, or a scalar itself.
  Value *get(Value *value);
  Value *getConstant(Constant *constant, FixedVectorType *type);
  Value *getElementAddress(Value *start, FixedVectorType *type);
  /// Stores where `condition` holds, always if it is null.
  void store(Value *condition, Value *value, Value *address);
  /// Loads where `condition` holds, else `other`.
  Value *load(Value *condition, Type *type, Value *address, Value *other);
  /// Whether the thread is the first that holds its lane; null: all are.
  Value *isFirst(FixedVectorType *type);
  void reduce(IntrinsicInst &call);
  void storeByOneThread(Instruction *store);
  void completePhis();
  void refuse(Instruction &instruction);

  Function &function;
  IRBuilder<> builder;
  LaneExchange exchange;
  DenseMap<Value *, Value *> elements;
  SmallVector<PHINode *> phis;
  std::string error;
};

} // namespace

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Value *Distribution::get(Value *value) {
  FixedVectorType *type = getVector(value);
  if (!type)
    return value;
  if (auto *constant = dyn_cast<Constant>(value))
    return getConstant(constant, type);
  return elements.lookup(value);
}

Value *Distribution::getConstant(Constant *constant, FixedVectorType *type) {
  Type *element = type->getElementType();
  if (isa<PoisonValue>(constant))
    return PoisonValue::get(element);
  if (isa<UndefValue>(constant))
    return UndefValue::get(element);
  if (Constant *splat = constant->getSplatValue())
    return splat;
  SmallVector<Constant *> values;
  for (unsigned lane = 0; lane != type->getNumElements(); ++lane) {
    Constant *value = constant->getAggregateElement(lane);
    values.push_back(isa<UndefValue>(value) ? Constant::getNullValue(element)
                                            : value);
  }
  if (!element->isIntegerTy(1) && !element->isIntegerTy(32))
    return exchange.lookUp(values);
  SmallVector<int32_t> numbers = map_to_vector(values, [](Constant *value) {
    return static_cast<int32_t>(cast<ConstantInt>(value)->getZExtValue());
  });
  return builder.CreateZExtOrTrunc(exchange.lookUp(numbers), element);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value *Distribution::getElementAddress(Value *start, FixedVectorType *type) {
  return builder.CreateGEP(type->getElementType(), start,
                           exchange.getLane(type->getNumElements()));
}

Value *Distribution::isFirst(FixedVectorType *type) {
  unsigned lanes = type->getNumElements();
  if (lanes >= warpLanes)
    return nullptr;
  return builder.CreateICmpULT(exchange.getLane(warpLanes),
                               builder.getInt32(lanes));
}

void Distribution::store(Value *condition, Value *value, Value *address) {
  Align align = getElementAlign(value->getType());
  exchange.synchronize();
  Instruction *behind = &*builder.GetInsertPoint();
  if (condition)
    builder.SetInsertPoint(SplitBlockAndInsertIfThen(
        condition, behind->getIterator(), /*Unreachable=*/false));
  builder.CreateAlignedStore(value, address, align);
  builder.SetInsertPoint(behind);
  exchange.synchronize();
}

Value *Distribution::load(Value *condition, Type *type, Value *address,
                          Value *other) {
  Align align = getElementAlign(type);
  if (auto *known = dyn_cast<ConstantInt>(condition); known && known->isOne())
    return builder.CreateAlignedLoad(type, address, align);
  Instruction *behind = &*builder.GetInsertPoint();
  Instruction *end = SplitBlockAndInsertIfThen(condition, behind->getIterator(),
                                               /*Unreachable=*/false);
  builder.SetInsertPoint(end);
  Value *loaded = builder.CreateAlignedLoad(type, address, align);
  builder.SetInsertPoint(behind);
  PHINode *either = builder.CreatePHI(type, 2);
  either->addIncoming(loaded, end->getParent());
  either->addIncoming(other, end->getParent()->getSinglePredecessor());
  return either;
}

void Distribution::visitLoadInst(LoadInst &load) {
  FixedVectorType *type = getVector(&load);
  if (type->getElementType()->isIntegerTy(1))
    return refuse(load); // bits of a byte
  Value *address = getElementAddress(load.getPointerOperand(), type);
  elements[&load] = builder.CreateAlignedLoad(
      type->getElementType(), address, getElementAlign(type->getElementType()));
}

void Distribution::visitStoreInst(StoreInst &store) {
  FixedVectorType *type = getVector(store.getValueOperand());
  if (type->getElementType()->isIntegerTy(1))
    return refuse(store);
  Value *address = getElementAddress(store.getPointerOperand(), type);
  this->store(isFirst(type), get(store.getValueOperand()), address);
}

void Distribution::storeByOneThread(Instruction *store) {
  builder.SetInsertPoint(store);
  exchange.synchronize();
  Value *isZero =
      builder.CreateICmpEQ(exchange.getLane(warpLanes), builder.getInt32(0));
  Instruction *end = SplitBlockAndInsertIfThen(isZero, store->getIterator(),
                                               /*Unreachable=*/false);
  builder.SetInsertPoint(store);
  exchange.synchronize();
  store->moveBefore(end->getIterator());
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

void Distribution::refuse(Instruction &instruction) {
  if (!error.empty())
    return;
  raw_string_ostream stream(error);
  stream << "threads of a warp cannot share the lanes of" << instruction;
}

void Distribution::visitInstruction(Instruction &instruction) {
  bool isElementwise =
      isa<BinaryOperator, UnaryOperator, CmpInst, SelectInst, FreezeInst>(
          instruction);
  FixedVectorType *type = getVector(&instruction);
  if (!isElementwise || !type)
    return refuse(instruction);
  Instruction *scalar = instruction.clone();
  for (Use &operand : scalar->operands())
    operand.set(get(operand));
  scalar->mutateType(type->getElementType());
  elements[&instruction] = builder.Insert(scalar);
}

void Distribution::visitPHINode(PHINode &phi) {
  elements[&phi] = builder.CreatePHI(getVector(&phi)->getElementType(),
                                     phi.getNumIncomingValues());
  phis.push_back(&phi);
}

void Distribution::completePhis() {
  for (PHINode *phi : phis) {
    auto *scalar = cast<PHINode>(elements.lookup(phi));
    for (auto [value, block] :
         zip_equal(phi->incoming_values(), phi->blocks())) {
      builder.SetInsertPoint(block->getTerminator());
      scalar->addIncoming(get(value), block);
    }
  }
}

void Distribution::visitInsertElementInst(InsertElementInst &insert) {
  Value *value = insert.getOperand(1), *vector = insert.getOperand(0);
  if (isa<UndefValue>(vector)) {
    elements[&insert] = value; // the other lanes may hold anything
    return;
  }
  Value *at =
      builder.CreateZExtOrTrunc(insert.getOperand(2), builder.getInt32Ty());
  Value *lane = exchange.getLane(getVector(&insert)->getNumElements());
  elements[&insert] =
      builder.CreateSelect(builder.CreateICmpEQ(lane, at), value, get(vector));
}

void Distribution::visitExtractElementInst(ExtractElementInst &extract) {
  Value *vector = extract.getVectorOperand();
  if (getVector(vector)->getNumElements() == 1) {
    extract.replaceAllUsesWith(get(vector)); // which all threads have
    return;
  }
  Value *source = builder.CreateZExtOrTrunc(extract.getIndexOperand(),
                                            builder.getInt32Ty());
  extract.replaceAllUsesWith(exchange.shuffle(get(vector), source));
}

/// What lanes read of the operand of a shuffle whose elements count from
/// `begin`. Lanes that take nothing of it read what makes all sources a
/// rotation of the lanes, or else what they read of the other operand: most
/// often a function of the lane, for which no table is needed.
static SmallVector<int32_t> getSources(ArrayRef<int> mask, int size,
                                       int begin) {
  auto isOwn = [&](int source) {
    return source >= begin && source < begin + size;
  };
  int count = static_cast<int>(mask.size());
  int lane = static_cast<int>(find_if(mask, isOwn) - mask.begin());
  int apart = lane < count ? (mask[lane] - begin - lane + count) % count : 0;
  auto rotated = [&](size_t lane) {
    return static_cast<int32_t>((lane + apart) % count);
  };
  bool isRotation =
      count == size && all_of(enumerate(mask), [&](const auto &entry) {
        return !isOwn(entry.value()) ||
               entry.value() - begin == rotated(entry.index());
      });
  SmallVector<int32_t> sources;
  for (auto [lane, source] : enumerate(mask))
    sources.push_back(isRotation ? rotated(lane)
                                 : (source < 0 ? 0 : source % size));
  return sources;
}

void Distribution::visitShuffleVectorInst(ShuffleVectorInst &shuffle) {
  ArrayRef<int> mask = shuffle.getShuffleMask();
  Value *first = shuffle.getOperand(0), *second = shuffle.getOperand(1);
  int size = getVector(first)->getNumElements();
  bool isSplat = all_of(mask, [](int source) { return source <= 0; });
  if (shuffle.isIdentity() || (isSplat && isa<InsertElementInst>(first))) {
    elements[&shuffle] = get(first);
    return;
  }
  SmallVector<int32_t> chooses = map_to_vector(
      mask, [&](int source) -> int32_t { return source >= size; });
  // A lane that the choice takes from the other operand may read anything, so
  // of an exchange of two halves one operand stays where it is.
  auto isInPlace = [&](int begin) {
    return static_cast<int>(mask.size()) == size &&
           all_of(enumerate(mask), [&](const auto &entry) {
             int source = entry.value() - begin;
             return source < 0 || source >= size ||
                    source == static_cast<int>(entry.index());
           });
  };
  auto from = [&](Value *vector, int begin) {
    if (isInPlace(begin))
      return get(vector);
    return exchange.shuffle(get(vector),
                            exchange.lookUp(getSources(mask, size, begin)));
  };
  bool usesFirst =
      any_of(mask, [&](int source) { return source >= 0 && source < size; });
  bool usesSecond = is_contained(chooses, 1);
  Value *left = usesFirst || !usesSecond ? from(first, 0) : nullptr;
  Value *right = usesSecond ? from(second, size) : nullptr;
  if (left && right) {
    Value *choice =
        builder.CreateICmpNE(exchange.lookUp(chooses), builder.getInt32(0));
    left = builder.CreateSelect(choice, right, left);
  }
  elements[&shuffle] = left ? left : right;
}

void Distribution::visitCastInst(CastInst &cast) {
  FixedVectorType *from = getVector(cast.getOperand(0));
  FixedVectorType *to = getVector(&cast);
  if (from && to && from->getNumElements() == to->getNumElements()) {
    elements[&cast] = builder.CreateCast(
        cast.getOpcode(), get(cast.getOperand(0)), to->getElementType());
    return;
  }
  if (!from || to || !from->getElementType()->isIntegerTy(1))
    return refuse(cast);
  // Threads beyond the vector repeat its lanes.
  Value *bits = exchange.ballot(get(cast.getOperand(0)));
  cast.replaceAllUsesWith(builder.CreateTrunc(bits, cast.getType()));
}

void Distribution::visitGetElementPtrInst(GetElementPtrInst &address) {
  SmallVector<Value *> indices =
      map_to_vector(address.indices(), [&](Use &index) { return get(index); });
  elements[&address] =
      builder.CreateGEP(address.getSourceElementType(),
                        get(address.getPointerOperand()), indices);
}

void Distribution::reduce(IntrinsicInst &call) {
  Value *value = get(call.getArgOperand(0));
  bool isMaximum = call.getIntrinsicID() == Intrinsic::vector_reduce_fmax;
  if (isMaximum) {
    unsigned lanes = getVector(call.getArgOperand(0))->getNumElements();
    for (unsigned apart = lanes / 2; apart != 0; apart /= 2) {
      Value *other = builder.CreateXor(exchange.getLane(warpLanes),
                                       builder.getInt32(apart));
      value = builder.CreateMaxNum(value, exchange.shuffle(value, other));
    }
  } else if (!value->getType()->isIntegerTy(1)) {
    return refuse(call);
  } else {
    // Threads beyond the vector repeat its lanes.
    Value *bits = exchange.ballot(value);
    bool isAnd = call.getIntrinsicID() == Intrinsic::vector_reduce_and;
    value = isAnd ? builder.CreateICmpEQ(bits, builder.getInt32(~0u))
                  : builder.CreateICmpNE(bits, builder.getInt32(0));
  }
  call.replaceAllUsesWith(value);
}

void Distribution::visitIntrinsicInst(IntrinsicInst &call) {
  FixedVectorType *type = getVector(&call);
  auto argument = [&](unsigned number) { return call.getArgOperand(number); };
  switch (call.getIntrinsicID()) {
  case Intrinsic::masked_load:
  case Intrinsic::masked_gather: {
    bool gathers = call.getIntrinsicID() == Intrinsic::masked_gather;
    Value *address =
        gathers ? get(argument(0)) : getElementAddress(argument(0), type);
    Value *other = get(argument(2));
    if (isa<UndefValue>(other))
      other = Constant::getNullValue(other->getType());
    elements[&call] =
        load(get(argument(1)), type->getElementType(), address, other);
    return;
  }
  case Intrinsic::masked_store:
  case Intrinsic::masked_scatter: {
    bool scatters = call.getIntrinsicID() == Intrinsic::masked_scatter;
    FixedVectorType *stored = getVector(argument(0));
    Value *address =
        scatters ? get(argument(1)) : getElementAddress(argument(1), stored);
    Value *condition = get(argument(2));
    if (Value *first = isFirst(stored))
      condition = builder.CreateAnd(condition, first);
    auto *known = dyn_cast<ConstantInt>(condition);
    store(known && known->isOne() ? nullptr : condition, get(argument(0)),
          address);
    return;
  }
  case Intrinsic::vector_reduce_fmax:
  case Intrinsic::vector_reduce_and:
  case Intrinsic::vector_reduce_or:
    return reduce(call);
  default:
    break;
  }
  bool isElementwise =
      type && all_of(call.args(), [&](Use &operand) {
        FixedVectorType *own = getVector(operand);
        return !own || own->getNumElements() == type->getNumElements();
      });
  if (!isElementwise ||
      !isTriviallyScalarizable(call.getIntrinsicID(), /*TTI=*/nullptr))
    return refuse(call);
  SmallVector<Value *> scalars =
      map_to_vector(call.args(), [&](Use &operand) { return get(operand); });
  CallInst *scalar = builder.CreateIntrinsic(type->getElementType(),
                                             call.getIntrinsicID(), scalars);
  scalar->copyIRFlags(&call);
  elements[&call] = scalar;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

Error Distribution::run() {
  for (Argument &argument : function.args())
    argument.removeAttr(Attribute::NoAlias);
  SmallVector<Instruction *> vectors, stores, dropped;
  ReversePostOrderTraversal<Function *> blocks(&function);
  for (BasicBlock *block : blocks)
    for (Instruction &instruction : *block) {
      auto *call = dyn_cast<IntrinsicInst>(&instruction);
      if (hasVectors(instruction))
        vectors.push_back(&instruction);
      else if (isa<StoreInst, MemIntrinsic>(instruction))
        stores.push_back(&instruction);
      else if (call && call->getIntrinsicID() == Intrinsic::prefetch)
        dropped.push_back(&instruction);
      // What else is said of memory holds for one thread only.
      instruction.dropUnknownNonDebugMetadata(
          {LLVMContext::MD_invariant_load, LLVMContext::MD_loop});
    }
  for (Instruction *instruction : vectors) {
    builder.SetInsertPoint(instruction);
    visit(*instruction);
    if (!error.empty())
      return createStringError(error);
  }
  completePhis();
  for (Instruction *store : stores)
    storeByOneThread(store);
  append_range(dropped, vectors);
  for (Instruction *instruction : dropped)
    if (!instruction->getType()->isVoidTy())
      instruction->replaceAllUsesWith(PoisonValue::get(instruction->getType()));
  for (Instruction *instruction : dropped)
    instruction->eraseFromParent();
  return Error::success();
}

/// Drops each barrier that no access to memory separates from the one before.
static void dropIdleBarriers(Function &function) {
  auto isBarrier = [](const Instruction &instruction) {
    auto *call = dyn_cast<IntrinsicInst>(&instruction);
    return call && call->getIntrinsicID() == Intrinsic::nvvm_bar_warp_sync;
  };
  for (BasicBlock &block : function) {
    bool isNeeded = true; // whatever came before the block
    for (Instruction &instruction : make_early_inc_range(block)) {
      if (!isBarrier(instruction)) {
        // Shuffles and ballots, which are convergent, touch no memory.
        auto *call = dyn_cast<CallBase>(&instruction);
        isNeeded |= instruction.mayReadOrWriteMemory() &&
                    !(call && call->isConvergent());
      } else if (isNeeded) {
        isNeeded = false;
      } else {
        instruction.eraseFromParent();
      }
    }
  }
}

Error sextant::codegen::distributeLanes(Function &function) {
  if (Error error = Distribution(function).run())
    return error;
  dropIdleBarriers(function);
  return Error::success();
}

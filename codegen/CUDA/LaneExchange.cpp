//===- LaneExchange.cpp - What crosses the lanes of a warp ----------------===//
//
// A shuffle moves words of 32 bits. Smaller values travel in the low bits of
// one, larger ones as two.
//
//===----------------------------------------------------------------------===//

#include "codegen/CUDA/LaneExchange.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/Module.h"

using namespace llvm;
using namespace sextant::codegen;

/// All threads of a warp take part.
static constexpr uint32_t allThreads = ~0u;
/// The last thread of the group in which a shuffle finds its source.
static constexpr uint32_t lastThread = warpLanes - 1;

LaneExchange::LaneExchange(IRBuilder<> &builder, Instruction *start)
    : builder(builder), start(start) {
  builder.SetInsertPoint(start);
  thread = call(Intrinsic::nvvm_read_ptx_sreg_laneid, {});
}

Value *LaneExchange::call(Intrinsic::ID intrinsic,
                          ArrayRef<Value *> arguments) {
  return builder.CreateIntrinsic(intrinsic, arguments);
}

Value *LaneExchange::getLane(unsigned lanes) {
  if (lanes >= warpLanes)
    return thread;
  if (lanes == 1)
    return builder.getInt32(0);
  Value *&lane = lanesOf[lanes];
  if (!lane) {
    IRBuilder<>::InsertPointGuard guard(builder);
    builder.SetInsertPoint(start);
    lane = builder.CreateURem(thread, builder.getInt32(lanes));
  }
  return lane;
}

/// A table that threads read; one for all that are alike.
static GlobalVariable *getTable(Module &module, Constant *elements) {
  for (GlobalVariable &table : module.globals())
    if (table.isConstant() && table.hasInitializer() &&
        table.getInitializer() == elements)
      return &table;
  return new GlobalVariable(module, elements->getType(), /*isConstant=*/true,
                            GlobalValue::InternalLinkage, elements, "lanes");
}

Value *LaneExchange::lookUp(ArrayRef<Constant *> elements) {
  Type *element = elements.front()->getType();
  auto *type = ArrayType::get(element, elements.size());
  GlobalVariable *table = getTable(*builder.GetInsertBlock()->getModule(),
                                   ConstantArray::get(type, elements));
  Value *address = builder.CreateInBoundsGEP(
      type, table, {builder.getInt32(0), getLane(elements.size())});
  return builder.CreateLoad(element, address);
}

/// Elements that are a function of the lane which takes less than a load: one
/// number up to some lane and another from there on, the lane with some bits
/// turned, (lane * factor + first) modulo their number, a power of two, or some
/// bits of the lane, next to each other, and a number. Null for others.
Value *LaneExchange::compute(ArrayRef<int32_t> elements) {
  auto size = static_cast<uint32_t>(elements.size());
  if (!isPowerOf2_32(size))
    return nullptr;
  auto first = static_cast<uint32_t>(elements[0]);
  uint32_t factor = static_cast<uint32_t>(elements[1]) - first;
  auto areAll = [&](auto function) {
    return all_of(enumerate(elements), [&](const auto &element) {
      return static_cast<uint32_t>(element.value()) ==
             function(static_cast<uint32_t>(element.index()));
    });
  };
  Value *lane = getLane(size);
  auto last = static_cast<uint32_t>(elements.back());
  uint32_t run =
      find_if(elements,
              [&](int32_t element) { return element != elements.front(); }) -
      elements.begin();
  if (areAll([&](uint32_t number) { return number < run ? first : last; }))
    return builder.CreateSelect(
        builder.CreateICmpULT(lane, builder.getInt32(run)),
        builder.getInt32(first), builder.getInt32(last));
  if (areAll([&](uint32_t number) { return number ^ first; }))
    return builder.CreateXor(lane, builder.getInt32(first));
  if (areAll(
          [&](uint32_t number) { return (number * factor + first) % size; })) {
    Value *product = builder.CreateMul(lane, builder.getInt32(factor));
    return builder.CreateAnd(
        builder.CreateAdd(product, builder.getInt32(first)),
        builder.getInt32(size - 1));
  }
  for (uint32_t shift = 0; size >> shift != 0; ++shift)
    for (uint32_t mask = 1; mask < size; mask = 2 * mask + 1)
      if (areAll([&](uint32_t number) {
            return (number >> shift & mask) + first;
          })) {
        Value *bits = builder.CreateAnd(builder.CreateLShr(lane, shift), mask);
        return builder.CreateAdd(bits, builder.getInt32(first));
      }
  return nullptr;
}

Value *LaneExchange::lookUp(ArrayRef<int32_t> elements) {
  if (all_equal(elements))
    return builder.getInt32(elements.front());
  if (Value *computed = compute(elements))
    return computed;
  SmallVector<Constant *> constants =
      map_to_vector(elements, [&](int32_t element) -> Constant * {
        return builder.getInt32(element);
      });
  return lookUp(constants);
}

Value *LaneExchange::shuffleWord(Value *word, Value *source) {
  return call(Intrinsic::nvvm_shfl_sync_idx_i32,
              {builder.getInt32(allThreads), word, source,
               builder.getInt32(lastThread)});
}

Value *LaneExchange::shuffle(Value *value, Value *source) {
  Type *type = value->getType();
  if (type->isPointerTy())
    return builder.CreateIntToPtr(
        shuffle(builder.CreatePtrToInt(value, builder.getInt64Ty()), source),
        type);
  unsigned bits = type->getScalarSizeInBits();
  Type *integer = builder.getIntNTy(bits), *word = builder.getInt32Ty();
  Value *number = builder.CreateBitCast(value, integer);
  Value *moved;
  if (bits <= 32) {
    moved = shuffleWord(builder.CreateZExt(number, word), source);
    moved = builder.CreateTrunc(moved, integer);
  } else {
    Value *low = shuffleWord(builder.CreateTrunc(number, word), source);
    Value *high = shuffleWord(
        builder.CreateTrunc(builder.CreateLShr(number, 32), word), source);
    moved = builder.CreateOr(
        builder.CreateZExt(low, integer),
        builder.CreateShl(builder.CreateZExt(high, integer), 32));
  }
  return builder.CreateBitCast(moved, type);
}

Value *LaneExchange::ballot(Value *condition) {
  return call(Intrinsic::nvvm_vote_ballot_sync,
              {builder.getInt32(allThreads), condition});
}

void LaneExchange::synchronize() {
  call(Intrinsic::nvvm_bar_warp_sync, {builder.getInt32(allThreads)});
}

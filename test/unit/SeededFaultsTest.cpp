//===- SeededFaultsTest.cpp - Faults that the emulator must find ----------===//
//
// Compiled kernels are changed in one way each: a barrier is left out, an
// access goes one element too far, a store is left out, a shuffle is run by
// some threads only. Each is an error that names the kernel and the op.
//
//===----------------------------------------------------------------------===//

#include "FaultyPrograms.h"
#include "codegen/CUDA/ThreadFunctions.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "gtest/gtest.h"

using namespace llvm;
using namespace sextant;
using namespace sextant::test;
using runtime::Tensor;

/// The bias of each offset is a table that a launch of its own fills.
static constexpr const char *kModel = R"(
  func.func @f(
      %x: tensor<1x2x40x16xf32> {exec.name = "x"},
      %slopes: tensor<2xf32> {exec.name = "slopes"})
      -> (tensor<1x2x40x16xf32> {exec.name = "output"}) {
    %o, %l = pos.attention %x, %x, (%x) uses [#pos.use<@alibi, "alibi">]
      params(%slopes : tensor<2xf32>)
      : tensor<1x2x40x16xf32>, tensor<1x2x40x16xf32>, (tensor<1x2x40x16xf32>)
        -> (tensor<1x2x40x16xf32>), tensor<1x2x40xf32>
    return %o : tensor<1x2x40x16xf32>
  })";

/// Rows so long that a warp's shared memory does not hold all that an item
/// keeps.
static constexpr const char *kWideModel = R"(
  func.func @f(%x: tensor<1x1x40x256xf32> {exec.name = "x"})
      -> (tensor<1x1x40x256xf32> {exec.name = "output"}) {
    %o, %l = pos.attention %x, %x, (%x) uses []
      : tensor<1x1x40x256xf32>, tensor<1x1x40x256xf32>,
        (tensor<1x1x40x256xf32>)
        -> (tensor<1x1x40x256xf32>), tensor<1x1x40xf32>
    return %o : tensor<1x1x40x256xf32>
  })";

//===----------------------------------------------------------------------===//
// Faults
//===----------------------------------------------------------------------===//

/// What memory an access is to: scratch is the last argument of the function,
/// shared memory a symbol, addresses of tensors are loaded from the argument
/// block.
enum class Space { Scratch, Shared, Tensor };

static bool isIn(const Function &function, const Value *address, Space space) {
  const Value *object = getUnderlyingObject(address, /*MaxLookup=*/0);
  switch (space) {
  case Space::Scratch:
    return object == function.getArg(3);
  case Space::Shared:
    return isa<GlobalVariable>(object);
  case Space::Tensor:
    return isa<LoadInst>(object);
  }
  llvm_unreachable("a space without a rule");
}

static SmallVector<StoreInst *> getStores(Function &function, Space space) {
  SmallVector<StoreInst *> stores;
  for (Instruction &instruction : instructions(function))
    if (auto *store = dyn_cast<StoreInst>(&instruction))
      if (isIn(function, store->getPointerOperand(), space))
        stores.push_back(store);
  return stores;
}

static void leaveOutBarriers(Function &function) {
  for (IntrinsicInst *barrier :
       getCalls(function, Intrinsic::nvvm_bar_warp_sync))
    barrier->eraseFromParent();
}

template <Space space> static void storeOneFurther(Function &function) {
  for (StoreInst *store : getStores(function, space)) {
    IRBuilder<> builder(store);
    store->setOperand(
        1, builder.CreateConstGEP1_32(store->getValueOperand()->getType(),
                                      store->getPointerOperand(), 1));
  }
}

/// All but the last loads are still of the tensor.
static void loadOneFurther(Function &function) {
  for (Instruction &instruction : instructions(function))
    if (auto *load = dyn_cast<LoadInst>(&instruction))
      if (load->getType()->isFloatTy() &&
          isIn(function, load->getPointerOperand(), Space::Tensor)) {
        IRBuilder<> builder(load);
        load->setOperand(0, builder.CreateConstGEP1_32(
                                load->getType(), load->getPointerOperand(), 1));
      }
}

static void storeHalfAnElementFurther(Function &function) {
  for (StoreInst *store : getStores(function, Space::Tensor)) {
    IRBuilder<> builder(store);
    store->setOperand(1, builder.CreateConstGEP1_32(builder.getInt16Ty(),
                                                    store->getPointerOperand(),
                                                    1));
  }
}

static void storeBehindSharedMemory(Function &function) {
  int64_t bytes = codegen::getBlockShape(function).sharedBytes;
  for (StoreInst *store : getStores(function, Space::Shared)) {
    IRBuilder<> builder(store);
    Value *start = builder.CreateAddrSpaceCast(
        getUnderlyingObject(store->getPointerOperand(), /*MaxLookup=*/0),
        store->getPointerOperandType());
    store->setOperand(
        1, builder.CreateConstGEP1_64(builder.getInt8Ty(), start, bytes));
  }
}

template <Space space> static void leaveOutStores(Function &function) {
  for (StoreInst *store : getStores(function, space))
    store->eraseFromParent();
}

/// Each thread stores to the same element whatever the work item.
static void storeAtTheStart(Function &function) {
  for (StoreInst *store : getStores(function, Space::Tensor)) {
    IRBuilder<> builder(store);
    Value *start = getUnderlyingObject(store->getPointerOperand(), 0);
    Value *lane =
        builder.CreateIntrinsic(Intrinsic::nvvm_read_ptx_sreg_laneid, {});
    store->setOperand(
        1, builder.CreateGEP(store->getValueOperand()->getType(), start, lane));
  }
}

/// Only threads with an even number come to the first shuffle.
static void divergeAtShuffle(Function &function) {
  auto shuffles = getCalls(function, Intrinsic::nvvm_shfl_sync_idx_i32);
  if (shuffles.empty())
    return;
  IntrinsicInst *shuffle = shuffles.front();
  IRBuilder<> builder(shuffle);
  Value *lane =
      builder.CreateIntrinsic(Intrinsic::nvvm_read_ptx_sreg_laneid, {});
  Value *isEven = builder.CreateICmpEQ(
      builder.CreateAnd(lane, builder.getInt32(1)), builder.getInt32(0));
  Instruction *end = SplitBlockAndInsertIfThen(
      isEven, shuffle->getNextNode()->getIterator(), /*Unreachable=*/false);
  BasicBlock *start = shuffle->getParent();
  PHINode *result =
      PHINode::Create(shuffle->getType(), 2, "", end->getSuccessor(0)->begin());
  shuffle->replaceAllUsesWith(result);
  shuffle->moveBefore(end->getIterator());
  result->addIncoming(shuffle, end->getParent());
  result->addIncoming(builder.getInt32(0), start);
}

//===----------------------------------------------------------------------===//
// Tests
//===----------------------------------------------------------------------===//

static std::string run(const char *kernel, Fault fault, const char *checks) {
  std::mt19937 engine(17); // any inputs will do
  std::vector<Tensor> inputs = {draw({1, 2, 40, 16}, engine),
                                draw({2}, engine)};
  return runWithFault(kModel, inputs, kernel, fault, checks).message;
}

TEST(SeededFaults, WithoutOneThereIsNone) {
  EXPECT_EQ(run("attention", nullptr, "races,memory"), "");
}

TEST(SeededFaults, BarriersThatAreLeftOut) {
  expectTexts(
      run("attention_0_forward", leaveOutBarriers, "races"),
      {"kernel 'attention_0_forward': threads of a warp access the same "
       "memory without a barrier between them",
       "at model.mlir:6:"});
}

TEST(SeededFaults, AStoreBehindATensor) {
  expectTexts(
      run("attention_0_forward", storeOneFurther<Space::Tensor>, "memory"),
      {"kernel 'attention_0_forward': thread ",
       " stores 4 bytes up to 4 bytes past the end of operand ",
       "f32 [1, 2, 40", " at model.mlir:6:"});
}

TEST(SeededFaults, ALoadBehindATensor) {
  expectTexts(run("attention_0_forward", loadOneFurther, "memory"),
              {"kernel 'attention_0_forward': thread ",
               " loads 4 bytes up to 4 bytes past the end of operand ",
               " at model.mlir:6:"});
}

TEST(SeededFaults, AStoreBetweenTwoElements) {
  expectTexts(
      run("attention_0_forward", storeHalfAnElementFurther, ""),
      {"kernel 'attention_0_forward': thread ",
       " stores 4 bytes at an address that is no multiple of 4 (access ",
       " at model.mlir:6:"});
}

TEST(SeededFaults, AStoreToTheRowsOfAnotherWorkItem) {
  expectTexts(run("attention_0_forward", storeAtTheStart, "races"),
              {"kernel 'attention_0_forward': thread ",
               " in the block from work item ", "which that from item ",
               "items of different blocks are not ordered",
               " at model.mlir:6:"});
}

TEST(SeededFaults, SharedMemoryThatIsLoadedBeforeItIsStored) {
  expectTexts(
      run("attention_0_forward", leaveOutStores<Space::Shared>, "memory"),
      {"kernel 'attention_0_forward': thread ",
       " of shared memory that nobody has written (access ",
       " at model.mlir:6:"});
}

TEST(SeededFaults, AStoreBehindTheSharedMemoryOfAWarp) {
  expectTexts(
      run("attention_0_forward", storeBehindSharedMemory, "memory"),
      {"kernel 'attention_0_forward': thread ",
       " stores 4 bytes up to 4 bytes past the end of the shared memory of "
       "its block",
       " at model.mlir:6:"});
}

TEST(SeededFaults, ScratchThatIsLoadedBeforeItIsStored) {
  std::mt19937 engine(17);
  expectTexts(runWithFault(kWideModel, {draw({1, 1, 40, 256}, engine)},
                           "attention_0_forward",
                           leaveOutStores<Space::Scratch>, "memory")
                  .message,
              {"kernel 'attention_0_forward': thread ",
               " of scratch memory that nobody has written (access ",
               " at model.mlir:4:"});
}

TEST(SeededFaults, ATensorThatIsLoadedBeforeItIsStored) {
  expectTexts(
      run("attention_0_hoist", leaveOutStores<Space::Tensor>, "memory"),
      {"the result 'output' holds NaN, and kernel 'attention_0_forward' "
       "loads 4 bytes of operand ",
       " that nobody has written (access ", " at model.mlir:6:"});
}

TEST(SeededFaults, AShuffleThatNotAllThreadsComeTo) {
  std::string message = run("attention_0_forward", divergeAtShuffle, "");
  expectTexts(message, {"kernel 'attention_0_forward': thread",
                        "a shuffle (number ", " at model.mlir:6:"});
}

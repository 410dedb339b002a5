//===- SeededFaultsOfFragmentsTest.cpp - Faults on tensor cores -----------===//
//
// As SeededFaultsTest.cpp, in kernels that multiply on tensor cores: barriers
// of a block, copies that nobody waits for, atomic changes, masks.
//
//===----------------------------------------------------------------------===//

#include "FaultyPrograms.h"
#include "codegen/CUDA/ThreadFunctions.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "gtest/gtest.h"
#include <cstring>

using namespace llvm;
using namespace sextant;
using namespace sextant::test;
using runtime::Tensor;

/// On tensor cores: an item has 128 queries, a tile 64 keys.
static constexpr const char *kNarrowModel = R"(
  func.func @f(%x: tensor<1x1x?x16xbf16> {exec.name = "x"})
      -> (tensor<1x1x?x16xbf16> {exec.name = "output"}) {
    %o, %l = pos.attention %x, %x, (%x) uses []
      : tensor<1x1x?x16xbf16>, tensor<1x1x?x16xbf16>, (tensor<1x1x?x16xbf16>)
        -> (tensor<1x1x?x16xbf16>), tensor<1x1x?xf32>
    return %o : tensor<1x1x?x16xbf16>
  })";

/// Likewise a backward, of which an item has 128 keys: two add to the same
/// gradients of queries.
static constexpr const char *kUnorderedModel = R"(
  func.func @f(%x: tensor<1x1x200x16xbf16> {exec.name = "x"},
               %s: tensor<1x1x200x2xf32> {exec.name = "statistics"},
               %l: tensor<1x1x200xf32> {exec.name = "lse"})
      -> (tensor<1x1x200x16xbf16> {exec.name = "gradient"}) {
    %q, %k, %v = pos.attention_backward %x, %x, (%x), (%x), %s, (%x), %l
      uses [] gradients [] unordered
      : tensor<1x1x200x16xbf16>, tensor<1x1x200x16xbf16>,
        (tensor<1x1x200x16xbf16>), (tensor<1x1x200x16xbf16>),
        tensor<1x1x200x2xf32>, (tensor<1x1x200x16xbf16>), tensor<1x1x200xf32>
      -> tensor<1x1x200x16xbf16>, tensor<1x1x200x16xbf16>,
         (tensor<1x1x200x16xbf16>)
    return %q : tensor<1x1x200x16xbf16>
  })";

/// Attention and its gradients where each query sees the keys around it: a tile
/// is 128 queries by 64 keys, of the backward 32 queries by 128 keys.
static constexpr const char *kWindowModel = R"(
  func.func @f(%x: tensor<1x1x128x16xbf16> {exec.name = "x"})
      -> (tensor<1x1x128x16xbf16> {exec.name = "result"}) {
    %o, %l, %s = pos.attention %x, %x, (%x)
      uses [#pos.use<@window, "w", {size = SIZE : i32, two_sided = true}>]
      : tensor<1x1x128x16xbf16>, tensor<1x1x128x16xbf16>,
        (tensor<1x1x128x16xbf16>)
      -> (tensor<1x1x128x16xbf16>), tensor<1x1x128xf32>, tensor<1x1x128x2xf32>
    %q, %k, %v = pos.attention_backward %x, %x, (%x), (%o), %s, (%x), %l
      uses [#pos.use<@window, "w", {size = SIZE : i32, two_sided = true}>]
      gradients []
      : tensor<1x1x128x16xbf16>, tensor<1x1x128x16xbf16>,
        (tensor<1x1x128x16xbf16>), (tensor<1x1x128x16xbf16>),
        tensor<1x1x128x2xf32>, (tensor<1x1x128x16xbf16>), tensor<1x1x128xf32>
      -> tensor<1x1x128x16xbf16>, tensor<1x1x128x16xbf16>,
         (tensor<1x1x128x16xbf16>)
    return %q : tensor<1x1x128x16xbf16>
  })";

//===----------------------------------------------------------------------===//
// Faults
//===----------------------------------------------------------------------===//

/// The barrier of the block that each item begins with.
static void leaveOutFirstBarrier(Function &function) {
  getCalls(function, Intrinsic::nvvm_barrier_cta_sync_aligned_all)
      .front()
      ->eraseFromParent();
}

/// Matrices that loads transpose are turned by the warp in place of that, which
/// is no fault.
static void turnInPlace(Function &function) {
  for (IntrinsicInst *load : getCalls(
           function, Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16)) {
    IRBuilder<> builder(load);
    Value *row = load->getArgOperand(0);
    Value *loaded = builder.CreateIntrinsic(
        Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16, {row->getType()},
        {row});
    Type *word = builder.getInt32Ty();
    InlineAsm *turn = InlineAsm::get(FunctionType::get(word, {word}, false),
                                     codegen::turnMatrixCode, "=r,r",
                                     /*hasSideEffects=*/true);
    for (unsigned matrix = 0; matrix != 4; ++matrix) {
      CallInst *turned =
          builder.CreateCall(turn, builder.CreateExtractValue(loaded, matrix));
      turned->addFnAttr(Attribute::Convergent);
      loaded = builder.CreateInsertValue(loaded, turned, matrix);
    }
    load->replaceAllUsesWith(loaded);
    load->eraseFromParent();
  }
}

/// Rows are copied from behind those that exist, so far that no memory of the
/// process lies there.
static void copyFromFurther(Function &function) {
  for (IntrinsicInst *call :
       getCalls(function, Intrinsic::nvvm_cp_async_cg_shared_global_16_s)) {
    IRBuilder<> builder(call);
    call->setArgOperand(1, builder.CreateConstGEP1_64(builder.getInt8Ty(),
                                                      call->getArgOperand(1),
                                                      uint64_t(1) << 44));
  }
}

/// Blocks from the second item on load and store what that of the first one
/// changes atomically.
static void addPlainly(Function &function) {
  SmallVector<AtomicRMWInst *> changes;
  for (Instruction &instruction : instructions(function))
    if (auto *change = dyn_cast<AtomicRMWInst>(&instruction))
      changes.push_back(change);
  for (AtomicRMWInst *change : changes) {
    IRBuilder<> builder(change);
    Value *isLater =
        builder.CreateICmpSGT(function.getArg(1), builder.getInt64(0));
    Instruction *plain, *atomic;
    SplitBlockAndInsertIfThenElse(isLater, change->getIterator(), &plain,
                                  &atomic);
    change->moveBefore(atomic->getIterator());
    builder.SetInsertPoint(plain);
    Value *address = change->getPointerOperand();
    Value *before = builder.CreateLoad(change->getType(), address);
    builder.CreateStore(builder.CreateFAdd(before, change->getValOperand()),
                        address);
  }
}

/// Where a mask is asked about each score of a tile, all become NaN, whatever
/// the answer. A block of such code hides at least eight scores.
static void maskToNaN(Function &function) {
  for (BasicBlock &block : function) {
    SmallVector<SelectInst *> scores;
    for (Instruction &instruction : block) {
      auto *select = dyn_cast<SelectInst>(&instruction);
      auto *hidden =
          select ? dyn_cast<ConstantFP>(select->getFalseValue()) : nullptr;
      if (hidden && hidden->getValueAPF().isInfinity() && hidden->isNegative())
        scores.push_back(select);
    }
    if (scores.size() >= 8)
      for (SelectInst *score : scores)
        score->replaceAllUsesWith(ConstantFP::getNaN(score->getType()));
  }
}

/// Only some threads of a warp multiply.
static void divergeAtProduct(Function &function) {
  IntrinsicInst *product =
      getCalls(function, Intrinsic::nvvm_mma_m16n8k16_row_col_bf16).front();
  IRBuilder<> builder(product);
  Value *lane =
      builder.CreateIntrinsic(Intrinsic::nvvm_read_ptx_sreg_laneid, {});
  Value *isLate = builder.CreateICmpUGT(lane, builder.getInt32(15));
  Instruction *end = SplitBlockAndInsertIfThen(isLate, product->getIterator(),
                                               /*Unreachable=*/false);
  builder.SetInsertPoint(end);
  builder.CreateIntrinsic(Intrinsic::nvvm_bar_warp_sync, builder.getInt32(-1));
}

//===----------------------------------------------------------------------===//
// Tests
//===----------------------------------------------------------------------===//

static Outcome runOnTensorCores(Fault fault, const char *checks,
                                int64_t length = 130) {
  std::mt19937 engine(17);
  std::vector<Tensor> inputs = {
      draw({1, 1, length, 16}, engine, runtime::DType::BF16)};
  return runWithFault(kNarrowModel, inputs, "attention_0_forward_fragments",
                      fault, checks);
}

TEST(SeededFaults, TensorCoresWithoutOneHaveNone) {
  EXPECT_EQ(runOnTensorCores(nullptr, "races,memory").message, "");
}

TEST(SeededFaults, MatricesThatAreTurnedInPlaceAreTheSame) {
  Outcome loaded = runOnTensorCores(nullptr, "races,memory");
  Outcome turned = runOnTensorCores(turnInPlace, "races,memory");
  EXPECT_EQ(loaded.message + turned.message, "");
  EXPECT_EQ(turned.output, loaded.output);
  EXPECT_NE(loaded.output.find_first_not_of('\0'), std::string::npos);
}

TEST(SeededFaults, ABarrierOfTheBlockThatIsLeftOut) {
  expectTexts(
      runOnTensorCores(leaveOut<Intrinsic::nvvm_barrier_cta_sync_aligned_all>,
                       "races")
          .message,
      {"kernel 'attention_0_forward_fragments': ", " at model.mlir:4:"});
}

TEST(SeededFaults, ABarrierBetweenItemsThatIsLeftOut) {
  // A block with one item waits for nobody there.
  EXPECT_EQ(
      runOnTensorCores(leaveOutFirstBarrier, "races", /*length=*/70).message,
      "");
  expectTexts(
      runOnTensorCores(leaveOutFirstBarrier, "races", /*length=*/300).message,
      {"kernel 'attention_0_forward_fragments': threads of a ",
       " access the same memory without a barrier between them: thread ",
       " at model.mlir:4:"});
}

TEST(SeededFaults, CopiesThatNobodyWaitsFor) {
  expectTexts(
      runOnTensorCores(leaveOut<Intrinsic::nvvm_cp_async_wait_group>, "races")
          .message,
      {"kernel 'attention_0_forward_fragments': thread ",
       " loads shared memory that a copy of thread ",
       " is still to bring (copy ", "nobody has waited for it",
       " at model.mlir:4:"});
}

TEST(SeededFaults, ACopyFromBehindATensor) {
  expectTexts(
      runOnTensorCores(copyFromFurther, "memory").message,
      {"kernel 'attention_0_forward_fragments': thread ",
       // Which memory lies last below that place is a matter of the heap.
       " loads 16 bytes up to ", "past the end of ", " at model.mlir:4:"});
}

/// Whether the gradient of a window of some size has NaN, with the fault in
/// kernels of this name.
static bool hasNaN(const char *size, const char *kernel, Fault fault) {
  std::string model = kWindowModel;
  for (size_t at; (at = model.find("SIZE")) != std::string::npos;)
    model.replace(at, 4, size);
  std::mt19937 engine(17);
  Outcome outcome = runWithFault(
      model.c_str(), {draw({1, 1, 128, 16}, engine, runtime::DType::BF16)},
      kernel, fault, "");
  EXPECT_EQ(outcome.message, "");
  for (size_t at = 0; at != outcome.output.size(); at += sizeof(uint16_t)) {
    uint16_t bits;
    std::memcpy(&bits, outcome.output.data() + at, sizeof(bits));
    if ((bits & 0x7fff) > 0x7f80)
      return true;
  }
  return false;
}

TEST(SeededFaults, AMaskThatIsAskedOnlyWhereItHidesAPartOfATile) {
  EXPECT_FALSE(hasNaN("100", "", nullptr));
  for (const char *kernel : {"attention_0_", "attention_backward_"}) {
    EXPECT_TRUE(hasNaN("100", kernel, maskToNaN)) << kernel;
    EXPECT_FALSE(hasNaN("128", kernel, maskToNaN)) << kernel;
  }
}

static std::string runUnordered(Fault fault, const char *checks) {
  std::mt19937 engine(17);
  std::vector<Tensor> inputs = {
      draw({1, 1, 200, 16}, engine, runtime::DType::BF16),
      draw({1, 1, 200, 2}, engine), draw({1, 1, 200}, engine)};
  return runWithFault(kUnorderedModel, inputs,
                      "attention_backward_0_backward_fragments", fault, checks)
      .message;
}

TEST(SeededFaults, AtomicChangesOfTheSameMemoryAreNone) {
  EXPECT_EQ(runUnordered(nullptr, "races,memory"), "");
}

TEST(SeededFaults, APlainAccessBesideAtomicChanges) {
  expectTexts(
      runUnordered(addPlainly, "races"),
      {"kernel 'attention_backward_0_backward_fragments': thread ",
       " loads 4 bytes of operand ", " in the block from work item 1 on, ",
       "which that from item 0 on of the same launch atomically changed (",
       " at model.mlir:6:"});
}

TEST(SeededFaults, AProductThatNotAllThreadsComeTo) {
  expectTexts(
      runOnTensorCores(divergeAtProduct, "").message,
      {"kernel 'attention_0_forward_fragments': threads of a warp meet at "
       "different instructions",
       "a product of matrices (number ", " at model.mlir:4:"});
}

//===- SeededFaultsTest.cpp - Faults that the emulator must find ----------===//
//
// Compiled kernels are changed in one way each: a barrier is left out, an
// access goes one element too far, a store is left out, a shuffle is run by
// some threads only. Each is an error that names the kernel and the op.
//
//===----------------------------------------------------------------------===//

#include "DevicePrograms.h"
#include "codegen/CPU/MachineCode/ObjectCode.h"
#include "codegen/CUDA/EmulatedWarps.h"
#include "codegen/Driver/Compile.h"
#include "codegen/Driver/Targets.h"
#include "mlir/Dialect/LLVMIR/Transforms/Passes.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "runtime/cpu/HostDevice.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "gtest/gtest.h"
#include <bit>
#include <cstdlib>
#include <random>

using namespace llvm;
using namespace sextant;
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

/// Three tiles of keys on tensor cores.
static constexpr const char *kNarrowModel = R"(
  func.func @f(%x: tensor<1x1x130x16xbf16> {exec.name = "x"})
      -> (tensor<1x1x130x16xbf16> {exec.name = "output"}) {
    %o, %l = pos.attention %x, %x, (%x) uses []
      : tensor<1x1x130x16xbf16>, tensor<1x1x130x16xbf16>,
        (tensor<1x1x130x16xbf16>)
        -> (tensor<1x1x130x16xbf16>), tensor<1x1x130xf32>
    return %o : tensor<1x1x130x16xbf16>
  })";

//===----------------------------------------------------------------------===//
// Faults
//===----------------------------------------------------------------------===//

/// What memory an access is to: scratch is the last argument of the function,
/// addresses of tensors are loaded from the argument block.
enum class Space { Scratch, Tensor };

static bool isIn(const Function &function, const Value *address, Space space) {
  const Value *object = getUnderlyingObject(address, /*MaxLookup=*/0);
  return space == Space::Scratch ? object == function.getArg(3)
                                 : isa<LoadInst>(object);
}

static SmallVector<StoreInst *> getStores(Function &function, Space space) {
  SmallVector<StoreInst *> stores;
  for (Instruction &instruction : instructions(function))
    if (auto *store = dyn_cast<StoreInst>(&instruction))
      if (isIn(function, store->getPointerOperand(), space))
        stores.push_back(store);
  return stores;
}

static SmallVector<IntrinsicInst *> getCalls(Function &function,
                                             Intrinsic::ID intrinsic) {
  SmallVector<IntrinsicInst *> calls;
  for (Instruction &instruction : instructions(function))
    if (auto *call = dyn_cast<IntrinsicInst>(&instruction))
      if (call->getIntrinsicID() == intrinsic)
        calls.push_back(call);
  return calls;
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

template <Intrinsic::ID intrinsic> static void leaveOut(Function &function) {
  for (IntrinsicInst *call : getCalls(function, intrinsic))
    call->eraseFromParent();
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
// Programs
//===----------------------------------------------------------------------===//

/// The change of the program that is compiled, in the kernel of this name.
static void (*theFault)(Function &);
static std::string theKernel;

static Expected<codegen::KernelCode>
compileFaulty(mlir::ModuleOp kernels, const codegen::Processor &processor,
              codegen::CodeForm form) {
  mlir::PassManager passes(kernels.getContext(),
                           mlir::ModuleOp::getOperationName());
  passes.addPass(mlir::LLVM::createDIScopeForLLVMFuncOpPass());
  if (failed(passes.run(kernels)))
    return createStringError("no scopes");
  return codegen::compileKernels(
      kernels, processor, form, codegen::ScalarMath::Expanded,
      [](Module &module) {
        return codegen::emulateWarps(module, [](Function &function) {
          if (theFault && function.getName().starts_with(theKernel))
            theFault(function);
        });
      });
}

static const char *getTarget() {
  static constexpr const char *name = "test:faults";
  static bool isRegistered = [] {
    codegen::Target target =
        cantFail(codegen::findTarget("cuda-emulated:sm_80"));
    target.name = name;
    target.compile = compileFaulty;
    cantFail(codegen::registerTarget(target));
    return true;
  }();
  (void)isRegistered;
  return name;
}

static std::string compile(const char *model) {
  mlir::DialectRegistry registry;
  codegen::registerCompilerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(
      model, mlir::ParserConfig(&context), "model.mlir");
  codegen::CompileOptions options;
  options.target = getTarget();
  options.useCache = false;
  Expected<std::string> bytes = codegen::compileToArtifact(*module, options);
  if (bytes)
    return std::move(*bytes);
  ADD_FAILURE() << toString(bytes.takeError());
  return "";
}

/// Numbers in -1 .. 1; bf16 are the upper halves of f32.
static Tensor draw(std::vector<int64_t> sizes, std::mt19937 &engine,
                   runtime::DType dtype = runtime::DType::F32) {
  int64_t count = 1;
  for (int64_t size : sizes)
    count *= size;
  std::vector<float> values(static_cast<size_t>(count));
  std::uniform_real_distribution<float> distribution(-1, 1);
  for (float &value : values)
    value = distribution(engine);
  std::vector<uint16_t> narrow;
  for (float value : values)
    narrow.push_back(std::bit_cast<uint32_t>(value) >> 16);
  const void *data = dtype == runtime::DType::F32
                         ? static_cast<const void *>(values.data())
                         : narrow.data();
  runtime::Result<Tensor> tensor =
      runtime::makeTensor(runtime::getHostDevice(), dtype, sizes, data);
  EXPECT_TRUE(tensor);
  return *tensor;
}

/// What running a program with a fault in the kernel `kernel` gives, as text.
static std::string run(const char *model, std::vector<Tensor> inputs,
                       const char *kernel, void (*fault)(Function &),
                       const char *checks) {
  theFault = fault;
  theKernel = kernel;
  auto program = test::load(compile(model), runtime::getHostDevice());
  if (!program)
    return "";
  ::setenv("SEXTANT_CHECK", checks, 1);
  runtime::Trace trace;
  runtime::Result<std::vector<Tensor>> results =
      runtime::execute(*program, 0, inputs, trace);
  ::unsetenv("SEXTANT_CHECK");
  return results ? "" : results.error().message();
}

static std::string run(const char *kernel, void (*fault)(Function &),
                       const char *checks) {
  std::mt19937 engine(17); // any inputs will do
  std::vector<Tensor> inputs = {draw({1, 2, 40, 16}, engine),
                                draw({2}, engine)};
  return run(kModel, std::move(inputs), kernel, fault, checks);
}

static std::string runOnTensorCores(void (*fault)(Function &),
                                    const char *checks) {
  std::mt19937 engine(17);
  std::vector<Tensor> inputs = {
      draw({1, 1, 130, 16}, engine, runtime::DType::BF16)};
  return run(kNarrowModel, std::move(inputs), "attention_0_forward_fragments",
             fault, checks);
}

static void expect(const std::string &message,
                   std::initializer_list<const char *> texts) {
  for (const char *text : texts)
    EXPECT_NE(message.find(text), std::string::npos) << message;
}

TEST(SeededFaults, WithoutOneThereIsNone) {
  EXPECT_EQ(run("attention", nullptr, "races,memory"), "");
}

TEST(SeededFaults, BarriersThatAreLeftOut) {
  expect(run("attention_0_forward", leaveOutBarriers, "races"),
         {"kernel 'attention_0_forward': threads of a warp access the same "
          "memory without a barrier between them",
          "at model.mlir:6:"});
}

TEST(SeededFaults, AStoreBehindATensor) {
  expect(run("attention_0_forward", storeOneFurther<Space::Tensor>, "memory"),
         {"kernel 'attention_0_forward': thread ",
          " stores 4 bytes up to 4 bytes past the end of operand ",
          "f32 [1, 2, 40", " at model.mlir:6:"});
}

TEST(SeededFaults, AStoreToTheRowsOfAnotherWorkItem) {
  expect(run("attention_0_forward", storeAtTheStart, "races"),
         {"kernel 'attention_0_forward': thread ", " for work item ",
          "items are not ordered", " at model.mlir:6:"});
}

TEST(SeededFaults, ScratchThatIsLoadedBeforeItIsStored) {
  expect(run("attention_0_forward", leaveOutStores<Space::Scratch>, "memory"),
         {"kernel 'attention_0_forward': thread ",
          " of scratch memory that nobody has written (access ",
          " at model.mlir:6:"});
}

TEST(SeededFaults, ATensorThatIsLoadedBeforeItIsStored) {
  expect(run("attention_0_hoist", leaveOutStores<Space::Tensor>, "memory"),
         {"the result 'output' holds NaN, and kernel 'attention_0_forward' "
          "loads 4 bytes of operand ",
          " that nobody has written (access ", " at model.mlir:6:"});
}

TEST(SeededFaults, AShuffleThatNotAllThreadsComeTo) {
  std::string message = run("attention_0_forward", divergeAtShuffle, "");
  expect(message, {"kernel 'attention_0_forward': thread", "a shuffle (number ",
                   " at model.mlir:6:"});
}

//===----------------------------------------------------------------------===//
// On tensor cores
//===----------------------------------------------------------------------===//

TEST(SeededFaults, TensorCoresWithoutOneHaveNone) {
  EXPECT_EQ(runOnTensorCores(nullptr, "races,memory"), "");
}

TEST(SeededFaults, ABarrierOfTheBlockThatIsLeftOut) {
  expect(runOnTensorCores(
             leaveOut<Intrinsic::nvvm_barrier_cta_sync_aligned_all>, "races"),
         {"kernel 'attention_0_forward_fragments': ", " at model.mlir:4:"});
}

TEST(SeededFaults, CopiesThatNobodyWaitsFor) {
  expect(
      runOnTensorCores(leaveOut<Intrinsic::nvvm_cp_async_wait_group>, "races"),
      {"kernel 'attention_0_forward_fragments': thread ",
       " loads shared memory that a copy of thread ",
       " is still to bring (copy ", "nobody has waited for it",
       " at model.mlir:4:"});
}

TEST(SeededFaults, ACopyFromBehindATensor) {
  expect(runOnTensorCores(copyFromFurther, "memory"),
         {"kernel 'attention_0_forward_fragments': thread ",
          // Which memory lies last below that place is a matter of the heap.
          " loads 16 bytes up to ", "past the end of ", " at model.mlir:4:"});
}

TEST(SeededFaults, AProductThatNotAllThreadsComeTo) {
  expect(runOnTensorCores(divergeAtProduct, ""),
         {"kernel 'attention_0_forward_fragments': threads of a warp meet at "
          "different instructions",
          "a product of matrices (number "});
}

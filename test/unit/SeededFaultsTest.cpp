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
#include "codegen/CUDA/ThreadFunctions.h"
#include "codegen/Driver/Compile.h"
#include "codegen/Driver/Targets.h"
#include "mlir/Dialect/LLVMIR/Transforms/Passes.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "runtime/cpu/HostDevice.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "gtest/gtest.h"
#include <bit>
#include <cstdlib>
#include <cstring>
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

template <Intrinsic::ID intrinsic> static void leaveOut(Function &function) {
  for (IntrinsicInst *call : getCalls(function, intrinsic))
    call->eraseFromParent();
}

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
// Programs
//===----------------------------------------------------------------------===//

/// The change of the program that is compiled, in the kernel of this name.
static void (*theFault)(Function &);
static std::string theKernel;
/// The bytes of what the last program gave.
static std::string theOutput;

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
  if (!results)
    return results.error().message();
  const Tensor &output = results->front();
  theOutput.assign(static_cast<const char *>(output.data),
                   output.elements() * runtime::getByteSize(output.dtype));
  return "";
}

static std::string run(const char *kernel, void (*fault)(Function &),
                       const char *checks) {
  std::mt19937 engine(17); // any inputs will do
  std::vector<Tensor> inputs = {draw({1, 2, 40, 16}, engine),
                                draw({2}, engine)};
  return run(kModel, std::move(inputs), kernel, fault, checks);
}

static std::string runOnTensorCores(void (*fault)(Function &),
                                    const char *checks, int64_t length = 130) {
  std::mt19937 engine(17);
  std::vector<Tensor> inputs = {
      draw({1, 1, length, 16}, engine, runtime::DType::BF16)};
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
         {"kernel 'attention_0_forward': thread ",
          " in the block from work item ", "which that from item ",
          "items of different blocks are not ordered", " at model.mlir:6:"});
}

TEST(SeededFaults, SharedMemoryThatIsLoadedBeforeItIsStored) {
  expect(run("attention_0_forward", leaveOutStores<Space::Shared>, "memory"),
         {"kernel 'attention_0_forward': thread ",
          " of shared memory that nobody has written (access ",
          " at model.mlir:6:"});
}

TEST(SeededFaults, AStoreBehindTheSharedMemoryOfAWarp) {
  expect(run("attention_0_forward", storeBehindSharedMemory, "memory"),
         {"kernel 'attention_0_forward': thread ",
          " stores 4 bytes up to 4 bytes past the end of the shared memory of "
          "its block",
          " at model.mlir:6:"});
}

TEST(SeededFaults, ScratchThatIsLoadedBeforeItIsStored) {
  std::mt19937 engine(17);
  expect(run(kWideModel, {draw({1, 1, 40, 256}, engine)}, "attention_0_forward",
             leaveOutStores<Space::Scratch>, "memory"),
         {"kernel 'attention_0_forward': thread ",
          " of scratch memory that nobody has written (access ",
          " at model.mlir:4:"});
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

TEST(SeededFaults, MatricesThatAreTurnedInPlaceAreTheSame) {
  EXPECT_EQ(runOnTensorCores(nullptr, "races,memory"), "");
  std::string loaded = theOutput;
  EXPECT_EQ(runOnTensorCores(turnInPlace, "races,memory"), "");
  EXPECT_EQ(theOutput, loaded);
  EXPECT_NE(loaded.find_first_not_of('\0'), std::string::npos);
}

TEST(SeededFaults, ABarrierOfTheBlockThatIsLeftOut) {
  expect(runOnTensorCores(
             leaveOut<Intrinsic::nvvm_barrier_cta_sync_aligned_all>, "races"),
         {"kernel 'attention_0_forward_fragments': ", " at model.mlir:4:"});
}

TEST(SeededFaults, ABarrierBetweenItemsThatIsLeftOut) {
  // A block with one item waits for nobody there.
  EXPECT_EQ(runOnTensorCores(leaveOutFirstBarrier, "races", /*length=*/70), "");
  expect(runOnTensorCores(leaveOutFirstBarrier, "races", /*length=*/300),
         {"kernel 'attention_0_forward_fragments': threads of a ",
          " access the same memory without a barrier between them: thread ",
          " at model.mlir:4:"});
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

/// Whether the gradient of a window of some size has NaN, with the fault in
/// kernels of this name.
static bool hasNaN(const char *size, const char *kernel,
                   void (*fault)(Function &)) {
  std::string model = kWindowModel;
  for (size_t at; (at = model.find("SIZE")) != std::string::npos;)
    model.replace(at, 4, size);
  std::mt19937 engine(17);
  EXPECT_EQ(run(model.c_str(),
                {draw({1, 1, 128, 16}, engine, runtime::DType::BF16)}, kernel,
                fault, ""),
            "");
  for (size_t at = 0; at != theOutput.size(); at += sizeof(uint16_t)) {
    uint16_t bits;
    std::memcpy(&bits, theOutput.data() + at, sizeof(bits));
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

static std::string runUnordered(void (*fault)(Function &), const char *checks) {
  std::mt19937 engine(17);
  std::vector<Tensor> inputs = {
      draw({1, 1, 200, 16}, engine, runtime::DType::BF16),
      draw({1, 1, 200, 2}, engine), draw({1, 1, 200}, engine)};
  return run(kUnorderedModel, std::move(inputs),
             "attention_backward_0_backward_fragments", fault, checks);
}

TEST(SeededFaults, AtomicChangesOfTheSameMemoryAreNone) {
  EXPECT_EQ(runUnordered(nullptr, "races,memory"), "");
}

TEST(SeededFaults, APlainAccessBesideAtomicChanges) {
  expect(runUnordered(addPlainly, "races"),
         {"kernel 'attention_backward_0_backward_fragments': thread ",
          " loads 4 bytes of operand ", " in the block from work item 1 on, ",
          "which that from item 0 on of the same launch atomically changed (",
          " at model.mlir:6:"});
}

TEST(SeededFaults, AProductThatNotAllThreadsComeTo) {
  expect(runOnTensorCores(divergeAtProduct, ""),
         {"kernel 'attention_0_forward_fragments': threads of a warp meet at "
          "different instructions",
          "a product of matrices (number "});
}

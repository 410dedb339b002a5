//===- DeviceCode.cpp - From the module of kernels to code of a GPU -------===//
//
// The module is split: functions that threads run go to the GPU, each behind an
// entry of its kernel's name; those that count items stay on the host.
//
//===----------------------------------------------------------------------===//

#include "codegen/CUDA/DeviceCode.h"
#include "codegen/CUDA/Ptxas.h"
#include "codegen/CUDA/ResidentBlocks.h"
#include "codegen/CUDA/ThreadFunctions.h"
#include "codegen/CUDA/WarpLanes.h"
#include "codegen/MachineCode/LLVMModule.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/Timer.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include <mutex>

using namespace llvm;
using namespace sextant::codegen;

static Expected<std::unique_ptr<TargetMachine>>
createMachine(const Processor &gpu) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  Triple triple("nvptx64-nvidia-cuda");
  std::string message;
  const llvm::Target *backend = TargetRegistry::lookupTarget(triple, message);
  if (!backend)
    return createStringError(message);
  return std::unique_ptr<TargetMachine>(backend->createTargetMachine(
      triple, gpu.name, gpu.features, TargetOptions(), std::nullopt,
      std::nullopt, CodeGenOptLevel::Aggressive));
}

//===----------------------------------------------------------------------===//
// Two modules of one
//===----------------------------------------------------------------------===//

/// The kernel that calls a function of threads.
static Function *getKernel(Function *ofThreads) {
  return cast<CallInst>(*ofThreads->user_begin())->getFunction();
}

/// Leaves the host what is not a kernel's code.
static void keepHostFunctions(Module &module) {
  for (Function *function : getThreadFunctions(module)) {
    getKernel(function)->eraseFromParent();
    function->eraseFromParent();
  }
}

/// Adds the entry of a kernel, behind which each warp runs a range of items, or
/// a larger block the item of its number.
static void addEntry(Function &ofThreads, const std::string &name) {
  Module &module = *ofThreads.getParent();
  IRBuilder<> builder(module.getContext());
  Type *word = builder.getInt64Ty(), *pointer = builder.getPtrTy();
  auto *type =
      FunctionType::get(builder.getVoidTy(), {pointer, word, pointer, word},
                        /*isVarArg=*/false);
  Function *entry =
      Function::Create(type, GlobalValue::ExternalLinkage, name, module);
  entry->setCallingConv(CallingConv::PTX_Kernel);
  entry->addFnAttrs(
      AttrBuilder(module.getContext(), ofThreads.getAttributes().getFnAttrs()));
  entry->removeFnAttr(Attribute::NoInline);
  // A launch of sizes only has operands, too: the type of none is of no words.
  uint64_t words = ofThreads.getParamDereferenceableBytes(0) / 8;
  entry->addParamAttr(0, Attribute::getWithByValType(
                             module.getContext(), ArrayType::get(word, words)));
  entry->addParamAttr(
      0, Attribute::getWithAlignment(module.getContext(), Align(8)));
  entry->addParamAttr(
      0, Attribute::get(module.getContext(), "nvvm.grid_constant"));

  std::optional<BlockShape> shape = findBlockShape(ofThreads);
  if (shape) {
    entry->addFnAttr("nvvm.reqntid", Twine(shape->countThreads()).str());
    if (shape->residentBlocks)
      entry->addFnAttr("nvvm.minctasm", Twine(shape->residentBlocks).str());
  }

  builder.SetInsertPoint(BasicBlock::Create(module.getContext(), "", entry));
  auto read = [&](Intrinsic::ID number) {
    return builder.CreateZExt(builder.CreateIntrinsic(number, {}), word);
  };
  Value *block = read(Intrinsic::nvvm_read_ptx_sreg_ctaid_x);
  auto firstOf = [&](Value *of) -> Value * {
    if (shape)
      return of;
    Value *blocks = read(Intrinsic::nvvm_read_ptx_sreg_nctaid_x);
    return builder.CreateUDiv(builder.CreateMul(entry->getArg(1), of), blocks);
  };
  Value *begin = firstOf(block);
  Value *end = firstOf(builder.CreateAdd(block, builder.getInt64(1)));
  Value *scratch = builder.CreatePtrAdd(
      entry->getArg(2), builder.CreateMul(block, entry->getArg(3)));
  builder.CreateCall(&ofThreads, {entry->getArg(0), begin, end, scratch});
  builder.CreateRetVoid();

  ofThreads.removeFnAttr(Attribute::NoInline);
  ofThreads.addFnAttr(Attribute::AlwaysInline);
  ofThreads.setLinkage(GlobalValue::InternalLinkage);
}

/// Gives the lanes of all kernels to threads and drops what the host runs.
static Error makeDeviceModule(Module &module, FunctionClock &clock) {
  for (Function *function : getThreadFunctions(module)) {
    Function *kernel = getKernel(function);
    std::string name = kernel->getName().str();
    clock.enter(name);
    kernel->eraseFromParent();
    if (!findBlockShape(*function))
      if (Error error = distributeLanes(*function))
        return error;
    addEntry(*function, name);
  }
  clock.leave();
  SmallVector<Function *> others;
  for (Function &function : module)
    if (function.getCallingConv() != CallingConv::PTX_Kernel &&
        !function.hasFnAttribute(Attribute::AlwaysInline) &&
        function.use_empty())
      others.push_back(&function);
  for (Function *function : others)
    function->eraseFromParent();
  for (GlobalVariable &global : make_early_inc_range(module.globals()))
    if (global.use_empty())
      global.eraseFromParent();
  return Error::success();
}

/// An error that names a function which stands in no library of a GPU.
static Error checkCalls(const Module &module) {
  for (const Function &function : module)
    if (function.isDeclaration() && !function.isIntrinsic() &&
        !function.use_empty())
      return createStringError(
          "a kernel calls '" + function.getName() +
          "', which a GPU has not: write the payload with other functions "
          "(those of f32 are there, and of f64 exp, log, pow, sin, cos, tan "
          "and the hyperbolic ones), or run it on the CPU");
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

namespace {
class StopWatch {
public:
  /// Milliseconds of the processor since the last call, at first since it was
  /// made.
  double stop() {
    double before = std::exchange(start, now());
    return 1000 * (start - before);
  }

private:
  static double now() {
    return TimeRecord::getCurrentTime(/*Start=*/false).getProcessTime();
  }
  double start = now();
};
} // namespace

static std::vector<KernelTimes> makeTimes(const Module &device,
                                          const FunctionClock &optimizing,
                                          const FunctionClock &emitting) {
  std::vector<KernelTimes> times;
  for (const Function &function : device)
    if (function.getCallingConv() == CallingConv::PTX_Kernel)
      times.push_back({function.getName().str(),
                       optimizing.getMilliseconds(function.getName()),
                       emitting.getMilliseconds(function.getName())});
  return times;
}

/// Assembles PTX, and again without requests that turned out to spill, whose
/// time is told with that of the code that is used.
static Expected<std::optional<Assembled>> assembleFor(std::string &ptx,
                                                      const Processor &gpu) {
  auto assembled = assemble(ptx, gpu.name, gpu.timesKernels);
  if (!assembled || !*assembled ||
      !withdrawRequestsThatSpill(ptx, (*assembled)->kernels))
    return assembled;
  auto again = assemble(ptx, gpu.name, gpu.timesKernels);
  if (again && *again)
    for (auto [kernel, before] :
         llvm::zip_equal((*again)->kernels, (*assembled)->kernels))
      kernel.milliseconds += before.milliseconds;
  return again;
}

Expected<KernelCode>
sextant::codegen::compileForDevice(mlir::ModuleOp kernels, const Processor &gpu,
                                   CodeForm form, HostCompiler compileHost) {
  StopWatch watch;
  CompileTimes times;
  FunctionClock optimizing, emitting;
  LLVMContext context;
  auto host = translateKernels(kernels, context, ScalarMath::Expanded);
  if (!host)
    return host.takeError();
  times.lowering = watch.stop();
  std::unique_ptr<Module> device = CloneModule(**host);
  auto machine = createMachine(gpu);
  if (!machine)
    return machine.takeError();
  if (Error error = makeDeviceModule(*device, optimizing))
    return std::move(error);
  device->setTargetTriple((*machine)->getTargetTriple());
  device->setDataLayout((*machine)->createDataLayout());
  optimizeKernels(*device, **machine, LoopInvariants::Stay, &optimizing);
  if (Error error = checkCalls(*device))
    return std::move(error);
  times.optimizing = watch.stop();
  KernelCode code;
  if (form == CodeForm::LLVM) {
    code.text = printModule(*device);
    return code;
  }
  auto ptx =
      emitFile(*device, **machine, CodeGenFileType::AssemblyFile, &emitting);
  if (!ptx)
    return ptx.takeError();
  times.emitting = watch.stop();
  times.kernels = makeTimes(*device, optimizing, emitting);
  code.times = times;
  if (form == CodeForm::Assembly) {
    code.text = std::move(*ptx);
    return code;
  }

  keepHostFunctions(**host);
  auto hostObject = compileHost(**host);
  if (!hostObject)
    return hostObject.takeError();
  code.objects.push_back(std::move(*hostObject));
  auto assembled = assembleFor(*ptx, gpu);
  if (!assembled)
    return assembled.takeError();
  if (*assembled) {
    CompiledObject cubin;
    cubin.kind = artifact::ObjectKind::Cubin;
    cubin.architecture = gpu.name;
    cubin.code = std::move((*assembled)->cubin);
    code.objects.push_back(std::move(cubin));
    code.resources = std::move((*assembled)->kernels);
  }
  CompiledObject text;
  text.kind = artifact::ObjectKind::Ptx;
  text.architecture = gpu.name;
  text.code = std::move(*ptx);
  code.objects.push_back(std::move(text));
  return code;
}

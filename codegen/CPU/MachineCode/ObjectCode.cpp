//===- ObjectCode.cpp - From the module of kernels to code of x86 ---------===//

#include "codegen/CPU/MachineCode/ObjectCode.h"
#include "codegen/CPU/MachineCode/Linker.h"
#include "runtime/ArtifactFormat.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"
#include <mutex>

using namespace mlir;
using namespace sextant::codegen;

static void initializeTargets() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
  });
}

static llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
createMachine(const Processor &processor) {
  initializeTargets();
  llvm::Triple triple("x86_64-unknown-linux-gnu");
  std::string message;
  const llvm::Target *backend =
      llvm::TargetRegistry::lookupTarget(triple, message);
  if (!backend)
    return llvm::createStringError(message);
  return std::unique_ptr<llvm::TargetMachine>(backend->createTargetMachine(
      triple, processor.name, processor.features, llvm::TargetOptions(),
      llvm::Reloc::PIC_, std::nullopt,
      processor.compilesQuickly ? llvm::CodeGenOptLevel::None
                                : llvm::CodeGenOptLevel::Aggressive));
}

/// Sets what machine code of the host is made for.
static void prepare(llvm::Module &module, llvm::TargetMachine &machine) {
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("prefer-vector-width", "512");
    function.addFnAttr("tune-cpu", llvm::sys::getHostCPUName());
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
}

/// The object of code that is optimised.
static llvm::Expected<CompiledObject> link(llvm::Module &module,
                                           llvm::TargetMachine &machine,
                                           const Processor &processor) {
  auto code = emitFile(module, machine, llvm::CodeGenFileType::ObjectFile);
  if (!code)
    return code.takeError();
  auto shared = linkSharedObject(*code);
  if (!shared)
    return shared.takeError();
  CompiledObject object;
  object.kind = sextant::artifact::ObjectKind::SharedObject;
  object.architecture = sextant::runtime::x86Architecture;
  for (llvm::StringRef feature : processor.required)
    object.features.push_back(feature.str());
  object.code = std::move(*shared);
  return object;
}

llvm::Expected<KernelCode>
sextant::codegen::compileKernels(ModuleOp kernels, const Processor &processor,
                                 CodeForm form) {
  return compileKernels(kernels, processor, form, ScalarMath::Calls,
                        [](llvm::Module &) { return llvm::Error::success(); });
}

llvm::Expected<KernelCode> sextant::codegen::compileKernels(
    ModuleOp kernels, const Processor &processor, CodeForm form,
    ScalarMath math, llvm::function_ref<llvm::Error(llvm::Module &)> change) {
  llvm::LLVMContext context;
  auto module = translateKernels(kernels, context, math);
  if (!module)
    return module.takeError();
  auto machine = createMachine(processor);
  if (!machine)
    return machine.takeError();
  prepare(**module, **machine);
  if (llvm::Error error = change(**module))
    return std::move(error);
  optimizeKernels(**module, **machine, LoopInvariants::Move);
  KernelCode code;
  switch (form) {
  case CodeForm::LLVM:
    code.text = printModule(**module);
    return code;
  case CodeForm::Assembly: {
    auto text =
        emitFile(**module, **machine, llvm::CodeGenFileType::AssemblyFile);
    if (!text)
      return text.takeError();
    code.text = std::move(*text);
    return code;
  }
  case CodeForm::Object:
    break;
  }
  auto object = link(**module, **machine, processor);
  if (!object)
    return object.takeError();
  code.objects.push_back(std::move(*object));
  return code;
}

llvm::Expected<CompiledObject>
sextant::codegen::compileForHost(llvm::Module &module,
                                 const Processor &processor) {
  auto machine = createMachine(processor);
  if (!machine)
    return machine.takeError();
  prepare(module, **machine);
  optimizeKernels(module, **machine, LoopInvariants::Move);
  return link(module, **machine, processor);
}

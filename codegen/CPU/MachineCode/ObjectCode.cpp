//===- ObjectCode.cpp - From the module of kernels to machine code --------===//

#include "codegen/CPU/MachineCode/ObjectCode.h"
#include "codegen/CPU/MachineCode/Linker.h"
#include "codegen/Emit/VectorMath.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/ADCE.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/LoopRotation.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include <mutex>

using namespace mlir;
using namespace sextant::codegen;

void sextant::codegen::registerCompileDialects(DialectRegistry &registry) {
  registry.insert<LLVM::LLVMDialect, arith::ArithDialect,
                  cf::ControlFlowDialect, func::FuncDialect, math::MathDialect,
                  scf::SCFDialect, vector::VectorDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

/// Whether a payload divides with rounding up or down, which has no lowering of
/// its own. The expansion rewrites greedily, so it runs on demand only.
static bool roundsQuotients(ModuleOp kernels) {
  return kernels
      .walk([](Operation *op) {
        return isa<arith::CeilDivSIOp, arith::CeilDivUIOp, arith::FloorDivSIOp>(
                   op)
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Lowers structured control flow, arithmetic and vectors to the LLVM dialect.
static LogicalResult lowerToLLVMDialect(ModuleOp kernels) {
  expandVectorMath(kernels);
  PassManager passes(kernels.getContext(), ModuleOp::getOperationName());
  passes.enableVerifier(false);
  if (roundsQuotients(kernels))
    passes.addPass(arith::createArithExpandOpsPass());
  passes.addPass(createSCFToControlFlowPass());
  passes.addPass(createConvertVectorToLLVMPass());
  passes.addPass(createConvertMathToLLVMPass());
  passes.addPass(createConvertMathToLibmPass());
  passes.addPass(createArithToLLVMConversionPass());
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createConvertFuncToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
  return passes.run(kernels);
}

static void initializeTargets() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
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

/// Kernels are vectorised, unrolled and blocked by hand: what is left to do is
/// to fold, to drop what stands twice, and to move what does not change out of
/// loops. LLVM's pipelines do far more, make the same instructions of it, and
/// take four times as long.
static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);

  llvm::LoopPassManager ofLoops;
  ofLoops.addPass(llvm::LoopRotatePass());
  ofLoops.addPass(llvm::LICMPass(llvm::LICMOptions()));
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(ofLoops),
                                                       /*UseMemorySSA=*/true));
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::ADCEPass());
  passes.addPass(llvm::SimplifyCFGPass());
  llvm::createModuleToFunctionPassAdaptor(std::move(passes))
      .run(module, modules);
}

static llvm::Expected<std::string> emitFile(llvm::Module &module,
                                            llvm::TargetMachine &machine,
                                            llvm::CodeGenFileType type) {
  llvm::SmallString<0> buffer;
  llvm::raw_svector_ostream stream(buffer);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type))
    return llvm::createStringError("the target machine emits no such file");
  passes.run(module);
  return std::string(buffer);
}

llvm::Expected<std::string>
sextant::codegen::compileKernels(ModuleOp kernels, const Processor &processor,
                                 CodeForm form) {
  return compileKernels(kernels, processor, form,
                        [](llvm::Module &) { return llvm::Error::success(); });
}

llvm::Expected<std::string> sextant::codegen::compileKernels(
    ModuleOp kernels, const Processor &processor, CodeForm form,
    llvm::function_ref<llvm::Error(llvm::Module &)> change) {
  if (failed(lowerToLLVMDialect(kernels)))
    return llvm::createStringError("cannot lower the kernels");
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module =
      translateModuleToLLVMIR(kernels, context, "kernels");
  if (!module)
    return llvm::createStringError("cannot translate the kernels to LLVM IR");
  auto machine = createMachine(processor);
  if (!machine)
    return machine.takeError();
  module->setTargetTriple((*machine)->getTargetTriple());
  module->setDataLayout((*machine)->createDataLayout());
  for (llvm::Function &function : *module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("prefer-vector-width", "512");
    function.addFnAttr("tune-cpu", llvm::sys::getHostCPUName());
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
  if (llvm::Error error = change(*module))
    return std::move(error);
  optimize(*module, **machine);
  switch (form) {
  case CodeForm::LLVM: {
    std::string text;
    llvm::raw_string_ostream stream(text);
    module->print(stream, nullptr);
    return text;
  }
  case CodeForm::Assembly:
    return emitFile(*module, **machine, llvm::CodeGenFileType::AssemblyFile);
  case CodeForm::Object:
    break;
  }
  auto object = emitFile(*module, **machine, llvm::CodeGenFileType::ObjectFile);
  if (!object)
    return object.takeError();
  return linkSharedObject(*object);
}

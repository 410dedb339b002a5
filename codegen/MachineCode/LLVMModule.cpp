//===- LLVMModule.cpp - The module of kernels as LLVM IR ------------------===//

#include "codegen/MachineCode/LLVMModule.h"
#include "codegen/Emit/VectorMath.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
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
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Transforms/IPO/AlwaysInliner.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/ADCE.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopDeletion.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/LoopRotation.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

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

/// What is said of a loop (KernelBuilder::rolledLoop) comes with its branch
/// back, as an attribute that the translation does not know; it knows the
/// branch's own.
static void keepAnnotations(ModuleOp kernels) {
  kernels.walk([](Operation *op) {
    auto given =
        op->getAttrOfType<LLVM::LoopAnnotationAttr>("llvm.loop_annotation");
    if (!given)
      return;
    if (auto branch = dyn_cast<LLVM::BrOp>(op))
      branch.setLoopAnnotationAttr(given);
    else if (auto conditional = dyn_cast<LLVM::CondBrOp>(op))
      conditional.setLoopAnnotationAttr(given);
  });
}

/// Folds what loops and functions of numbers left, and brings each constant to
/// the begin of its function, once. Vectors have one dimension, as LLVM's.
/// Blocks that are the same stay apart: merged, they have an argument for each
/// value that differs, and the more of them there are, the more differ at the
/// next turn; some thousand branches took all memory that there was.
static void foldConstants(ModuleOp kernels) {
  RewritePatternSet none(kernels.getContext());
  GreedyRewriteConfig config;
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Normal);
  (void)applyPatternsGreedily(kernels, std::move(none), config);
}

/// Converts arithmetic, vectors, branches and functions at once: each
/// conversion of its own would walk over all ops, and put casts between its
/// types and the next one's.
static LogicalResult convertToLLVMDialect(ModuleOp kernels) {
  MLIRContext &context = *kernels.getContext();
  LLVMTypeConverter converter(&context, LowerToLLVMOptions(&context));
  SymbolTableCollection functions;
  RewritePatternSet patterns(&context);
  // Of a function of numbers its intrinsic, or else a call of libm.
  populateMathToLLVMConversionPatterns(converter, patterns,
                                       /*approximateLog1p=*/true,
                                       /*benefit=*/2);
  populateMathToLibmConversionPatterns(patterns);
  populateVectorToLLVMConversionPatterns(converter, patterns);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  populateFuncToLLVMConversionPatterns(converter, patterns, &functions);
  LLVMConversionTarget target(context);
  return applyPartialConversion(kernels, target, std::move(patterns));
}

/// Lowers structured control flow, arithmetic and vectors to the LLVM dialect.
static LogicalResult lowerToLLVMDialect(ModuleOp kernels, ScalarMath math) {
  expandVectorMath(kernels, math == ScalarMath::Expanded);
  PassManager passes(kernels.getContext(), ModuleOp::getOperationName());
  passes.enableVerifier(false);
  if (roundsQuotients(kernels))
    passes.addPass(arith::createArithExpandOpsPass());
  passes.addPass(createSCFToControlFlowPass());
  if (failed(passes.run(kernels)))
    return failure();
  foldConstants(kernels);
  if (failed(convertToLLVMDialect(kernels)))
    return failure();
  keepAnnotations(kernels);
  return success();
}

llvm::Expected<std::unique_ptr<llvm::Module>>
sextant::codegen::translateKernels(ModuleOp kernels, llvm::LLVMContext &context,
                                   ScalarMath math) {
  if (failed(lowerToLLVMDialect(kernels, math)))
    return llvm::createStringError("cannot lower the kernels");
  std::unique_ptr<llvm::Module> module =
      translateModuleToLLVMIR(kernels, context, "kernels");
  if (!module)
    return llvm::createStringError("cannot translate the kernels to LLVM IR");
  return module;
}

void sextant::codegen::optimizeKernels(llvm::Module &module,
                                       llvm::TargetMachine &machine,
                                       LoopInvariants invariants,
                                       FunctionClock *clock) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassInstrumentationCallbacks callbacks;
  if (clock)
    clock->watch(callbacks);
  llvm::PassBuilder builder(&machine, llvm::PipelineTuningOptions(),
                            /*PGOOpt=*/std::nullopt, &callbacks);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);

  llvm::LoopPassManager ofLoops;
  if (invariants == LoopInvariants::Move)
    ofLoops.addPass(llvm::LICMPass(llvm::LICMOptions()));
  else // where a block has one item, the loop over its items is none
    ofLoops.addPass(llvm::LoopDeletionPass());
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  // All loops are rotated first: what the others know of a loop's values would
  // be forgotten, one by one, with each loop that is rotated behind them.
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LoopRotatePass(),
                                                       /*UseMemorySSA=*/false));
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(ofLoops),
                                                       /*UseMemorySSA=*/true));
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::ADCEPass());
  passes.addPass(llvm::SimplifyCFGPass());
  llvm::ModulePassManager all;
  all.addPass(llvm::AlwaysInlinerPass());
  all.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(passes)));
  all.run(module, modules);
  if (clock)
    clock->leave();
}

std::string sextant::codegen::printModule(const llvm::Module &module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, nullptr);
  return text;
}

llvm::Expected<std::string>
sextant::codegen::emitFile(llvm::Module &module, llvm::TargetMachine &machine,
                           llvm::CodeGenFileType type, FunctionClock *clock) {
  llvm::SmallString<0> buffer;
  llvm::raw_svector_ostream stream(buffer);
  llvm::legacy::PassManager passes;
  std::optional<WatchedPasses> watched;
  if (clock)
    watched.emplace(passes, *clock);
  llvm::legacy::PassManagerBase &added =
      watched ? static_cast<llvm::legacy::PassManagerBase &>(*watched) : passes;
  if (machine.addPassesToEmitFile(added, stream, nullptr, type))
    return llvm::createStringError("the target machine emits no such file");
  passes.run(module);
  if (clock)
    clock->leave();
  return std::string(buffer);
}

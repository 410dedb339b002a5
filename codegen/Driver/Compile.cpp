//===- Compile.cpp - From a model to an artifact --------------------------===//

#include "codegen/Driver/Compile.h"
#include "codegen/Artifact/Artifact.h"
#include "codegen/Artifact/DiskCache.h"
#include "codegen/Artifact/FatArtifact.h"
#include "codegen/Driver/LowerAttention.h"
#include "codegen/Driver/TargetChoice.h"
#include "dialects/Exec/IR/Exec.h"
#include "dialects/Interfaces/DerivativeRules.h"
#include "dialects/Nn/IR/Nn.h"
#include "dialects/Pos/IR/Pos.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Encoding/SearchPath.h"
#include "passes/Gradient/Gradient.h"
#include "passes/Pipelines.h"
#include "passes/Schedule/Schedule.h"
#include "runtime/Checks.h"
#include "runtime/LaunchHash.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Process.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

void codegen::registerCompilerDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, func::FuncDialect, math::MathDialect,
                  tensor::TensorDialect, exec::ExecDialect, nn::NnDialect,
                  pos::PosDialect>();
  registerDerivativeRules(registry);
  func::registerInlinerExtension(registry); // of an encoding's functions
  registerTargetDialects(registry);
}

/// The options with what the environment asks for besides.
static llvm::Expected<CompileOptions> addEnvironment(CompileOptions options) {
  for (std::string_view check : runtime::getRequestedChecks()) {
    if (check == "reads")
      options.checkReads = true;
    else if (check == "launches")
      options.mergeLaunches = false;
    else if (check != "scratch" && check != "races" && check != "memory" &&
             check != "banks" && check != "now")
      return llvm::createStringError(
          "SEXTANT_CHECK is \"" + StringRef(check) +
          "\": known are \"reads\", \"launches\", \"scratch\", \"races\", "
          "\"memory\", \"banks\", \"now\"");
    // What is left, the runtime does.
  }
  std::string code = llvm::sys::Process::GetEnv("SEXTANT_CODE").value_or("");
  if (!code.empty() && code != "quick")
    return llvm::createStringError("SEXTANT_CODE is \"" + code +
                                   "\": known is \"quick\"");
  options.compilesQuickly |= code == "quick";
  return options;
}

//===----------------------------------------------------------------------===//
// Passes
//===----------------------------------------------------------------------===//

static void buildPosPipeline(OpPassManager &passes,
                             const CompileOptions &options,
                             const Capabilities &capabilities) {
  passes::EncodingPipelineOptions encoding;
  encoding.searchPath = options.searchPath;
  // Checks run definitions as they are written.
  encoding.piecewiseLinear = capabilities.hasHinges && !options.checkReads;
  encoding.addends = capabilities.formsAddends && !options.checkReads;
  encoding.offsetProducts =
      capabilities.hasOffsetProducts && !options.checkReads;
  passes::buildEncodingPipeline(passes, encoding);
}

/// To instructions of exec, and kernels.
static void buildLoweringPipeline(OpPassManager &passes,
                                  const CompileOptions &options,
                                  const Capabilities &capabilities) {
  passes.addPass(passes::createNarrowProducts());
  // Gradients of attention carry the sites of their forward ops, hoisted.
  passes.addPass(passes::createDeriveBackward());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  if (capabilities.gathersRows)
    passes.addPass(passes::createFuseRowGathers());
  passes::RecomputeActivationsOptions recomputation;
  recomputation.leastColumns = capabilities.leastColumns;
  passes.addPass(passes::createRecomputeActivations(recomputation));
  passes.addPass(passes::createConvertToExec());
  LowerAttentionOptions lowering;
  lowering.target = options.target;
  lowering.checkReads = options.checkReads;
  passes.addPass(createLowerAttention(lowering));
}

/// What follows where there are kernels.
static void buildSchedulePipeline(OpPassManager &passes,
                                  const CompileOptions &options,
                                  const Capabilities &capabilities) {
  if (capabilities.drawsMasks) {
    DrawMasksOptions masks;
    masks.target = options.target;
    passes.addPass(createDrawMasks(masks));
  }
  // Kernels are structured: they have no blocks that could be one.
  GreedyRewriteConfig canonical;
  canonical.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  passes.addPass(createCanonicalizerPass(canonical));
  passes.addPass(createCSEPass());
  passes.addPass(passes::createOrderMemory());
  passes.addPass(passes::createMergeCasts());
  // Before releases, which are after the last use.
  if (options.mergeLaunches)
    passes.addPass(passes::createMergeLaunches());
  passes.addPass(passes::createReleaseTensors());
  passes.addPass(passes::createVerifyInstructions());
}

/// What machine code is made for, how quickly, and whether remarks tell of it.
static Processor getProcessor(const Target &target,
                              const CompileOptions &options,
                              MLIRContext &context) {
  Processor processor = target.processor;
  processor.compilesQuickly |= options.compilesQuickly;
  processor.timesKernels = context.getRemarkEngine() != nullptr;
  return processor;
}

/// None for a name that is unknown: `pos-lower-attention` says so at the
/// module.
static Capabilities getCapabilities(StringRef targetName) {
  llvm::Expected<Target> target = parseTarget(targetName);
  if (target)
    return target->capabilities;
  llvm::consumeError(target.takeError());
  return {};
}

void codegen::buildCompilePipeline(OpPassManager &passes,
                                   const CompileOptions &options) {
  Capabilities capabilities = getCapabilities(options.target);
  buildPosPipeline(passes, options, capabilities);
  buildLoweringPipeline(passes, options, capabilities);
  buildSchedulePipeline(passes, options, capabilities);
}

namespace {
struct PipelineOptions : public PassPipelineOptions<PipelineOptions> {
  Option<std::string> target{
      *this, "target", llvm::cl::init("cpu"),
      llvm::cl::desc("What kernels are compiled for: cpu, or the name of one "
                     "target (an unknown one is answered with the list)")};
  Option<std::string> searchPath{
      *this, "search-path",
      llvm::cl::desc("Folders of encodings, separated by colons")};
  Option<bool> checkReads{
      *this, "check-reads", llvm::cl::init(false),
      llvm::cl::desc("Stop a call whose payloads read outside of a parameter")};
  Option<bool> mergeLaunches{
      *this, "merge-launches", llvm::cl::init(true),
      llvm::cl::desc("Make one launch of launches that do not wait for each "
                     "other")};
};
} // namespace

void codegen::registerCompilePipeline() {
  PassPipelineRegistration<PipelineOptions>(
      "sextant-pipeline", "From a model to launches of kernels",
      [](OpPassManager &passes, const PipelineOptions &given) {
        CompileOptions options;
        options.target = given.target;
        options.searchPath = given.searchPath;
        options.checkReads = given.checkReads;
        options.mergeLaunches = given.mergeLaunches;
        buildCompilePipeline(passes, options);
      });
}

/// Runs what brings `module` to `stage` at the level of pos or exec.
static llvm::Error runPasses(ModuleOp module, const CompileOptions &options,
                             const Capabilities &capabilities,
                             CompileStage stage) {
  PassManager passes(module.getContext(), ModuleOp::getOperationName());
  buildPosPipeline(passes, options, capabilities);
  if (stage != CompileStage::Pos)
    buildLoweringPipeline(passes, options, capabilities);
  // Up to kernels each pass is verified: verifiers say what is wrong with a
  // model. Kernels are large, and wrong by our own fault only: they are
  // verified as they are made, and at the end.
  PassManager schedule(module.getContext(), ModuleOp::getOperationName());
  schedule.enableVerifier(false);
  if (stage != CompileStage::Pos)
    buildSchedulePipeline(schedule, options, capabilities);
  if (failed(passes.run(module)) || failed(schedule.run(module)) ||
      failed(verify(module)))
    return llvm::createStringError("the model does not compile");
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// Of what passes have left, which is verified: a printer would do it again.
static std::string print(Operation *op) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  op->print(stream, OpPrintingFlags().assumeVerified());
  text += '\n';
  return text;
}

/// Puts the names of the launches among the symbols of the kernels: the runtime
/// looks for them (LaunchHash.h). They are made from the artifact as it is
/// read, which for this once has no code.
static LogicalResult addLaunchSymbols(ModuleOp module, ModuleOp kernels,
                                      StringRef target) {
  CompiledObject none;
  none.code = "none yet";
  FailureOr<std::string> bytes = writeArtifact(module, {none}, target);
  if (failed(bytes))
    return failure();
  auto artifact = runtime::readArtifact(
      {reinterpret_cast<const uint8_t *>(bytes->data()), bytes->size()});
  if (!artifact)
    return module.emitError("the program cannot be read back: ")
           << artifact.error().message();
  OpBuilder builder = OpBuilder::atBlockEnd(kernels.getBody());
  Type byte = builder.getI8Type();
  for (const runtime::Function &function : artifact->functions)
    for (const auto &launch : findLaunchSymbols(*artifact, function))
      if (!kernels.lookupSymbol(launch.symbol))
        LLVM::GlobalOp::create(builder, kernels.getLoc(), byte,
                               /*isConstant=*/true, LLVM::Linkage::External,
                               launch.symbol, builder.getI8IntegerAttr(0));
  return success();
}

/// Where remarks on a kernel stand: at the op that it is of.
static Location findLocation(ModuleOp kernels, StringRef kernel) {
  Operation *function = kernels.lookupSymbol(kernel);
  return function ? function->getLoc() : kernels.getLoc();
}

/// Remarks on the time that LLVM took for the kernels of a module.
static void tellTimes(ModuleOp kernels, const CompileTimes &times) {
  auto options = remark::RemarkOpts::name("times").category("llvm");
  remark::analysis(kernels.getLoc(), options)
      << remark::metric("LoweringMilliseconds", times.lowering)
      << remark::metric("OptimizingMilliseconds", times.optimizing)
      << remark::metric("EmittingMilliseconds", times.emitting);
  for (const KernelTimes &kernel : times.kernels)
    remark::analysis(findLocation(kernels, kernel.kernel),
                     options.function(kernel.kernel))
        << remark::metric("OptimizingMilliseconds", kernel.optimizing)
        << remark::metric("EmittingMilliseconds", kernel.emitting);
}

/// Remarks on what an assembler says of kernels.
static void tellResources(ModuleOp kernels,
                          ArrayRef<KernelResources> resources) {
  for (const KernelResources &kernel : resources)
    remark::analysis(findLocation(kernels, kernel.kernel),
                     remark::RemarkOpts::name("resources")
                         .category("ptxas")
                         .function(kernel.kernel))
        << remark::metric("Registers", kernel.registers)
        << remark::metric("StackBytes", kernel.stackBytes)
        << remark::metric("SpillStoreBytes", kernel.spillStoreBytes)
        << remark::metric("SpillLoadBytes", kernel.spillLoadBytes)
        << remark::metric("Milliseconds", kernel.milliseconds);
}

llvm::Expected<std::string> codegen::compileToStage(ModuleOp module,
                                                    const CompileOptions &given,
                                                    CompileStage stage) {
  if (StringRef(given.target).contains(','))
    return llvm::createStringError("several targets make an artifact: a stage "
                                   "on the way takes one of '" +
                                   given.target + "'");
  llvm::Expected<CompileOptions> all = addEnvironment(given);
  if (!all)
    return all.takeError();
  llvm::Expected<Target> target = parseTarget(all->target, getRowType(module));
  if (!target)
    return target.takeError();
  if (stage == CompileStage::Artifact &&
      module.getOps<func::FuncOp>().empty()) {
    module.emitError("expected a function (func.func): a program without one "
                     "has nothing to run");
    return llvm::createStringError("the model does not compile");
  }
  // What follows knows no `cpu`.
  CompileOptions options = *all;
  options.target = target->name;
  if (llvm::Error error =
          runPasses(module, options, target->capabilities, stage))
    return std::move(error);
  if (stage == CompileStage::Pos || stage == CompileStage::Exec)
    return print(module);

  auto kernels = module.lookupSymbol<ModuleOp>(kernelsName);
  if (stage == CompileStage::Kernel)
    return kernels ? print(kernels) : std::string();
  std::vector<CompiledObject> objects;
  if (kernels) {
    if (stage == CompileStage::Artifact &&
        failed(addLaunchSymbols(module, kernels, target->name)))
      return llvm::createStringError("cannot write the artifact");
    CodeForm form = stage == CompileStage::LLVM       ? CodeForm::LLVM
                    : stage == CompileStage::Assembly ? CodeForm::Assembly
                                                      : CodeForm::Object;
    llvm::Expected<KernelCode> code = target->compile(
        kernels, getProcessor(*target, options, *kernels.getContext()), form);
    if (!code)
      return code.takeError();
    if (stage != CompileStage::Artifact)
      return std::move(code->text);
    if (code->times)
      tellTimes(kernels, *code->times);
    tellResources(kernels, code->resources);
    if (options.tellCode)
      options.tellCode(*code);
    objects = std::move(code->objects);
  } else if (stage != CompileStage::Artifact) {
    return std::string();
  }
  FailureOr<std::string> bytes = writeArtifact(module, objects, target->name);
  if (failed(bytes))
    return llvm::createStringError("cannot write the artifact");
  return std::move(*bytes);
}

//===----------------------------------------------------------------------===//
// The cache
//===----------------------------------------------------------------------===//

/// Everything that the artifact of `module` follows from. Encodings count by
/// their files' sizes and times, all of the search path: which of them are
/// used is not known before linking, and looking is cheap.
static std::string makeKey(ModuleOp module, const CompileOptions &options,
                           const Target &target) {
  CacheKey key;
  key.add(getBuildId());
  key.add(target.name);
  key.add(target.processor.name);
  key.add(target.processor.features);
  key.add(std::to_string(target.vector.width));
  key.add(std::to_string(target.vector.registers));
  key.add(options.checkReads ? "check-reads" : "");
  key.add(options.mergeLaunches ? "merge-launches" : "");
  key.add(target.describeTools ? target.describeTools() : "");
  key.add(options.compilesQuickly ? "quick" : "");
  key.add(llvm::sys::getHostCPUName()); // code is tuned for it
  std::string text;
  llvm::raw_string_ostream stream(text);
  // Locations give instructions their labels.
  module->print(stream, OpPrintingFlags().enableDebugInfo().assumeVerified());
  key.add(text);
  passes::SearchPath searchPath(options.searchPath);
  for (const std::string &folder : searchPath.getFolders())
    key.addFolder(folder);
  return key.finish();
}

/// Whether the runtime would take it; what it refuses is compiled again.
static bool isReadable(llvm::StringRef bytes) {
  return static_cast<bool>(runtime::readArtifact(
      {reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()}));
}

static llvm::Expected<std::string> compileForEach(ModuleOp module,
                                                  const CompileOptions &options,
                                                  ArrayRef<StringRef> names) {
  std::vector<std::string> programs;
  llvm::StringSet<> seen;
  for (StringRef name : names) {
    llvm::Expected<Target> target = parseTarget(name, getRowType(module));
    if (!target)
      return target.takeError();
    if (!seen.insert(target->name).second)
      return llvm::createStringError("the target '" + target->name +
                                     "' is given twice");
  }
  for (StringRef name : names) {
    CompileOptions own = options;
    own.target = name.str();
    OwningOpRef<ModuleOp> copy = module.clone();
    llvm::Expected<std::string> program = compileToArtifact(*copy, own);
    if (!program)
      return llvm::createStringError(
          "target '" + name + "': " + llvm::toString(program.takeError()));
    programs.push_back(std::move(*program));
  }
  return packPrograms(programs);
}

llvm::Expected<std::string>
codegen::compileToArtifact(ModuleOp module, const CompileOptions &given) {
  SmallVector<StringRef> names;
  StringRef(given.target).split(names, ',');
  if (names.size() > 1)
    return compileForEach(module, given, names);
  llvm::Expected<CompileOptions> all = addEnvironment(given);
  if (!all)
    return all.takeError();
  const CompileOptions &options = *all;
  llvm::Expected<Target> target =
      parseTarget(options.target, getRowType(module));
  if (!target)
    return target.takeError();
  if (!options.useCache)
    return compileToStage(module, options, CompileStage::Artifact);
  DiskCache cache = DiskCache::getDefault();
  std::string key = makeKey(module, options, *target);
  if (std::optional<std::string> bytes = cache.find(key);
      bytes && isReadable(*bytes))
    return std::move(*bytes);
  llvm::Expected<std::string> bytes =
      compileToStage(module, options, CompileStage::Artifact);
  if (bytes)
    cache.store(key, *bytes);
  return bytes;
}

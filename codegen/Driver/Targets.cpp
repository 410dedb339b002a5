//===- Targets.cpp - The table of targets ---------------------------------===//

#include "codegen/Driver/Targets.h"
#include "codegen/CPU/CPULowerings.h"
#include "codegen/CPU/EmulatedTiles.h"
#include "codegen/CPU/MachineCode/ObjectCode.h"
#include "codegen/CPU/MachineCode/X86Instructions.h"
#include "codegen/CUDA/DeviceCode.h"
#include "codegen/CUDA/EmulatedWarps.h"
#include "codegen/CUDA/LaneExchange.h"
#include "codegen/CUDA/Ptxas.h"
#include "codegen/CUDA/Sm80/Sm80Lowerings.h"
#include "codegen/CUDA/ThreadFunctions.h"
#include "codegen/Payload/EmittableOps.h"
#include "codegen/Reference/ReferenceLowerings.h"
#include "mlir/Dialect/LLVMIR/Transforms/Passes.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Pass/PassManager.h"
#include "runtime/CpuFeatures.h"
#include "llvm/TargetParser/Host.h"
#include <deque>

using namespace sextant;
using namespace sextant::codegen;

static Target getReference() {
  Target target;
  target.name = "reference";
  target.elementTypes = {"f32", "f64"};
  target.vector = getReferenceVectors();
  target.lowerings = getReferenceLowerings();
  target.processor.name = "x86-64";
  target.compile = compileKernels;
  return target;
}

/// What all targets of x86 with vectors share.
static Target getX86(llvm::StringRef name, Unit unit) {
  Target target;
  target.name = name;
  target.elementTypes = {"f32", "bf16"};
  target.vector.flushingCall = x86::emitFlushingCall;
  target.vector.letOthersRun = x86::emitYield;
  target.lowerings = getCPULowerings();
  target.capabilities = {.hasHinges = true,
                         .formsAddends = true,
                         .hasOffsetProducts = true,
                         .gathersRows = true};
  target.compile = compileKernels;
  target.f32Unit = target.bf16Unit = unit;
  return target;
}

static Target getAvx2() {
  Target target = getX86("cpu:avx2", Unit::MultiplyAdd256);
  target.vector.width = 8;
  target.vector.registers = 16;
  target.vector.lookUp = x86::emitLookUp;
  target.processor = {"x86-64-v3", "", {"avx2", "fma"}};
  return target;
}

static Target getAvx512() {
  Target target = getX86("cpu:avx512", Unit::MultiplyAdd512);
  target.vector.width = 16;
  target.vector.registers = 32;
  target.vector.scalef = x86::emitScalef;
  target.vector.fraction = x86::emitFraction;
  target.processor = {
      "x86-64-v4", "", {"avx512f", "avx512bw", "avx512dq", "avx512vl", "fma"}};
  return target;
}

static Target getAvx512Bf16() {
  Target target = getAvx512();
  target.name = "cpu:avx512bf16";
  target.vector.bf16Dot = x86::emitBf16Dot;
  target.vector.roundsToBf16 = true;
  target.processor.features = "+avx512bf16";
  target.processor.required.push_back("avx512bf16");
  target.bf16Unit = Unit::Bf16Dot512;
  return target;
}

static Target getAmx() {
  Target target = getAvx512Bf16();
  target.name = "cpu:amx";
  target.vector.matrixUnit = &x86::getTiles();
  target.vector.flushingCall = x86::emitFlushingCallWithTiles;
  target.processor.features += ",+amx-tile,+amx-bf16";
  target.processor.required.append({"amx-tile", "amx-bf16"});
  target.f32Unit = target.bf16Unit = Unit::Bf16Tiles;
  return target;
}

/// Tiles of a matrix unit in memory, for tests on processors that have none.
static Target getEmulatedAmx() {
  Target target = getX86("cpu-emulated:amx", Unit::MultiplyAdd256);
  target.vector.width = MatrixUnit::side;
  target.vector.registers = 32;
  target.vector.bf16Dot = emulateBf16Dot;
  target.vector.matrixUnit = &getEmulatedTiles();
  target.processor = {"x86-64-v3", "", {"avx2", "fma"}};
  target.processor.compilesQuickly = true;
  target.f32Unit = target.bf16Unit = std::nullopt;
  target.isEmulated = true;
  return target;
}

/// Instructions keep the locations of the ops that they come from, which the
/// emulator's errors name.
static llvm::Expected<KernelCode> compileEmulated(mlir::ModuleOp kernels,
                                                  const Processor &processor,
                                                  CodeForm form) {
  // A call needs a location in a function that has them; line 0 is none. Of one
  // that is fused of several, as merged launches have, LLVM may make nothing.
  auto nowhere = mlir::FileLineColLoc::get(kernels.getContext(), "", 0, 0);
  kernels.walk([&](mlir::Operation *op) {
    auto place = op->getLoc()->findInstanceOf<mlir::FileLineColLoc>();
    op->setLoc(place ? place : nowhere);
  });
  mlir::PassManager passes(kernels.getContext(),
                           mlir::ModuleOp::getOperationName());
  passes.addPass(mlir::LLVM::createDIScopeForLLVMFuncOpPass());
  if (failed(passes.run(kernels)))
    return llvm::createStringError("cannot keep the locations of the kernels");
  return compileKernels(
      kernels, processor, form, ScalarMath::Expanded,
      [](llvm::Module &module) { return emulateWarps(module); });
}

/// The main kernel of a direction uses tensor cores wherever these compute what
/// the plan asks for; the rest stays with warps, and a remark says why.
static mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerForGpu(const Lowering &lowering, llvm::StringRef direction,
            const std::string &obstacle, LoweringFunction onTensorCores,
            LoweringFunction asWarps) {
  namespace remark = mlir::remark;
  auto options = remark::RemarkOpts::name(direction).category("tensor-cores");
  if (obstacle.empty()) {
    remark::passed(lowering.getLoc(), options)
        << remark::reason("the {0} multiplies on tensor cores", direction);
    return onTensorCores(lowering);
  }
  remark::missed(lowering.getLoc(), options)
      << remark::reason("the {0} stays with warps: {1}", direction, obstacle);
  return asWarps(lowering);
}

static mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerForwardOfGpu(const Lowering &lowering) {
  return lowerForGpu(lowering, "forward", sm80::findForwardObstacle(lowering),
                     sm80::lowerForward, getCPULowerings().attention);
}

static mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerBackwardOfGpu(const Lowering &lowering) {
  return lowerForGpu(lowering, "backward", sm80::findBackwardObstacle(lowering),
                     sm80::lowerBackward, getCPULowerings().attentionBackward);
}

namespace {
/// What kernels are told of a GPU.
struct GpuModel {
  llvm::StringRef architecture;
  int64_t blockBytes; ///< shared memory that a block may have
};
} // namespace

static constexpr GpuModel sm80Model = {"sm_80", 163 << 10};
/// GPUs of workstations: those of Ada, too, and by their driver's compiler
/// those of generation 12.
static constexpr GpuModel sm86Model = {"sm_86", 99 << 10};
static constexpr GpuModel sm90aModel = {"sm_90a", 227 << 10};

/// A large GPU has some 130 multiprocessors, each of which runs 4 to 8 warps
/// with all the registers of a main kernel: twice as many items as that are
/// also even where some have more to do than others.
static Granularity getGranularityOfWarps() {
  return {.items = 2048, .copies = 0, .cutsQueries = true};
}

/// What all targets share whose vectors are warps of a GPU.
static Target getWarps(llvm::StringRef name, const GpuModel &model) {
  Target target = getX86(name, Unit::MultiplyAdd256);
  target.vector.width = warpLanes;
  target.vector.registers = 16;
  target.vector.doublesAreWide = false; // a thread has any type
  target.vector.wantsShortCode = true;
  target.vector.lanesHaveAddresses = true;
  target.vector.loadsAtOnce = 8;
  target.vector.flushingCall = emitWarpCall;
  target.vector.near = getNearMemoryOfWarps(model.blockBytes);
  target.vector.granularity = getGranularityOfWarps();
  target.elementTypes = {"f32", "bf16", "f16"};
  target.capabilities.drawsMasks = true;
  // Tensor cores do some 350 multiply-adds in the time in which memory brings
  // an element and takes its function: several times what CPUs do.
  target.capabilities.leastColumns = 1024;
  target.lowerings.attention = lowerForwardOfGpu;
  target.lowerings.attentionBackward = lowerBackwardOfGpu;
  target.f32Unit = target.bf16Unit = std::nullopt;
  return target;
}

/// Warps of a GPU, run by the processor: for tests, not for speed.
static Target getEmulatedWarps(llvm::StringRef name, const GpuModel &model) {
  Target target = getWarps(name, model);
  target.processor = {"x86-64-v3", "", {"avx2", "fma"}};
  target.processor.compilesQuickly = true;
  target.compile = compileEmulated;
  target.isEmulated = true;
  return target;
}

/// What counts items beside a GPU: any processor of x86-64.
static llvm::Expected<CompiledObject> compileForAnyHost(llvm::Module &module) {
  return compileForHost(module, {"x86-64", "", {}});
}

static llvm::Expected<KernelCode>
compileForGpu(mlir::ModuleOp kernels, const Processor &gpu, CodeForm form) {
  return compileForDevice(kernels, gpu, form, compileForAnyHost);
}

static Target getCuda(llvm::StringRef name, const GpuModel &model) {
  Target target = getWarps(name, model);
  target.device = "cuda";
  target.architecture = model.architecture;
  // The oldest PTX that knows all of them.
  target.processor = {model.architecture.str(), "+ptx80", {}};
  target.compile = compileForGpu;
  target.describeTools = describePtxas;
  return target;
}

/// A deque, since names of its entries are handed out.
static std::deque<Target> &getTable() {
  static std::deque<Target> table = {
      getReference(),
      getAmx(),
      getAvx512Bf16(),
      getAvx512(),
      getAvx2(),
      getEmulatedAmx(),
      getCuda("cuda:sm_80", sm80Model),
      getCuda("cuda:sm_86", sm86Model),
      getCuda("cuda:sm_90a", sm90aModel),
      getEmulatedWarps("cuda-emulated:sm_80", sm80Model),
      getEmulatedWarps("cuda-emulated:sm_86", sm86Model),
      getEmulatedWarps("cuda-emulated:sm_90a", sm90aModel)};
  return table;
}

static bool runsOnHost(const Target &target) {
  return target.architecture == llvm::StringRef(runtime::hostArchitecture) &&
         llvm::all_of(target.processor.required, runtime::hasCpuFeature);
}

void sextant::codegen::registerTargetDialects(mlir::DialectRegistry &registry) {
  registerCompileDialects(registry);
  registerEmittableOps(registry);
}

llvm::Error sextant::codegen::registerTarget(Target target) {
  for (const Target &other : getTable())
    if (other.name == target.name)
      return llvm::createStringError("there is a target '" + target.name +
                                     "' already");
  getTable().push_back(std::move(target));
  return llvm::Error::success();
}

llvm::SmallVector<llvm::StringRef> sextant::codegen::getHostTargets() {
  llvm::SmallVector<llvm::StringRef> names;
  for (const Target &target : getTable())
    if (!target.isEmulated && runsOnHost(target))
      names.push_back(target.name);
  return names;
}

std::string sextant::codegen::listTargets() {
  std::string names = "cpu";
  for (const Target &target : getTable())
    names += ", " + target.name;
  return names;
}

/// The compute capability that a name of NVIDIA's such as sm_90a stands
/// for, 90.
static std::optional<unsigned> getCapability(llvm::StringRef architecture) {
  unsigned capability = 0;
  if (!architecture.consume_front("sm_") ||
      architecture.consumeInteger(10, capability))
    return std::nullopt;
  return capability;
}

/// What to do about a GPU that no target has the name of; empty for other
/// names. Code of one that ends in a letter runs on that one alone.
static std::string getAdviceOnGpu(llvm::StringRef name) {
  if (!name.consume_front("cuda:"))
    return "";
  std::optional<unsigned> asked = getCapability(name);
  const Target *oldest = nullptr, *latest = nullptr;
  for (const Target &target : getTable()) {
    std::optional<unsigned> own = getCapability(target.architecture);
    if (!own || !asked)
      continue;
    auto isBetter = [&](const Target *other, bool isLater) {
      return !other || (*own > *getCapability(other->architecture)) == isLater;
    };
    if (isBetter(oldest, /*isLater=*/false))
      oldest = &target;
    bool runs = *own == *asked ||
                (*own < *asked && llvm::isDigit(target.architecture.back()));
    if (runs && isBetter(latest, /*isLater=*/true))
      latest = &target;
  }
  if (latest)
    return "; what is compiled for " + latest->name + " runs on that GPU";
  if (!oldest)
    return "";
  return "; kernels for GPUs are made of mma.sync of bf16 and cp.async, which "
         "came with " +
         oldest->architecture.str() +
         ": use such a GPU or a later one, or a target of the CPU";
}

std::optional<Unit> Target::getUnit(RowType rows) const {
  if (rows == RowType::BF16)
    return bf16Unit;
  bool isLeftOut = rows == RowType::F32 && f32Unit == Unit::Bf16Tiles;
  return isLeftOut ? std::nullopt : f32Unit;
}

double Target::getShareOfUnit(RowType rows) const {
  bool hasTerms = rows != RowType::BF16 && f32Unit == Unit::Bf16Tiles;
  return hasTerms ? 1.0 / MatrixUnit::productsOfF32 : 1.0;
}

llvm::Expected<Target> sextant::codegen::findTarget(llvm::StringRef name) {
  for (const Target &target : getTable())
    if (name == target.name)
      return target;
  return llvm::createStringError("unknown target '" + name +
                                 "', expected one of " + listTargets() +
                                 getAdviceOnGpu(name));
}

//===- FaultyPrograms.cpp - Programs with a fault, in the emulator --------===//
//
// A target of these tests is the emulator's, but for a change of LLVM IR before
// the emulator's own.
//
//===----------------------------------------------------------------------===//

#include "FaultyPrograms.h"
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
#include "llvm/IR/InstIterator.h"
#include "gtest/gtest.h"
#include <bit>
#include <cstdlib>

using namespace llvm;
using namespace sextant;
using namespace sextant::test;
using runtime::Tensor;

SmallVector<IntrinsicInst *> sextant::test::getCalls(Function &function,
                                                     Intrinsic::ID intrinsic) {
  SmallVector<IntrinsicInst *> calls;
  for (Instruction &instruction : instructions(function))
    if (auto *call = dyn_cast<IntrinsicInst>(&instruction))
      if (call->getIntrinsicID() == intrinsic)
        calls.push_back(call);
  return calls;
}

/// The change of the program that is compiled, in the kernel of this name.
static Fault theFault;
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

Tensor sextant::test::draw(std::vector<int64_t> sizes, std::mt19937 &engine,
                           runtime::DType dtype) {
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

Outcome sextant::test::runWithFault(const char *model,
                                    const std::vector<Tensor> &inputs,
                                    const char *kernel, Fault fault,
                                    const char *checks) {
  theFault = fault;
  theKernel = kernel;
  auto program = test::load(compile(model), runtime::getHostDevice());
  if (!program)
    return {};
  ::setenv("SEXTANT_CHECK", checks, 1);
  runtime::Trace trace;
  runtime::Result<std::vector<Tensor>> results =
      runtime::execute(*program, 0, inputs, trace);
  ::unsetenv("SEXTANT_CHECK");
  if (!results)
    return {results.error().message(), ""};
  const Tensor &output = results->front();
  return {"",
          std::string(static_cast<const char *>(output.data),
                      output.elements() * runtime::getByteSize(output.dtype))};
}

void sextant::test::expectTexts(const std::string &message,
                                std::initializer_list<const char *> texts) {
  for (const char *text : texts)
    EXPECT_NE(message.find(text), std::string::npos) << message;
}

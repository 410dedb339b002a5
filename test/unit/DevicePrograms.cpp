//===- DevicePrograms.cpp - Programs that tests run on devices ------------===//
//
// Models are compiled for a target that this machine runs, and results are
// compared bit for bit.
//
//===----------------------------------------------------------------------===//

#include "DevicePrograms.h"
#include "codegen/Driver/Compile.h"
#include "codegen/Driver/Targets.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"
#include <cstring>

using namespace sextant;
using namespace sextant::runtime;

static const std::string &getHostTarget() {
  static const std::string name = codegen::getHostTargets().back().str();
  return name;
}

/// Known from the first call on; it is like that of the host in all else.
static const std::string &getDrawingTarget() {
  static const std::string name = [] {
    codegen::Target target =
        llvm::cantFail(codegen::findTarget(getHostTarget()));
    target.name = "test:draws";
    target.capabilities.drawsMasks = true;
    llvm::cantFail(codegen::registerTarget(target));
    return target.name;
  }();
  return name;
}

llvm::Expected<std::string> test::tryCompile(const std::string &text,
                                             const std::string &target,
                                             bool compilesQuickly) {
  mlir::DialectRegistry registry;
  codegen::registerCompilerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  EXPECT_TRUE(module) << text;
  codegen::CompileOptions options;
  options.target = target;
  options.useCache = false;
  options.compilesQuickly = compilesQuickly;
  return codegen::compileToArtifact(*module, options);
}

static std::string compileFor(const std::string &target,
                              const std::string &text) {
  llvm::Expected<std::string> bytes =
      test::tryCompile(text, target, /*compilesQuickly=*/false);
  if (bytes)
    return std::move(*bytes);
  ADD_FAILURE() << llvm::toString(bytes.takeError());
  return "";
}

std::string test::compileForHost(const std::string &text) {
  return compileFor(getHostTarget(), text);
}

std::string test::compileForDrawing(const std::string &text) {
  return compileFor(getDrawingTarget(), text);
}

std::unique_ptr<Program> test::load(const std::string &bytes,
                                    const Device &device) {
  Result<std::unique_ptr<Program>> program = Program::load(
      {reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()}, device);
  if (program)
    return std::move(*program);
  ADD_FAILURE() << program.error().message();
  return nullptr;
}

std::vector<Tensor> test::runOn(const Program &program, size_t function,
                                std::span<const Tensor> inputs, Trace &trace) {
  const Device &device = program.getDevice();
  Result<std::vector<Tensor>> values = copyToDevice(device, inputs);
  if (values)
    values = execute(program, function, *values, trace);
  if (values)
    values = copyToHost(device, *values);
  if (values)
    return std::move(*values);
  ADD_FAILURE() << values.error().message();
  return {};
}

void test::expectSameBits(const Tensor &ours, const Tensor &theirs,
                          const std::string &name) {
  ASSERT_EQ(formatShape(ours.shape()), formatShape(theirs.shape())) << name;
  ASSERT_TRUE(ours.isContiguous() && theirs.isContiguous()) << name;
  auto bytes = static_cast<size_t>(ours.elements() * getByteSize(ours.dtype));
  EXPECT_EQ(std::memcmp(ours.data, theirs.data, bytes), 0) << name;
}

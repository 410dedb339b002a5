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

std::string test::compileForHost(const std::string &text) {
  mlir::DialectRegistry registry;
  codegen::registerCompilerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  EXPECT_TRUE(module) << text;
  codegen::CompileOptions options;
  options.target = codegen::getHostTargets().back().str();
  options.useCache = false;
  llvm::Expected<std::string> bytes =
      codegen::compileToArtifact(*module, options);
  if (bytes)
    return std::move(*bytes);
  ADD_FAILURE() << llvm::toString(bytes.takeError());
  return "";
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

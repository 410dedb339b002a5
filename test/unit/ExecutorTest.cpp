//===- ExecutorTest.cpp - Programs on the host device ---------------------===//
//
// Text of exec becomes an artifact, which is read, loaded and run, with its
// results and its errors.
//
//===----------------------------------------------------------------------===//

#include "runtime/Executor.h"
#include "codegen/Artifact/Artifact.h"
#include "codegen/Driver/Compile.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "runtime/cpu/HostDevice.h"
#include "gtest/gtest.h"

using namespace sextant;
using namespace sextant::runtime;

static std::string write(const std::string &text) {
  mlir::DialectRegistry registry;
  codegen::registerCompilerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  EXPECT_TRUE(module) << text;
  mlir::FailureOr<std::string> bytes =
      codegen::writeArtifact(*module, {}, "reference");
  return mlir::succeeded(bytes) ? *bytes : "";
}

static Result<std::unique_ptr<Program>> load(const std::string &bytes) {
  return Program::load(
      {reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()},
      getHostDevice());
}

static Result<std::vector<Tensor>> run(const std::string &text,
                                       std::vector<Tensor> inputs) {
  Result<std::unique_ptr<Program>> program = load(write(text));
  if (!program)
    return program.error();
  Trace nothing;
  return execute(**program, 0, inputs, nothing);
}

static Tensor makeTensor(std::vector<int64_t> sizes) {
  Result<Tensor> tensor = allocateOnHost(DType::F32, sizes);
  EXPECT_TRUE(static_cast<bool>(tensor));
  for (int64_t i = 0; i < tensor->elements(); ++i)
    static_cast<float *>(tensor->data)[i] = static_cast<float>(i);
  return std::move(*tensor);
}

static std::string getError(const Result<std::vector<Tensor>> &result) {
  return result ? "no error" : result.error().message();
}

TEST(Executor, ChecksOfData) {
  auto check = [](const std::string &predicate) {
    return getError(run(R"(
      func.func @f(%x: tensor<?xf32>) {
        %v = arith.constant dense<[4, -2, 9]> : tensor<3xi64>
        %c0 = arith.constant 0 : index
        %n = tensor.dim %x, %c0 : tensor<?xf32>
        exec.check_data %v[2] )" +
                            predicate +
                            R"( %n, "nine and rows" : tensor<3xi64>
        return
      })",
                        {makeTensor({8})}));
  };
  EXPECT_EQ(check("at_least"), "no error");
  EXPECT_EQ(check("at_most"), "'f': nine and rows (9 and 8)");
  EXPECT_EQ(check("equal"), "'f': nine and rows (9 and 8)");
  EXPECT_EQ(check("multiple_of"), "'f': nine and rows (9 and 8)");
  EXPECT_EQ(check("is"), "'f': nine and rows");
}

// A constant that the caller is given is the caller's own.
TEST(Executor, ConstantsAreNotShared) {
  std::string bytes = write(R"(
      func.func @f() -> tensor<2xf32> {
        %v = arith.constant dense<[4.0, 5.0]> : tensor<2xf32>
        return %v : tensor<2xf32>
      })");
  std::unique_ptr<Program> program = std::move(*load(bytes));
  Trace nothing;
  for (int call = 0; call < 2; ++call) {
    auto results = execute(*program, 0, {}, nothing);
    ASSERT_TRUE(static_cast<bool>(results)) << getError(results);
    auto *values = static_cast<float *>((*results)[0].data);
    EXPECT_EQ(values[0], 4.0f);
    values[0] = 0.0f;
  }
}

// The size of the result is what the integer ops compute from 7 and 3.
TEST(Executor, Integers) {
  struct {
    const char *op;
    int64_t expected;
  } cases[] = {{"addi", 10}, {"subi", 4},       {"muli", 21},
               {"divsi", 2}, {"floordivsi", 2}, {"ceildivsi", 3},
               {"remsi", 1}, {"minsi", 3},      {"maxsi", 7}};
  for (auto [op, expected] : cases) {
    auto result = run(std::string(R"(
      func.func @f(%x: tensor<?x?xf32>) -> tensor<?xf32> {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %a = tensor.dim %x, %c0 : tensor<?x?xf32>
        %b = tensor.dim %x, %c1 : tensor<?x?xf32>
        %n = arith.)") + op +
                          R"( %a, %b : index
        %t = exec.alloc(%n) zero : tensor<?xf32>
        return %t : tensor<?xf32>
      })",
                      {makeTensor({7, 3})});
    ASSERT_TRUE(static_cast<bool>(result)) << getError(result);
    EXPECT_EQ((*result)[0].sizes[0], expected) << op;
  }
}

TEST(Executor, NegativeDivision) {
  auto result = run(R"(
    func.func @f(%x: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
      %c0 = arith.constant 0 : index
      %three = arith.constant 3 : index
      %a = tensor.dim %x, %c0 : tensor<?xf32>
      %n = arith.subi %c0, %a : index
      %floor = arith.floordivsi %n, %three : index
      %ceil = arith.ceildivsi %n, %three : index
      %f = arith.subi %c0, %floor : index
      %c = arith.subi %c0, %ceil : index
      %t = exec.alloc(%f) : tensor<?xf32>
      %u = exec.alloc(%c) : tensor<?xf32>
      return %t, %u : tensor<?xf32>, tensor<?xf32>
    })",
                    {makeTensor({7})});
  ASSERT_TRUE(static_cast<bool>(result)) << getError(result);
  EXPECT_EQ((*result)[0].sizes[0], 3); // floor(-7 / 3) = -3
  EXPECT_EQ((*result)[1].sizes[0], 2); // ceil(-7 / 3) = -2
}

TEST(Executor, ArithmeticErrors) {
  const char *text = R"(
    func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {
      %c0 = arith.constant 0 : index
      %big = arith.constant 4611686018427387904 : index
      %a = tensor.dim %x, %c0 : tensor<?xf32>
      %n = arith.OP : index
      %t = exec.alloc(%n) : tensor<?xf32>
      return %t : tensor<?xf32>
    })";
  auto with = [&](const std::string &op) {
    std::string whole = text;
    whole.replace(whole.find("OP"), 2, op);
    return getError(run(whole, {makeTensor({2})}));
  };
  EXPECT_EQ(with("divsi %a, %c0"), "'f', instruction 1: division of 2 by zero");
  EXPECT_EQ(with("muli %a, %big"),
            "'f', instruction 1: an integer computed from 2 and "
            "4611686018427387904 does not fit 64 bits");
  EXPECT_EQ(with("subi %c0, %a"),
            "'f', instruction 2: a tensor cannot have the shape [-2]");
  EXPECT_EQ(with("addi %a, %big"),
            "'f', instruction 2: a tensor cannot have the shape "
            "[4611686018427387906]");
}

TEST(Executor, ConstantsAreFresh) {
  std::string text = R"(
    func.func @f() -> (tensor<3xi64>, tensor<2xi1>, tensor<2x2xbf16>) {
      %a = arith.constant dense<[1, -2, 3]> : tensor<3xi64>
      %b = arith.constant dense<[true, false]> : tensor<2xi1>
      %c = arith.constant dense<1.5> : tensor<2x2xbf16>
      return %a, %b, %c : tensor<3xi64>, tensor<2xi1>, tensor<2x2xbf16>
    })";
  Result<std::unique_ptr<Program>> program = load(write(text));
  ASSERT_TRUE(static_cast<bool>(program));
  Trace nothing;
  for (int call = 0; call < 2; ++call) {
    auto results = execute(**program, 0, {}, nothing);
    ASSERT_TRUE(static_cast<bool>(results));
    auto *a = static_cast<int64_t *>((*results)[0].data);
    EXPECT_EQ(a[1], -2);
    a[1] = 99; // a result is the caller's to change
    EXPECT_EQ(static_cast<uint8_t *>((*results)[1].data)[0], 1);
    EXPECT_EQ(static_cast<uint8_t *>((*results)[1].data)[1], 0);
    EXPECT_EQ(static_cast<uint16_t *>((*results)[2].data)[3], 0x3fc0);
  }
}

TEST(Executor, CastsCheckSizes) {
  std::string text = R"(
    func.func @f(%x: tensor<?x3xf32>) -> tensor<2x?xf32> {
      %y = tensor.cast %x : tensor<?x3xf32> to tensor<2x?xf32>
      return %y : tensor<2x?xf32>
    })";
  auto result = run(text, {makeTensor({2, 3})});
  ASSERT_TRUE(static_cast<bool>(result)) << getError(result);
  EXPECT_EQ((*result)[0].sizes[1], 3);
  EXPECT_EQ(getError(run(text, {makeTensor({4, 3})})),
            "'f', instruction 0: a tensor of shape [4, 3] cannot be seen as "
            "[2, 3]");
}

TEST(Executor, Checks) {
  std::string text = R"(
    func.func @f(%x: tensor<?x?xf32>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %a = tensor.dim %x, %c0 : tensor<?x?xf32>
      %b = tensor.dim %x, %c1 : tensor<?x?xf32>
      exec.check %a multiple_of %b, "rows come in columns"
      return
    })";
  EXPECT_EQ(getError(run(text, {makeTensor({6, 3})})), "no error");
  EXPECT_EQ(getError(run(text, {makeTensor({0, 0})})), "no error");
  EXPECT_EQ(getError(run(text, {makeTensor({6, 4})})),
            "'f': rows come in columns (6 and 4)");
  EXPECT_EQ(getError(run(text, {makeTensor({6, 0})})),
            "'f': rows come in columns (6 and 0)");
}

TEST(Executor, DenseNeedsADeviceThatHasIt) {
  std::string bytes = write(R"(
    func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
      %y = exec.dense "aten::relu"(%x : tensor<2xf32>) arguments [#exec.tensor<0>] -> tensor<2xf32>
      return %y : tensor<2xf32>
    })");
  Result<std::unique_ptr<Program>> program = load(bytes);
  ASSERT_FALSE(static_cast<bool>(program));
  EXPECT_EQ(program.error().message(),
            "function 'f', instruction 0 (aten::relu): the device 'host' has "
            "no dense "
            "operators, but the program calls aten::relu; run it from Python");
}

/// Why a program without kernels, which still carries its object, is refused.
static std::string refuse(const codegen::CompiledObject &object) {
  mlir::DialectRegistry registry;
  codegen::registerCompilerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(
      "func.func @f() { return }", &context);
  mlir::FailureOr<std::string> bytes =
      codegen::writeArtifact(*module, object, "cpu:future");
  EXPECT_TRUE(mlir::succeeded(bytes));
  Result<std::unique_ptr<Program>> program = load(*bytes);
  return program ? "no error" : program.error().message();
}

TEST(Executor, MissingFeaturesAreNamed) {
  EXPECT_NE(refuse({ObjectKind::SharedObject, "x86-64", {"avx9000"}, "code"})
                .find("need avx9000"),
            std::string::npos);
}

TEST(Executor, CodeThatIsNoObject) {
  EXPECT_NE(refuse({ObjectKind::SharedObject, "x86-64", {}, "no ELF"})
                .find("they are no ELF file"),
            std::string::npos);
}

TEST(Executor, ForeignObjectsAreNamed) {
  EXPECT_EQ(
      refuse({ObjectKind::SharedObject, "sm_90", {}, "code"}),
      "object 0 of the artifact is an ELF shared object for 'sm_90', but this "
      "runtime loads ELF shared objects for 'x86-64': compile the model for "
      "this machine, or update the runtime");
  EXPECT_EQ(
      refuse({static_cast<ObjectKind>(77), "x86-64", {}, "code"}),
      "object 0 of the artifact is of the unknown kind 77 for 'x86-64', but "
      "this runtime loads ELF shared objects for 'x86-64': compile the model "
      "for this machine, or update the runtime");
}

//===- ProgramRunner.cpp - Runs a module in the test's own process --------===//
//
// Kernels are linked into a shared object and opened with dlopen. An
// interpreter of `exec` runs the functions that launch them.
//
//===----------------------------------------------------------------------===//

#include "ProgramRunner.h"
#include "codegen/Driver/LowerAttention.h"
#include "codegen/Driver/TargetChoice.h"
#include "dialects/Exec/IR/Exec.h"
#include "dialects/Interfaces/DerivativeRules.h"
#include "dialects/Pos/IR/Pos.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "passes/InitAllPasses.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FileSystem.h"
#include <cmath>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <random>
#include <unistd.h>

using namespace mlir;
using namespace sextant;
using namespace sextant::test;

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

static int64_t sizeOf(const std::string &type) {
  return type == "f64" ? 8 : type == "i8" ? 1 : 4;
}

Tensor::Tensor(std::string type, std::vector<int64_t> sizes)
    : type(std::move(type)), sizes(std::move(sizes)),
      strides(this->sizes.size()) {
  int64_t stride = 1;
  for (size_t dim = strides.size(); dim-- > 0;) {
    strides[dim] = stride;
    stride *= this->sizes[dim];
  }
  memory = std::make_shared<std::vector<char>>(count() * sizeOf(this->type));
}

int64_t Tensor::count() const {
  int64_t product = 1;
  for (int64_t size : sizes)
    product *= size;
  return product;
}

char *Tensor::address(int64_t number) const {
  int64_t offset = 0;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    offset += number % sizes[dim] * strides[dim];
    number /= sizes[dim];
  }
  return memory->data() + offset * sizeOf(type);
}

template <typename T> static T loadAs(const char *from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <typename T> static void storeAs(char *to, T value) {
  std::memcpy(to, &value, sizeof value);
}

double Tensor::get(int64_t number) const {
  const char *from = address(number);
  if (type == "f32")
    return loadAs<float>(from);
  if (type == "f64")
    return loadAs<double>(from);
  return type == "i8" ? *from : loadAs<int32_t>(from);
}

void Tensor::set(int64_t number, double value) {
  char *to = address(number);
  if (type == "f32")
    storeAs(to, static_cast<float>(value));
  else if (type == "f64")
    storeAs(to, value);
  else if (type == "i8")
    *to = static_cast<char>(value);
  else
    storeAs(to, static_cast<int32_t>(value));
}

Tensor Tensor::random(std::string type, std::vector<int64_t> sizes,
                      unsigned seed, double low, double high) {
  Tensor tensor(std::move(type), std::move(sizes));
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> distribution(low, high);
  // Values that f32 holds exactly, so that types can be compared.
  for (int64_t i = 0; i < tensor.count(); ++i)
    tensor.set(i, static_cast<float>(distribution(engine)));
  return tensor;
}

Tensor Tensor::of(std::string type, std::vector<int64_t> sizes,
                  std::vector<double> values) {
  Tensor tensor(std::move(type), std::move(sizes));
  for (int64_t i = 0; i < tensor.count(); ++i)
    tensor.set(i, values[i]);
  return tensor;
}

std::vector<double> Tensor::values() const {
  std::vector<double> all(count());
  for (int64_t i = 0; i < count(); ++i)
    all[i] = get(i);
  return all;
}

Tensor Tensor::as(std::string other) const {
  Tensor tensor(std::move(other), sizes);
  for (int64_t i = 0; i < count(); ++i)
    tensor.set(i, get(i));
  return tensor;
}

double test::relativeError(const Tensor &got, const Tensor &want) {
  if (got.sizes != want.sizes)
    return INFINITY;
  double largest = 1e-30, difference = 0;
  for (int64_t i = 0; i < want.count(); ++i) {
    double a = got.get(i), b = want.get(i);
    if (a == b || (std::isnan(a) && std::isnan(b)))
      continue;
    if (!std::isfinite(a) || !std::isfinite(b))
      return INFINITY;
    largest = std::max(largest, std::fabs(b));
    difference = std::max(difference, std::fabs(a - b));
  }
  for (int64_t i = 0; i < want.count(); ++i)
    if (std::isfinite(want.get(i)))
      largest = std::max(largest, std::fabs(want.get(i)));
  return difference / largest;
}

unsigned test::freshSeed() {
  static unsigned seed = [] {
    unsigned value = std::random_device()();
    if (const char *given = std::getenv("SEXTANT_TEST_SEED"))
      value = std::strtoul(given, nullptr, 10);
    std::printf("SEXTANT_TEST_SEED=%u\n", value);
    return value;
  }();
  return ++seed;
}

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

/// The module, and the library of its kernels.
struct Program::Impl {
  std::unique_ptr<MLIRContext> context;
  OwningOpRef<ModuleOp> module;
  void *library = nullptr;
};

Program::Program() : impl(std::make_unique<Impl>()) {}
Program::~Program() {
  if (impl->library)
    dlclose(impl->library);
}

void *Program::symbol(const std::string &name) {
  return dlsym(impl->library, name.c_str());
}

static LogicalResult runPasses(ModuleOp module, const std::string &text) {
  static bool registered = [] {
    sextant::registerAllPasses();
    mlir::registerTransformsPasses();
    return true;
  }();
  (void)registered;
  PassManager manager(module.getContext());
  if (failed(parsePassPipeline(text, manager)))
    return failure();
  return manager.run(module);
}

static void *loadLibrary(const std::string &bytes) {
  SmallString<64> path;
  int file = -1;
  if (llvm::sys::fs::createTemporaryFile("sextant-test", "so", file, path))
    return nullptr;
  bool written = write(file, bytes.data(), bytes.size()) ==
                 static_cast<ssize_t>(bytes.size());
  close(file);
  void *library = written ? dlopen(path.c_str(), RTLD_NOW) : nullptr;
  if (!library)
    std::fprintf(stderr, "%s\n", dlerror());
  llvm::sys::fs::remove(path);
  return library;
}

std::unique_ptr<Program>
Program::compile(const std::string &text, const std::string &target,
                 std::string *error, const std::string &pipeline,
                 std::function<LogicalResult(ModuleOp)> lower) {
  std::unique_ptr<Program> program(new Program());
  DialectRegistry registry;
  registry.insert<arith::ArithDialect, func::FuncDialect, math::MathDialect,
                  tensor::TensorDialect, exec::ExecDialect, pos::PosDialect>();
  registerDerivativeRules(registry);
  codegen::registerTargetDialects(registry);
  program->impl->context =
      std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  MLIRContext &context = *program->impl->context;
  context.loadAllAvailableDialects();
  std::string messages;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    messages += diagnostic.str() + "\n";
    for (Diagnostic &note : diagnostic.getNotes())
      messages += "note: " + note.str() + "\n";
    return success();
  });
  auto finish = [&](bool good) -> std::unique_ptr<Program> {
    if (error)
      *error = messages;
    else if (!good)
      std::fprintf(stderr, "%s", messages.c_str());
    return good ? std::move(program) : nullptr;
  };
  auto &module = program->impl->module;
  module = parseSourceString<ModuleOp>(text, &context);
  if (!module || (!pipeline.empty() && failed(runPasses(*module, pipeline))))
    return finish(false);
  llvm::Expected<codegen::Target> parsed = codegen::parseTarget(target);
  if (!parsed) {
    messages += llvm::toString(parsed.takeError());
    return finish(false);
  }
  PassManager manager(&context);
  manager.addPass(codegen::createLowerAttention({target}));
  if (failed(lower ? lower(*module) : manager.run(*module)) ||
      failed(verify(*module)))
    return finish(false);
  ModuleOp kernels = module->lookupSymbol<ModuleOp>("kernels");
  if (kernels) {
    llvm::Expected<codegen::KernelCode> code =
        parsed->compile(kernels, parsed->processor, codegen::CodeForm::Object);
    if (!code) {
      messages += llvm::toString(code.takeError());
      return finish(false);
    }
    program->impl->library = loadLibrary(code->objects.front().code);
    if (!program->impl->library)
      return finish(false);
  }
  return finish(true);
}

//===----------------------------------------------------------------------===//
// Interpretation
//===----------------------------------------------------------------------===//

namespace {
/// Executes a function's ops one after the other.
struct Interpreter {
  void *library;
  int64_t chunks;
  DenseMap<Value, int64_t> integers;
  DenseMap<Value, Tensor> tensors;

  void launch(exec::LaunchOp op);
  void execute(Operation &op);
};
} // namespace

void Interpreter::launch(exec::LaunchOp op) {
  std::vector<int64_t> block;
  for (ValueRange list :
       {ValueRange(op.getReads()), ValueRange(op.getWrites())})
    for (Value value : list) {
      Tensor &tensor = tensors[value];
      block.push_back(reinterpret_cast<int64_t>(tensor.memory->data()));
      block.insert(block.end(), tensor.sizes.begin(), tensor.sizes.end());
      block.insert(block.end(), tensor.strides.begin(), tensor.strides.end());
    }
  for (Value scalar : op.getScalars())
    block.push_back(integers[scalar]);
  std::string name = op.getKernel().getLeafReference().str();
  using Number = int64_t (*)(const int64_t *);
  using Run = void (*)(const int64_t *, int64_t, int64_t, void *);
  auto number = [&](const char *suffix) {
    return reinterpret_cast<Number>(dlsym(library, (name + suffix).c_str()))(
        block.data());
  };
  auto run = reinterpret_cast<Run>(dlsym(library, name.c_str()));
  int64_t items = number("_items");
  int64_t bytes = (number("_scratch") + 127) / 64 * 64;
  void *scratch = std::aligned_alloc(64, bytes);
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    run(block.data(), items * chunk / chunks, items * (chunk + 1) / chunks,
        scratch);
  std::free(scratch);
}

static std::string nameOf(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

void Interpreter::execute(Operation &op) {
  auto in = [&](unsigned i) { return integers[op.getOperand(i)]; };
  auto set = [&](int64_t value) { integers[op.getResult(0)] = value; };
  auto floorDiv = [](int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
  };
  llvm::TypeSwitch<Operation *>(&op)
      .Case<arith::ConstantOp>([&](arith::ConstantOp c) {
        set(cast<IntegerAttr>(c.getValue()).getInt());
      })
      .Case<arith::AddIOp>([&](auto) { set(in(0) + in(1)); })
      .Case<arith::SubIOp>([&](auto) { set(in(0) - in(1)); })
      .Case<arith::MulIOp>([&](auto) { set(in(0) * in(1)); })
      .Case<arith::DivSIOp>([&](auto) { set(in(0) / in(1)); })
      .Case<arith::FloorDivSIOp>([&](auto) { set(floorDiv(in(0), in(1))); })
      .Case<arith::CeilDivSIOp>([&](auto) { set(-floorDiv(-in(0), in(1))); })
      .Case<arith::MinSIOp>([&](auto) { set(std::min(in(0), in(1))); })
      .Case<arith::MaxSIOp>([&](auto) { set(std::max(in(0), in(1))); })
      .Case<tensor::DimOp>([&](tensor::DimOp dim) {
        set(tensors[dim.getSource()].sizes[in(1)]);
      })
      .Case<exec::DistanceOp>([&](exec::DistanceOp distance) {
        const Tensor &tensor = tensors[distance.getSource()];
        int64_t apart = 0;
        for (int64_t dim : distance.getDims())
          apart += std::max<int64_t>(tensor.sizes[dim] - 1, 0) *
                   std::abs(tensor.strides[dim]);
        set(tensor.count() ? apart : 0);
      })
      .Case<tensor::CastOp>([&](auto cast) {
        tensors[cast.getResult()] = tensors[cast.getOperand()];
      })
      .Case<exec::AllocOp>([&](exec::AllocOp alloc) {
        auto type = cast<RankedTensorType>(alloc.getType());
        std::vector<int64_t> sizes(type.getShape());
        unsigned dynamic = 0;
        for (int64_t &size : sizes)
          if (ShapedType::isDynamic(size))
            size = in(dynamic++);
        Tensor tensor(nameOf(type.getElementType()), sizes);
        if (!alloc.getZero()) // Whoever reads what nobody wrote shall see it.
          std::memset(tensor.memory->data(), 0xff, tensor.memory->size());
        tensors[alloc.getResult()] = tensor;
      })
      .Case<exec::LaunchOp>([&](exec::LaunchOp launchOp) { launch(launchOp); })
      .Case<exec::ReleaseOp, exec::CheckOp, exec::CheckDataOp>([](auto) {})
      .Default([](Operation *other) {
        llvm::report_fatal_error(Twine("the test's interpreter has no ") +
                                 other->getName().getStringRef());
      });
}

std::vector<Tensor> Program::run(const std::string &function,
                                 std::vector<Tensor> arguments,
                                 int64_t chunks) {
  auto callee = impl->module->lookupSymbol<func::FuncOp>(function);
  Interpreter interpreter;
  interpreter.library = impl->library;
  interpreter.chunks = chunks;
  Block &body = callee.getBody().front();
  for (auto [value, tensor] : llvm::zip_equal(body.getArguments(), arguments))
    interpreter.tensors[value] = tensor;
  for (Operation &op : body.without_terminator())
    interpreter.execute(op);
  std::vector<Tensor> results;
  for (Value value : body.getTerminator()->getOperands())
    results.push_back(interpreter.tensors[value]);
  return results;
}

//===- HoistTableTest.cpp - Tables of hoisted values and their pullback ---===//
//
// Tables of every form are compared with values computed here, pullbacks with
// finite differences of the sum of table times gradient.
//
//===----------------------------------------------------------------------===//

#include "codegen/Tables/HoistTable.h"
#include "ProgramRunner.h"
#include "codegen/Driver/TargetChoice.h"
#include "dialects/Exec/IR/Exec.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace mlir;
using namespace sextant;
using namespace sextant::test;

static const char *sites = R"(
  ^bb0(%p_r1: tensor<?xf32>, %p_r2: tensor<?xf32>, %p_table: tensor<?x?xf32>, %p_gate: tensor<?x?x?xf32>):
    // Number 0: a scalar per head, with a gradient of its own.
    %scalar = pos.hoist [head] {
      %h = pos.head
      %a = pos.read %p_r1[%h] : tensor<?xf32>
      %e = math.exp %a : f32
      pos.yield %e : f32
    } : f32
    // 1: a table that uses it.
    %offsets = pos.hoist [head, offset] {
      %h = pos.head
      %o = pos.offset
      %n = math.absi %o : i32
      %d = arith.sitofp %n : i32 to f32
      %b = pos.read %p_r2[%h] : tensor<?xf32>
      %x = arith.mulf %b, %d : f32
      %l = math.log1p %x : f32
      %y = arith.mulf %scalar, %l : f32
      pos.yield %y : f32
    } : f32
    // 2: buckets, whose gradient is a scatter.
    %buckets = pos.hoist [head, offset] {
      %h = pos.head
      %o = pos.offset
      %zero = arith.constant 0 : i32
      %three = arith.constant 3 : i32
      %n = arith.subi %zero, %o : i32
      %m = arith.maxsi %n, %zero : i32
      %c = arith.minsi %m, %three : i32
      %y = pos.read %p_table[%c, %h] : tensor<?x?xf32>
      pos.yield %y : f32
    } : f32
    // 3: a column vector.
    %column = pos.hoist [batch, head, key] {
      %b = pos.batch
      %h = pos.head
      %j = pos.index key
      %g = pos.read %p_gate[%b, %h, %j] : tensor<?x?x?xf32>
      %s = math.tanh %g : f32
      pos.yield %s : f32
    } : f32
    // 4: a row vector of integers.
    %row = pos.hoist [query] {
      %i = pos.coord query
      %two = arith.constant 2 : i32
      %y = arith.muli %i, %two : i32
      pos.yield %y : i32
    } : i32
    // 5 and 6: an angle per row and lane, for query and key.
    %cosine = pos.hoist [self, lane] {
      %p = pos.coord self
      %t = pos.lane
      %a = arith.sitofp %p : i32 to f32
      %b = arith.sitofp %t : i32 to f32
      %base = arith.constant 0.1 : f32
      %w = math.powf %base, %b : f32
      %x = arith.mulf %a, %w : f32
      %c = math.cos %x : f32
      pos.yield %c : f32
    } : f32
    pos.rows of [query, key] half {
    ^bb1(%x: f32, %y: f32):
      %u = arith.mulf %x, %cosine : f32
      %v = arith.mulf %y, %cosine : f32
      pos.yield %u, %v : f32, f32
    }
    pos.score {
    ^bb1(%s: f32):
      %f = arith.sitofp %row : i32 to f32
      %a = arith.addf %s, %offsets : f32
      %b = arith.addf %a, %buckets : f32
      %c = arith.addf %b, %column : f32
      %d = arith.addf %c, %f : f32
      pos.yield %d : f32
    }
)";

static std::string moduleOf(bool positions) {
  std::string rows = "tensor<?x?x?x6xf32>", lse = "tensor<?x?x?xf32>",
              statistics = "tensor<?x?x?x2xf32>";
  std::string given = positions
                          ? "query_positions (%in_qp : tensor<?x?x1xi32>) "
                            "key_positions (%in_kp : tensor<?x?x1xi32>) "
                          : "";
  std::string given2 =
      positions ? ", %in_qp: tensor<?x?x1xi32>, %in_kp: tensor<?x?x1xi32>" : "";
  return "func.func @main(%in_q: " + rows + ", %in_k: " + rows +
         ", %in_v: " + rows + ", %in_o: " + rows +
         ", %in_statistics: " + statistics + ", %in_do: " + rows +
         ", %in_dlse: " + lse +
         ", %in_r1: tensor<?xf32>, %in_r2: tensor<?xf32>, %in_table: "
         "tensor<?x?xf32>, "
         "%in_gate: tensor<?x?x?xf32>" +
         given2 +
         ") {\n  %0:7 = pos.attention_backward %in_q, %in_k, (%in_v), (%in_o), "
         "%in_statistics, "
         "(%in_do), %in_dlse params (%in_r1, %in_r2, %in_table, %in_gate : "
         "tensor<?xf32>, "
         "tensor<?xf32>, tensor<?x?xf32>, tensor<?x?x?xf32>) " +
         given + "gradients [0, 1, 2, 3] : " + rows + ", " + rows + ", (" +
         rows + "), (" + rows + "), " + statistics + ", (" + rows + "), " +
         lse + " -> " + rows + ", " + rows + ", (" + rows +
         "), tensor<?xf32>, tensor<?xf32>, tensor<?x?xf32>, "
         "tensor<?x?x?xf32> {" +
         sites + "}\n  return\n}\n";
}

/// Makes @main return the tables, then the gradients of the parameters that
/// follow from gradients of the tables of all ones.
static LogicalResult lowerToTables(ModuleOp module,
                                   const codegen::HoistTableOptions &options,
                                   const std::string &target) {
  pos::AttentionBackwardOp op;
  module.walk([&](pos::AttentionBackwardOp found) { op = found; });
  FailureOr<codegen::KernelPlan> plan = codegen::planKernel(op);
  llvm::Expected<codegen::Target> parsed = codegen::parseTarget(target);
  if (failed(plan) || !parsed)
    return failure();
  OpBuilder builder(op);
  OpBuilder atEnd = OpBuilder::atBlockEnd(module.getBody());
  ModuleOp kernels = ModuleOp::create(atEnd, module.getLoc(), "kernels");
  codegen::Lowering lowering{builder, kernels, "t_", parsed->vector, *plan};
  codegen::HoistTables tables = codegen::launchHoists(lowering, options);
  auto function = op->getParentOfType<func::FuncOp>();
  SmallVector<Value> results, gradients;
  for (auto [entry, buffer] : llvm::zip(plan->hoisted, tables.buffers)) {
    if (buffer)
      results.push_back(buffer);
    gradients.push_back({});
    if (!entry.wantsGradient)
      continue;
    codegen::HoistGradientShape shape =
        codegen::getHoistGradientShape(lowering, entry, options);
    if (entry.form == codegen::HoistForm::HeadScalar)
      gradients.back() = lowering.allocate(shape.type, shape.sizes, true);
    else // The test gives it as a further argument.
      gradients.back() =
          function.getBody().addArgument(shape.type, op.getLoc());
  }
  codegen::ParamSums params(lowering);
  codegen::launchHoistPullbacks(lowering, tables, gradients, params);
  for (unsigned number = 0; number < op.getParams().size(); ++number)
    results.push_back(params.finish(number, builder.getF32Type()));
  if (failed(lowering.status))
    return failure();
  op.erase();
  Operation *end = function.getBody().front().getTerminator();
  end->setOperands(results);
  function.setType(builder.getFunctionType(
      function.getBody().getArgumentTypes(), ValueRange(results).getTypes()));
  return success();
}

namespace {
constexpr int64_t batch = 2, heads = 3, queries = 37, keys = 53, padding = 8;

/// A program that fills tables, with random arguments.
struct Fixture {
  std::string target;
  codegen::OffsetOrder order;
  bool positions = false;
  std::unique_ptr<Program> program;
  std::vector<Tensor> arguments;

  Fixture(const std::string &target, codegen::OffsetOrder order,
          bool positions = false)
      : target(target), order(order), positions(positions) {
    codegen::HoistTableOptions options{order, padding};
    program = Program::compile(moduleOf(positions), target, nullptr, "",
                               [&](ModuleOp module) {
                                 return lowerToTables(module, options, target);
                               });
    unsigned seed = freshSeed();
    Tensor q("f32", {batch, heads, queries, 6}),
        k("f32", {batch, heads, keys, 6});
    Tensor lse("f32", {batch, heads, queries});
    arguments = {q, k, k, q, lse, q, lse};
    arguments.push_back(Tensor::random("f32", {heads}, seed));
    arguments.push_back(Tensor::random("f32", {heads}, seed + 1, 0.1, 1));
    arguments.push_back(Tensor::random("f32", {4, heads}, seed + 2));
    arguments.push_back(Tensor::random("f32", {batch, heads, keys}, seed + 3));
    if (positions) {
      Tensor qp("i32", {1, queries, 1}), kp("i32", {1, keys, 1});
      for (int64_t i = 0; i < queries; ++i)
        qp.set(i, 3 * i + 5);
      for (int64_t j = 0; j < keys; ++j)
        kp.set(j, 2 * j - 7);
      arguments.push_back(qp);
      arguments.push_back(kp);
    }
    int64_t entries =
        positions ? 4 * (queries + keys) : queries + keys + 2 * padding;
    arguments.push_back(Tensor::random("f32", {1, heads, entries}, seed + 4));
    arguments.push_back(Tensor::random("f32", {1, heads, entries}, seed + 5));
    arguments.push_back(Tensor::random("f32", {batch, heads, keys}, seed + 6));
  }

  std::vector<Tensor> run(int64_t chunks = 1) {
    return program->run("main", arguments, chunks);
  }
  double param(int number, int64_t at) { return arguments[7 + number].get(at); }
  /// Entries of a table that hold values: under positions no more than the
  /// offsets in use.
  int64_t countEntries(const Tensor &table) {
    return positions ? greatest() - least() + 1 : table.sizes[2];
  }
  int64_t least() const { return positions ? -7 - (3 * 36 + 5) : 1 - keys; }
  int64_t greatest() const { return positions ? 2 * 52 - 7 - 5 : queries - 1; }
  /// Offset of an entry of a table; outside of those in use the nearest.
  int64_t offsetOf(int64_t entry) {
    int64_t step = positions ? entry : entry - padding;
    int64_t offset = order == codegen::OffsetOrder::Ascending
                         ? least() + step
                         : greatest() - step;
    return std::clamp(offset, least(), greatest());
  }
  double entryOf(int table, int64_t head, int64_t entry) {
    int64_t offset = offsetOf(entry);
    if (table == 0)
      return std::exp(param(0, head)) *
             std::log1p(param(1, head) * std::llabs(offset));
    return param(2, std::clamp<int64_t>(-offset, 0, 3) * heads + head);
  }
};
} // namespace

/// For each target, order of offsets, and with or without given positions.
class HoistTable : public testing::TestWithParam<
                       std::tuple<std::string, codegen::OffsetOrder, bool>> {};

TEST_P(HoistTable, HoldsTheValues) {
  auto [target, order, positions] = GetParam();
  Fixture f(target, order, positions);
  ASSERT_TRUE(f.program);
  std::vector<Tensor> tables = f.run(3);
  int64_t entries = tables[0].sizes[2];
  // A few roundings of f32 and 3 ulp of the functions.
  for (int table : {0, 1})
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t x = 0; x < f.countEntries(tables[table]); ++x)
        EXPECT_NEAR(tables[table].get(h * entries + x), f.entryOf(table, h, x),
                    5e-6)
            << table << " " << h << " " << x;
  for (int64_t i = 0; i < tables[2].count(); ++i)
    EXPECT_NEAR(tables[2].get(i), std::tanh(f.param(3, i)), 1e-6);
  for (int64_t r = 0; r < queries; ++r)
    EXPECT_EQ(tables[3].get(r),
              positions ? 2 * (3 * r + 5) : 2 * (r + keys - queries));
  // One rounding to f32 only: the angle is in double.
  for (int operand : {0, 1}) {
    const Tensor &angles = tables[4 + operand];
    ASSERT_EQ(angles.sizes,
              (std::vector<int64_t>{1, 1, operand ? keys : queries, 3}));
    for (int64_t i = 0; i < angles.count(); ++i) {
      int64_t row = i / 3, lane = i % 3;
      int64_t place = operand     ? positions ? 2 * row - 7 : row
                      : positions ? 3 * row + 5
                                  : row + keys - queries;
      double want = std::cos(place * std::pow(double(0.1f), lane));
      EXPECT_NEAR(angles.get(i), want, 7e-8) << operand << " " << i;
    }
  }
}

TEST_P(HoistTable, PullsBackToTheParameters) {
  auto [target, order, positions] = GetParam();
  Fixture f(target, order, positions);
  ASSERT_TRUE(f.program);
  std::vector<Tensor> results = f.run();
  std::vector<Tensor> again = f.run(2);
  size_t first = results.size() - 4, seeds = f.arguments.size() - 3;
  int64_t entries = results[0].sizes[2];
  int64_t low = positions ? 0 : padding;
  int64_t high = positions ? f.countEntries(results[0]) : entries - padding - 1;
  std::vector<double> d1(heads), d2(heads), dTable(4 * heads);
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t x = low; x < high; ++x) {
      double seed = f.arguments[seeds].get(h * entries + x);
      double distance = std::llabs(f.offsetOf(x));
      d1[h] += seed * f.entryOf(0, h, x);
      d2[h] += seed * std::exp(f.param(0, h)) * distance /
               (1 + f.param(1, h) * distance);
      int64_t bucket = std::clamp<int64_t>(-f.offsetOf(x), 0, 3);
      dTable[bucket * heads + h] += f.arguments[seeds + 1].get(h * entries + x);
    }
  // Sums of about 100 terms in f32.
  EXPECT_LT(relativeError(results[first], Tensor::of("f64", {heads}, d1)),
            1e-5);
  EXPECT_LT(relativeError(results[first + 1], Tensor::of("f64", {heads}, d2)),
            1e-5);
  EXPECT_LT(
      relativeError(results[first + 2], Tensor::of("f64", {4, heads}, dTable)),
      1e-5);
  for (int64_t i = 0; i < batch * heads * keys; ++i) {
    double t = std::tanh(f.param(3, i));
    EXPECT_NEAR(results[first + 3].get(i),
                f.arguments[seeds + 2].get(i) * (1 - t * t), 2e-6);
  }
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t x = 0; x < f.countEntries(results[0]); ++x)
      for (size_t table : {0, 1})
        EXPECT_EQ(results[table].get(h * entries + x),
                  again[table].get(h * entries + x));
  for (size_t i = 2; i < results.size(); ++i)
    EXPECT_EQ(results[i].values(), again[i].values()) << i;
}

static std::vector<std::string> vectorTargets() {
  std::vector<std::string> names;
  for (llvm::StringRef name : codegen::getHostTargets())
    if (name == "cpu:avx2" || name == "cpu:avx512")
      names.push_back(name.str());
  return names;
}

INSTANTIATE_TEST_SUITE_P(
    Targets, HoistTable,
    testing::Combine(testing::ValuesIn(vectorTargets()),
                     testing::Values(codegen::OffsetOrder::Ascending,
                                     codegen::OffsetOrder::Descending),
                     testing::Bool()));

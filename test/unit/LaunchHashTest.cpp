//===- LaunchHashTest.cpp - What a launch was compiled for ----------------===//
//
// Whatever a kernel relies on changes the symbol of its launch.
//
//===----------------------------------------------------------------------===//

#include "runtime/LaunchHash.h"
#include "runtime/ArtifactCheck.h"
#include "gtest/gtest.h"
#include <functional>

using namespace sextant::runtime;

/// f(x: f32 [rows, 4], n: i32 [2]): launches a, which fills a buffer of 2 rows
/// elements, and b, which has a size of x beside.
static Artifact makeProgram() {
  Artifact artifact;
  artifact.objects.push_back({});
  artifact.kernels = {{"a", 0, {}}, {"b", 0, {}}};
  Function function;
  function.name = "f";
  function.arguments = {{"x", {0, -1}}, {"n", {-1}}};
  function.dimNames = {"rows", "columns"};
  TensorType buffer{DType::F32, {-1}};
  function.tensors = {{DType::F32, {-1, 4}}, {DType::I32, {2}}, buffer, buffer};
  function.constants = {2, 3};
  function.integers = 6;
  function.instructions = {
      {Dim{0, 0, 2}, ""},
      {Integer{IntegerKind::Multiply, 2, 0, 3}, ""},
      {Alloc{2, {3}, false}, ""},
      {Alloc{3, {3}, true}, ""},
      {Dim{0, 1, 4}, ""},
      {Launch{0, {0}, {2}, {2}, std::nullopt, std::nullopt}, "label"},
      {Distance{0, {0, 1}, 5}, ""},
      {Launch{1, {0, 2}, {3}, {4, 5}, 3, std::nullopt}, ""},
      {Return{{}}, ""},
  };
  artifact.functions.push_back(function);
  return artifact;
}

/// The symbol of the last launch.
static std::string getSymbol(const Artifact &artifact) {
  Status status = checkArtifact(artifact);
  EXPECT_TRUE(static_cast<bool>(status)) << status.error().message();
  return findLaunchSymbols(artifact, artifact.functions[0]).back().symbol;
}

template <typename Op> static Op &get(Artifact &artifact, size_t number) {
  return std::get<Op>(artifact.functions[0].instructions[number].body);
}

TEST(LaunchHash, NamesLaunches) {
  Artifact artifact = makeProgram();
  auto symbols = findLaunchSymbols(artifact, artifact.functions[0]);
  ASSERT_EQ(symbols.size(), 2u);
  EXPECT_EQ(symbols[0].instruction, 5u);
  EXPECT_EQ(symbols[0].symbol.substr(0, 9), "a_launch_");
  EXPECT_EQ(symbols[1].kernel, 1u);
  EXPECT_EQ(symbols[1].symbol.size(), std::string("b_launch_").size() + 16);
}

TEST(LaunchHash, ChangesWithWhatKernelsRelyOn) {
  std::string expected = getSymbol(makeProgram());
  std::pair<const char *, std::function<void(Artifact &)>> changes[] = {
      {"dtype",
       [](Artifact &a) { a.functions[0].tensors[0].dtype = DType::I32; }},
      {"static size",
       [](Artifact &a) { a.functions[0].tensors[0].dims[1] = 8; }},
      {"static, no longer dynamic",
       [](Artifact &a) { a.functions[0].tensors[0].dims[0] = 8; }},
      {"name of a size",
       [](Artifact &a) { a.functions[0].arguments[0].dims[0] = 1; }},
      {"constant", [](Artifact &a) { a.functions[0].constants[0] = 1; }},
      {"arithmetic",
       [](Artifact &a) { get<Integer>(a, 1).kind = IntegerKind::Add; }},
      {"operand of arithmetic",
       [](Artifact &a) { get<Integer>(a, 1).right = 1; }},
      {"size of a buffer", [](Artifact &a) { get<Alloc>(a, 3).sizes = {2}; }},
      {"zeros", [](Artifact &a) { get<Alloc>(a, 3).zero = false; }},
      {"axis of a size", [](Artifact &a) { get<Dim>(a, 4).axis = 0; }},
      {"axes of a distance",
       [](Artifact &a) { get<Distance>(a, 6).axes = {0}; }},
      {"tensor of a distance",
       [](Artifact &a) { get<Distance>(a, 6) = {1, {0}, 5}; }},
      {"kernel before", [](Artifact &a) { get<Launch>(a, 5).kernel = 1; }},
      {"reads before", [](Artifact &a) { get<Launch>(a, 5).reads = {3}; }},
      {"reads", [](Artifact &a) { get<Launch>(a, 7).reads = {2, 0}; }},
      {"number of reads", [](Artifact &a) { get<Launch>(a, 7).reads = {0}; }},
      {"write instead of read",
       [](Artifact &a) {
         get<Launch>(a, 7).reads = {0};
         get<Launch>(a, 7).writes = {2, 3};
       }},
      {"scalar", [](Artifact &a) { get<Launch>(a, 7).scalars = {3}; }},
      {"number of scalars",
       [](Artifact &a) { get<Launch>(a, 7).scalars = {}; }},
      {"name of the kernel", [](Artifact &a) { a.kernels[1].name = "c"; }},
  };
  for (auto &[what, change] : changes) {
    Artifact artifact = makeProgram();
    change(artifact);
    EXPECT_NE(getSymbol(artifact), expected) << what;
  }
}

TEST(LaunchHash, StaysWithWhatTheyDoNotSee) {
  Artifact artifact = makeProgram();
  artifact.functions[0].instructions[5].label = "other";
  artifact.functions[0].arguments[0].name = "y";
  get<Launch>(artifact, 7).flops = std::nullopt;
  EXPECT_EQ(getSymbol(artifact), getSymbol(makeProgram()));
}

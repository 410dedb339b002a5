//===- ArtifactCheckTest.cpp - The semantic check of a program ------------===//
//
// Each rule of the check has a mutation of one small valid program that breaks
// it.
//
//===----------------------------------------------------------------------===//

#include "runtime/ArtifactCheck.h"
#include "gtest/gtest.h"
#include <functional>

using namespace sextant::runtime;

/// f(x: f32 [?, 4], y: f32 [?, 4]) -> f32 [?, 4]: a copy of every kind of
/// instruction. Integer registers 0 and 1 are constants.
static Artifact makeProgram() {
  Artifact artifact;
  artifact.objects.push_back({});
  artifact.objects.push_back({ObjectKind::Ptx, "sm_80", {}, {}});
  artifact.kernels.push_back({"k", 0, {1}});
  static const uint8_t bytes[16] = {};
  artifact.data.push_back({{DType::F32, {4}}, bytes});
  Parameter parameter{};
  parameter.name = "p";
  parameter.type = {DType::F32, {4}};
  parameter.init = sextant::artifact::Init::Normal;
  parameter.initNumbers = {0.0, 1.0};
  artifact.parameters.push_back(parameter);

  Function function;
  function.name = "f";
  function.arguments = {{"x", {0, -1}}, {"y", {0, -1}}};
  function.dimNames = {"rows"};
  function.results = {"z"};
  TensorType rows{DType::F32, {-1, 4}};
  function.tensors = {rows, rows, rows, {DType::F32, {4}}, rows, rows};
  function.constants = {2, 3};
  function.integers = 4;
  function.instructions = {
      {Dim{0, 0, 2}, ""},
      {Integer{IntegerKind::Add, 2, 0, 3}, ""},
      {Alloc{2, {2}, false}, ""},
      {Constant{3, 0}, ""},
      {Check{2, Predicate::AtMost, 3, "m"}, ""},
      {Launch{0, {0, 3}, {2}, {2}, 3, std::nullopt}, ""},
      {Dense{"aten::relu", {{ArgumentKind::Tensor, 2, {}, 0.0, ""}}, {4}}, ""},
      {View{4, 5, {0, 1}, {2}}, ""},
      {Release{{2, 4}}, ""},
      {Return{{5}}, ""},
  };
  artifact.functions.push_back(function);
  return artifact;
}

namespace {
/// A change of a valid artifact that the check must refuse.
struct Mutation {
  const char *message; ///< part of the error
  std::function<void(Artifact &)> apply;
};
} // namespace

/// The operation of instruction `number`.
template <typename Op> static Op &get(Artifact &artifact, size_t number) {
  return std::get<Op>(artifact.functions[0].instructions[number].body);
}

/// Makes instruction 4 a check of an element of a vector of two.
static void checkWord(Artifact &artifact, uint32_t number, Predicate predicate,
                      uint32_t bound) {
  Function &function = artifact.functions[0];
  function.tensors.push_back({DType::I64, {2}});
  function.instructions[3].body = Alloc{6, {}, false};
  function.instructions[5].body = Launch{0, {0}, {2}, {2}, 3, std::nullopt};
  function.instructions[4].body = CheckData{6, number, predicate, bound, "m"};
}

static const Mutation mutations[] = {
    {"kernel 'k': there is no object 2",
     [](Artifact &a) { a.kernels[0].object = 2; }},
    {"kernel 'k': object 1 holds no code of the host",
     [](Artifact &a) { a.kernels[0].object = 1; }},
    {"kernel 'k': there is no object 7",
     [](Artifact &a) { a.kernels[0].deviceObjects.push_back(7); }},
    {"kernel 'k': object 0 holds no code of a device",
     [](Artifact &a) { a.kernels[0].deviceObjects.push_back(0); }},
    {"data of shape [4] has 16 bytes instead of 32",
     [](Artifact &a) { a.data[0].type.dtype = DType::F64; }},
    {"parameter 'p': its distribution has 1 numbers instead of 2",
     [](Artifact &a) { a.parameters[0].initNumbers.pop_back(); }},
    {"parameter 'p': there is no data 3",
     [](Artifact &a) { a.parameters[0].data = 3; }},
    {"parameter 'p': its shape is [?]",
     [](Artifact &a) { a.parameters[0].type.dims = {-1}; }},
    {"there is no dtype 99",
     [](Artifact &a) {
       a.functions[0].tensors[0].dtype = static_cast<DType>(99);
     }},
    {"a tensor of rank 9",
     [](Artifact &a) { a.functions[0].tensors[5].dims.assign(9, 1); }},
    {"a tensor has the dimension -2",
     [](Artifact &a) { a.functions[0].tensors[5].dims[1] = -2; }},
    {"it has more arguments than tensor registers",
     [](Artifact &a) { a.functions[0].tensors.resize(1); }},
    {"argument 'y' has 1 named dimensions but rank 2",
     [](Artifact &a) { a.functions[0].arguments[1].dims.pop_back(); }},
    {"argument 'y' names the dimension 1 out of range",
     [](Artifact &a) { a.functions[0].arguments[1].dims[0] = 1; }},
    {"it has 13 integer registers",
     [](Artifact &a) { a.functions[0].integers = 13; }},
    {"it has no instructions",
     [](Artifact &a) { a.functions[0].instructions.clear(); }},
    {"it does not end with a return",
     [](Artifact &a) { a.functions[0].instructions.pop_back(); }},
    {"it has a return in its middle",
     [](Artifact &a) { a.functions[0].instructions[1].body = Return{{0}}; }},
    {"instruction 0: there is no tensor register 77",
     [](Artifact &a) { get<Dim>(a, 0).tensor = 77; }},
    {"tensor register 0 has no dimension 2",
     [](Artifact &a) { get<Dim>(a, 0).axis = 2; }},
    {"instruction 0: tensor register 0 has no dimension 2",
     [](Artifact &a) {
       a.functions[0].instructions[0].body = Distance{0, {1, 2}, 2};
     }},
    {"instruction 0: there is no tensor register 77",
     [](Artifact &a) {
       a.functions[0].instructions[0].body = Distance{77, {0}, 2};
     }},
    {"instruction 0: there is no integer register 44",
     [](Artifact &a) {
       a.functions[0].instructions[0].body = Distance{0, {0}, 44};
     }},
    {"instruction 4: tensor register 0 is no vector of i64",
     [](Artifact &a) {
       a.functions[0].instructions[4].body =
           CheckData{0, 0, Predicate::Equal, 0, "m"};
     }},
    {"instruction 4: tensor register 6 has no element 2",
     [](Artifact &a) { checkWord(a, 2, Predicate::Equal, 0); }},
    {"instruction 4: there is no predicate 9",
     [](Artifact &a) { checkWord(a, 1, static_cast<Predicate>(9), 0); }},
    {"instruction 4: there is no integer register 44",
     [](Artifact &a) { checkWord(a, 1, Predicate::Equal, 44); }},
    {"integer register 0 is set twice",
     [](Artifact &a) { get<Dim>(a, 0).result = 0; }},
    {"integer register 3 is used before it is set",
     [](Artifact &a) { get<Integer>(a, 1).left = 3; }},
    {"there is no integer register 4",
     [](Artifact &a) { get<Integer>(a, 1).right = 4; }},
    {"there is no integer operation 50",
     [](Artifact &a) {
       get<Integer>(a, 1).kind = static_cast<IntegerKind>(50);
     }},
    {"tensor register 2 has 1 dynamic dimensions but 2 sizes",
     [](Artifact &a) { get<Alloc>(a, 2).sizes = {2, 2}; }},
    {"tensor register 1 is set twice",
     [](Artifact &a) { get<Alloc>(a, 2).result = 1; }},
    {"there is no data 1", [](Artifact &a) { get<Constant>(a, 3).data = 1; }},
    {"data 0 is not of the type of register 3",
     [](Artifact &a) { a.functions[0].tensors[3].dtype = DType::I32; }},
    {"there is no predicate 9",
     [](Artifact &a) {
       get<Check>(a, 4).predicate = static_cast<Predicate>(9);
     }},
    {"there is no kernel 1", [](Artifact &a) { get<Launch>(a, 5).kernel = 1; }},
    {"tensor register 4 is used before it is set",
     [](Artifact &a) { get<Launch>(a, 5).reads = {4}; }},
    {"there is no integer register 8",
     [](Artifact &a) { get<Launch>(a, 5).bytes = 8; }},
    {"there is no tensor register 4294967295",
     [](Artifact &a) { get<Dense>(a, 6).arguments[0].number = -1; }},
    {"there is no kind of argument 44",
     [](Artifact &a) {
       get<Dense>(a, 6).arguments[0].kind = static_cast<ArgumentKind>(44);
     }},
    {"there is no dtype 44",
     [](Artifact &a) {
       get<Dense>(a, 6).arguments[0] = {ArgumentKind::DType, 44, {}, 0.0, ""};
     }},
    {"a permutation has the dimension 0 twice or out of range",
     [](Artifact &a) { get<View>(a, 7).permutation = {0, 0}; }},
    {"a permutation of 1 dimensions of a tensor of rank 2",
     [](Artifact &a) { get<View>(a, 7).permutation = {0}; }},
    {"a view of tensor register 4 has another dtype",
     [](Artifact &a) { a.functions[0].tensors[5].dtype = DType::I32; }},
    {"tensor register 4 is used after its release",
     [](Artifact &a) { get<Release>(a, 8).tensors = {4, 4}; }},
    {"tensor register 4 is used after its release",
     [](Artifact &a) { get<Return>(a, 9).tensors = {4}; }},
    {"it returns 2 of 1 results",
     [](Artifact &a) { get<Return>(a, 9).tensors = {5, 5}; }},
};

TEST(ArtifactCheck, AcceptsAValidProgram) {
  Status status = checkArtifact(makeProgram());
  EXPECT_TRUE(static_cast<bool>(status)) << status.error().message();
}

TEST(ArtifactCheck, NamesEveryFault) {
  for (const Mutation &mutation : mutations) {
    Artifact artifact = makeProgram();
    mutation.apply(artifact);
    Status status = checkArtifact(artifact);
    ASSERT_FALSE(static_cast<bool>(status)) << mutation.message;
    EXPECT_NE(status.error().message().find(mutation.message),
              std::string::npos)
        << "expected: " << mutation.message
        << "\n     got: " << status.error().message();
  }
}

TEST(ArtifactReader, RefusesWhatIsNoArtifact) {
  for (size_t size : {0, 1, 7, 8, 16, 100}) {
    std::vector<uint8_t> bytes(size, 0x5a);
    Result<Artifact> artifact = readArtifact(bytes);
    ASSERT_FALSE(static_cast<bool>(artifact));
    EXPECT_NE(artifact.error().message().find("not a Sextant artifact"),
              std::string::npos);
  }
}

//===- ArtifactReaderTest.cpp - Files whose offsets share what they name --===//
//
// Each file here is small and stands for far more: the reader refuses it before
// it has taken the time or the memory.
//
//===----------------------------------------------------------------------===//

#include "runtime/ArtifactReader.h"
#include "runtime/ArtifactFormat.h"
#include "gtest/gtest.h"

using namespace sextant;
using flatbuffers::Offset;
using runtime::parseProgram;

namespace {

/// Builds files in which several offsets lead to one table.
class SharedOffsets : public testing::Test {
protected:
  std::string refuse(std::vector<Offset<artifact::Function>> functions) {
    auto list = builder.CreateVector(functions);
    artifact::ArtifactBuilder whole(builder);
    whole.add_format(runtime::artifactFormat);
    whole.add_functions(list);
    artifact::FinishArtifactBuffer(builder, whole.Finish());
    auto program =
        parseProgram({builder.GetBufferPointer(), builder.GetSize()});
    return program ? "no error" : program.error().message();
  }

  flatbuffers::FlatBufferBuilder builder;
};

} // namespace

/// What the reader says of a file of `bytes`, with a reason.
static std::string damaged(const std::string &reason, size_t bytes) {
  return "the artifact is damaged: " + reason + " its " +
         std::to_string(bytes) + " bytes";
}

TEST_F(SharedOffsets, ListsOfTexts) {
  std::vector<Offset<flatbuffers::String>> texts(100000,
                                                 builder.CreateString("name"));
  auto names = builder.CreateVector(texts);
  std::vector<Offset<artifact::Function>> functions;
  for (int i = 0; i < 20000; ++i) {
    auto name = builder.CreateSharedString("f");
    artifact::FunctionBuilder function(builder);
    function.add_name(name);
    function.add_dim_names(names);
    functions.push_back(function.Finish());
  }
  std::string message = refuse(functions);
  EXPECT_EQ(message,
            damaged("lists of texts take more room than", builder.GetSize()));
}

TEST_F(SharedOffsets, Tables) {
  std::vector<Offset<artifact::TensorType>> types(
      50000, artifact::CreateTensorType(builder));
  auto tensors = builder.CreateVector(types);
  auto name = builder.CreateString("f");
  artifact::FunctionBuilder function(builder);
  function.add_name(name);
  function.add_tensors(tensors);
  std::vector<Offset<artifact::Function>> functions(50000, function.Finish());
  std::string message = refuse(functions);
  EXPECT_EQ(message,
            damaged("FlatBuffers' verifier rejects", builder.GetSize()));
}

TEST_F(SharedOffsets, Numbers) {
  auto numbers = builder.CreateVector(std::vector<uint32_t>(50000));
  std::vector<Offset<artifact::Instruction>> instructions;
  for (int i = 0; i < 20000; ++i) {
    auto release = artifact::CreateRelease(builder, numbers);
    instructions.push_back(artifact::CreateInstruction(
        builder, artifact::Body::Release, release.Union()));
  }
  auto list = builder.CreateVector(instructions);
  auto name = builder.CreateString("f");
  artifact::FunctionBuilder function(builder);
  function.add_name(name);
  function.add_instructions(list);
  std::string message = refuse({function.Finish()});
  EXPECT_EQ(message,
            damaged("its tables stand for far more than", builder.GetSize()));
}

TEST_F(SharedOffsets, Texts) {
  auto text = builder.CreateString(std::string(100000, 'x'));
  std::vector<Offset<artifact::Instruction>> instructions;
  for (int i = 0; i < 20000; ++i) {
    auto check =
        artifact::CreateCheck(builder, 0, artifact::Predicate::Equal, 0, text);
    instructions.push_back(artifact::CreateInstruction(
        builder, artifact::Body::Check, check.Union(), text));
  }
  auto list = builder.CreateVector(instructions);
  auto name = builder.CreateString("f");
  artifact::FunctionBuilder function(builder);
  function.add_name(name);
  function.add_instructions(list);
  std::string message = refuse({function.Finish()});
  EXPECT_EQ(message,
            damaged("its tables stand for far more than", builder.GetSize()));
}

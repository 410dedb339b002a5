//===- FatArtifactTest.cpp - Several programs in one file -----------------===//
//
// A model is compiled for several targets: which program a device is given,
// what is stored once, and which damage is named.
//
//===----------------------------------------------------------------------===//

#include "codegen/Artifact/FatArtifact.h"
#include "DevicePrograms.h"
#include "cuda/StubGpu.h"
#include "runtime/ArtifactFormat.h"
#include "runtime/FatArtifact_generated.h"
#include "runtime/ProgramChoice.h"
#include "runtime/cpu/HostDevice.h"
#include "gtest/gtest.h"
#include <cstring>

using namespace sextant;
using namespace sextant::runtime;

static std::span<const uint8_t> getBytes(const std::string &bytes) {
  return {reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()};
}

/// An attention, and a constant of 4 KiB that it hands back.
static std::string getModel(const std::string &argument = "x") {
  return R"(func.func @f(%x: tensor<1x1x5x8xf32> {exec.name = ")" + argument +
         R"("}) -> (tensor<1x1x5x8xf32>, tensor<1024xf32>) {
    %o, %l = pos.attention %x, %x, (%x) uses [#pos.use<@causal, "causal">]
      : tensor<1x1x5x8xf32>, tensor<1x1x5x8xf32>, (tensor<1x1x5x8xf32>)
        -> (tensor<1x1x5x8xf32>), tensor<1x1x5xf32>
    %c = arith.constant dense<)" +
         [] {
           std::string values = "[";
           for (int i = 0; i < 1024; ++i)
             values += (i ? ", " : "") + std::to_string(i) + ".5";
           return values + "]";
         }() +
         R"(> : tensor<1024xf32>
    return %o, %c : tensor<1x1x5x8xf32>, tensor<1024xf32>
  })";
}

static llvm::Expected<std::string> tryCompile(const std::string &text,
                                              const std::string &target) {
  return test::tryCompile(text, target, /*compilesQuickly=*/true);
}

static std::string compile(const std::string &text, const std::string &target) {
  llvm::Expected<std::string> bytes = tryCompile(text, target);
  if (bytes)
    return std::move(*bytes);
  ADD_FAILURE() << llvm::toString(bytes.takeError());
  return "";
}

static std::string pack(std::vector<std::string> programs) {
  llvm::Expected<std::string> bytes = codegen::packPrograms(programs);
  if (bytes)
    return std::move(*bytes);
  ADD_FAILURE() << llvm::toString(bytes.takeError());
  return "";
}

/// The target that a device is given, or the error.
static std::string choose(const std::string &bytes, const Device &device) {
  Result<std::vector<Artifact>> artifacts = readArtifacts(getBytes(bytes));
  if (!artifacts)
    return artifacts.error().message();
  Result<size_t> chosen = chooseProgram(*artifacts, device);
  return chosen ? (*artifacts)[*chosen].target : chosen.error().message();
}

static std::string getError(const std::string &bytes) {
  Result<std::vector<Artifact>> artifacts = readArtifacts(getBytes(bytes));
  return artifacts ? "no error" : artifacts.error().message();
}

TEST(FatArtifact, DevicesAreGivenTheFirstThatFits) {
  std::string host = compile(getModel(), "reference");
  std::string gpu = compile(getModel(), "cuda:sm_80");
  std::string emulated = compile(getModel(), "cuda-emulated:sm_80");
  test::resetStub();
  auto stub = test::makeStubGpu();
  std::string both = pack({host, gpu, emulated});
  EXPECT_EQ(choose(both, getHostDevice()), "reference");
  EXPECT_EQ(choose(both, stub->device), "cuda:sm_80");
  EXPECT_EQ(choose(pack({gpu, emulated, host}), getHostDevice()),
            "cuda-emulated:sm_80");
  // The same bytes as the compiler gives for a list.
  EXPECT_EQ(compile(getModel(), "reference,cuda:sm_80,cuda-emulated:sm_80"),
            both);
}

TEST(FatArtifact, RunsOnItsDevice) {
  std::string bytes = pack(
      {compile(getModel(), "reference"), compile(getModel(), "cuda:sm_80")});
  auto program = Program::load(getBytes(bytes), getHostDevice());
  ASSERT_TRUE(static_cast<bool>(program)) << program.error().message();
  Result<Tensor> input = allocateOnHost(DType::F32, {{1, 1, 5, 8}});
  std::memset(input->data, 0, 160);
  Trace nothing;
  std::vector<Tensor> inputs{*input};
  auto results = test::runOn(**program, 0, inputs, nothing);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(static_cast<float *>(results[1].data)[1023], 1023.5f);
  test::resetStub();
  auto stub = test::makeStubGpu();
  auto there = Program::load(getBytes(bytes), stub->device);
  ASSERT_TRUE(static_cast<bool>(there)) << there.error().message();
  EXPECT_EQ((*there)->getArtifact().target, "cuda:sm_80");
}

TEST(FatArtifact, ProgramsShareWhatWasRead) {
  std::string bytes = pack(
      {compile(getModel(), "reference"), compile(getModel(), "cuda:sm_80")});
  Result<std::vector<Artifact>> read = readArtifacts(getBytes(bytes));
  ASSERT_TRUE(static_cast<bool>(read)) << read.error().message();
  auto artifacts =
      std::make_shared<const std::vector<Artifact>>(std::move(*read));
  test::resetStub();
  auto stub = test::makeStubGpu();
  auto here = Program::load(artifacts, getHostDevice());
  ASSERT_TRUE(static_cast<bool>(here)) << here.error().message();
  auto there = Program::load(artifacts, stub->device);
  ASSERT_TRUE(static_cast<bool>(there)) << there.error().message();
  EXPECT_EQ(&(*here)->getArtifact(), &(*artifacts)[0]);
  EXPECT_EQ(&(*there)->getArtifact(), &(*artifacts)[1]);
  // A program keeps what it needs of them.
  artifacts.reset();
  EXPECT_EQ((*there)->getArtifact().target, "cuda:sm_80");
}

TEST(FatArtifact, ConstantsAreStoredOnce) {
  std::vector<std::string> programs{compile(getModel(), "reference"),
                                    compile(getModel(), "cuda-emulated:sm_80")};
  std::string bytes = pack(programs);
  EXPECT_LT(bytes.size(), programs[0].size() + programs[1].size() - 3500);
  auto parts = parseParts(getBytes(bytes).first(bytes.size() - checksumBytes));
  ASSERT_TRUE(static_cast<bool>(parts)) << parts.error().message();
  ASSERT_EQ(parts->size(), 2u);
  for (size_t i = 0; i < 2; ++i)
    EXPECT_EQ(std::string((*parts)[i].bytes.begin(), (*parts)[i].bytes.end()),
              programs[i]);
}

TEST(FatArtifact, WhatIsInsideIsListed) {
  std::string bytes = compile(getModel(), "cuda:sm_80,cuda:sm_90a");
  std::string error = choose(bytes, getHostDevice());
  EXPECT_NE(error.find("runs none of the artifact's programs ('cuda:sm_80': "),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("; 'cuda:sm_90a': "), std::string::npos) << error;
  test::resetStub();
  auto stub = test::makeStubGpu();
  error = choose(compile(getModel(), "reference,cuda-emulated:sm_80"),
                 stub->device);
  EXPECT_NE(error.find("'cuda:0 (Stub GPU, sm_90)' runs none of the artifact's "
                       "programs ('reference': code of the host; "
                       "'cuda-emulated:sm_80': code of the host): compile the "
                       "model for this device, too"),
            std::string::npos)
      << error;
}

TEST(FatArtifact, TargetsAreNamedOnce) {
  auto getMessage = [](const std::string &target) {
    llvm::Expected<std::string> bytes = tryCompile(getModel(), target);
    return bytes ? "no error" : llvm::toString(bytes.takeError());
  };
  EXPECT_EQ(getMessage("reference,reference"),
            "the target 'reference' is given twice");
  EXPECT_NE(getMessage("reference,soup").find("unknown target 'soup'"),
            std::string::npos);
  EXPECT_NE(getMessage("reference,").find("unknown target ''"),
            std::string::npos);
}

//===----------------------------------------------------------------------===//
// Damage
//===----------------------------------------------------------------------===//

/// A fat artifact of given blobs and parts, with its checksum.
static std::string
write(const std::vector<std::string> &blobs,
      const std::vector<std::pair<std::string, std::vector<uint32_t>>> &parts,
      uint32_t format = fatFormat) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<artifact::Blob>> blobOffsets;
  for (const std::string &blob : blobs)
    blobOffsets.push_back(artifact::CreateBlob(
        builder, builder.CreateVector(getBytes(blob).data(), blob.size())));
  std::vector<flatbuffers::Offset<artifact::FatPart>> partOffsets;
  for (const auto &[target, numbers] : parts)
    partOffsets.push_back(artifact::CreateFatPart(
        builder, builder.CreateString(target), builder.CreateVector(numbers)));
  artifact::FinishFatArtifactBuffer(
      builder, artifact::CreateFatArtifact(builder, format,
                                           builder.CreateString("a test"),
                                           builder.CreateVector(blobOffsets),
                                           builder.CreateVector(partOffsets)));
  std::string bytes(reinterpret_cast<char *>(builder.GetBufferPointer()),
                    builder.GetSize());
  uint64_t sum = computeChecksum(getBytes(bytes));
  return bytes.append(reinterpret_cast<char *>(&sum), sizeof(sum));
}

TEST(FatArtifact, DamageIsNamed) {
  std::string program = compile(getModel(), "reference");
  std::string other = compile(getModel("y"), "cuda-emulated:sm_80");
  EXPECT_EQ(getError(write({program}, {{"reference", {0}}})), "no error");
  std::string damaged = program;
  damaged[damaged.size() / 2] ^= 1;
  std::string error = getError(
      write({program, damaged}, {{"reference", {0}}, {"cuda:sm_80", {1}}}));
  EXPECT_EQ(error.find("part 'cuda:sm_80' of the artifact: the artifact is "
                       "damaged or cut short: the checksum"),
            0u)
      << error;
  EXPECT_EQ(getError(write({program}, {{"cuda:sm_80", {0}}})),
            "part 'cuda:sm_80' of the artifact: the artifact is damaged: the "
            "program is for 'reference'");
  EXPECT_EQ(getError(write({program, other},
                           {{"reference", {0}}, {"cuda-emulated:sm_80", {1}}})),
            "part 'cuda-emulated:sm_80' of the artifact: the artifact is "
            "damaged: the functions or parameters are others than those of "
            "'reference'");
  EXPECT_EQ(getError(write({program}, {{"reference", {0, 1}}})),
            "the artifact is damaged: blob 1 of the part 'reference' is not "
            "among the 1");
  EXPECT_EQ(getError(write({program}, {})),
            "the artifact is damaged: it has no parts");
  EXPECT_EQ(getError(write({program}, {{"\xff", {0}}})),
            "the artifact is damaged: the target of a part is no text of "
            "UTF-8");
  EXPECT_EQ(getError(write({program}, {{"reference", {0}}}, 77)),
            "the artifact of several programs has format 77; this runtime "
            "reads format 1: compile it again");
  // A fat artifact is no part of another.
  std::string fat = write({program}, {{"reference", {0}}});
  EXPECT_EQ(getError(write({fat}, {{"reference", {0}}}))
                .find("part 'reference' of the artifact: this is not"),
            0u);
}

TEST(FatArtifact, ASmallFileStandsForNoLargeOne) {
  std::string blob(1 << 16, 'x');
  EXPECT_EQ(getError(write({blob},
                           {{"reference", std::vector<uint32_t>(1 << 14, 0)}})),
            "the artifact is damaged: its parts stand for far more than its "
            "bytes");
}

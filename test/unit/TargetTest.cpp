//===- TargetTest.cpp - Which target `cpu` means --------------------------===//
//
// Given rates of the vector units, `cpu` must mean the target whose unit is
// fastest, and SEXTANT_TARGET must override it.
//
//===----------------------------------------------------------------------===//

#include "codegen/Artifact/PrivateFiles.h"
#include "codegen/Driver/TargetChoice.h"
#include "codegen/Host/UnitRecord.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "gtest/gtest.h"
#include <cstdlib>

using namespace sextant::codegen;
namespace fs = llvm::sys::fs;

static bool runs(llvm::StringRef name) {
  return llvm::is_contained(getHostTargets(), name);
}

static std::string choose(const UnitRates &rates, RowType rows) {
  llvm::Expected<Target> target = chooseTarget(rates, rows);
  return target ? target->name : llvm::toString(target.takeError());
}

namespace {
/// Rates in the order of units: multiply-adds of 256 and 512 bits, dots.
struct Case {
  UnitRates rates;
  const char *f32, *bf16;
};

/// Puts the environment variable back.
class TargetTest : public testing::Test {
protected:
  void SetUp() override {
    if (const char *value = std::getenv("SEXTANT_TARGET"))
      before = value;
  }
  void TearDown() override {
    if (before)
      ::setenv("SEXTANT_TARGET", before->c_str(), 1);
    else
      ::unsetenv("SEXTANT_TARGET");
  }

  std::optional<std::string> before;
};
} // namespace

TEST_F(TargetTest, TheFasterUnitIsChosen) {
  if (!runs("cpu:avx512bf16"))
    GTEST_SKIP() << "this machine has no dot products of bf16";
  const Case cases[] = {
      // Dots at half the rate of multiply-adds, and at twice theirs.
      {{50e9, 100e9, 50e9}, "cpu:avx512", "cpu:avx512"},
      {{58e9, 58e9, 117e9}, "cpu:avx512", "cpu:avx512bf16"},
      // Alike within the noise: what has more registers, and loads less.
      {{105e9, 100e9, 97e9}, "cpu:avx512", "cpu:avx512bf16"},
      // Wide vectors that are emulated.
      {{100e9, 50e9, 25e9}, "cpu:avx2", "cpu:avx2"},
      {{100e9, 50e9, 200e9}, "cpu:avx2", "cpu:avx512bf16"},
  };
  for (const Case &expected : cases) {
    EXPECT_EQ(choose(expected.rates, RowType::F32), expected.f32);
    EXPECT_EQ(choose(expected.rates, RowType::BF16), expected.bf16);
  }
}

TEST_F(TargetTest, TilesAreChosenForLongF32WhereSixOfTheirProductsAreFaster) {
  if (!runs("cpu:amx"))
    GTEST_SKIP() << "this machine has no tiles";
  const Case cases[] = {
      {{100e9, 200e9, 100e9, 3e12}, "cpu:amx", "cpu:amx"},
      {{100e9, 200e9, 100e9, 1e12}, "cpu:avx512", "cpu:amx"},
      {{100e9, 200e9, 100e9, 0.1e12}, "cpu:avx512", "cpu:avx512"},
  };
  for (const Case &expected : cases) {
    EXPECT_EQ(choose(expected.rates, RowType::LongF32), expected.f32);
    EXPECT_EQ(choose(expected.rates, RowType::F32), "cpu:avx512");
    EXPECT_EQ(choose(expected.rates, RowType::BF16), expected.bf16);
  }
}

TEST_F(TargetTest, WhatThisMachineLacksIsNotChosen) {
  // Whatever the rates say.
  for (RowType rows : {RowType::F32, RowType::BF16}) {
    std::string name = choose({1.0, 1e3, 1e6}, rows);
    EXPECT_TRUE(runs(name) || getHostTargets().size() == 1) << name;
  }
}

TEST_F(TargetTest, TheProbeSeesTheUnitsOfThisMachine) {
  UnitRates rates = probeUnits();
  for (Unit unit : allUnits) {
    double rate = rates[static_cast<size_t>(unit)];
    EXPECT_EQ(rate > 1e8, hasUnit(unit)) << getName(unit) << ": " << rate;
    EXPECT_LT(rate, 1e13) << getName(unit);
  }
}

TEST_F(TargetTest, TheEnvironmentNamesWhatCpuMeans) {
  for (llvm::StringRef name : getHostTargets()) {
    ::setenv("SEXTANT_TARGET", name.str().c_str(), 1);
    llvm::Expected<Target> target = parseTarget("cpu", RowType::BF16);
    ASSERT_TRUE(bool(target)) << llvm::toString(target.takeError());
    EXPECT_EQ(target->name, name);
    // A target that is named stays what it is.
    target = parseTarget("reference");
    ASSERT_TRUE(bool(target)) << llvm::toString(target.takeError());
    EXPECT_EQ(target->name, "reference");
  }
  ::setenv("SEXTANT_TARGET", "z80", 1);
  llvm::Expected<Target> target = parseTarget("cpu");
  ASSERT_FALSE(bool(target));
  EXPECT_EQ(llvm::toString(target.takeError()),
            "SEXTANT_TARGET: unknown target 'z80', expected one of " +
                llvm::join(getHostTargets(), ", "));
  for (const char *name : {"", "cpu"}) {
    ::setenv("SEXTANT_TARGET", name, 1);
    llvm::Expected<Target> measured = parseTarget("cpu");
    if (getHostTargets().size() == 1) {
      EXPECT_FALSE(bool(measured));
      llvm::consumeError(measured.takeError());
      continue;
    }
    ASSERT_TRUE(bool(measured)) << llvm::toString(measured.takeError());
    EXPECT_TRUE(runs(measured->name));
  }
}

TEST_F(TargetTest, AGpuWithoutATargetIsToldWhatRunsOnIt) {
  auto getAdvice = [](llvm::StringRef name) {
    std::string message = llvm::toString(findTarget(name).takeError());
    std::string start =
        "unknown target '" + name.str() + "', expected one of " + listTargets();
    EXPECT_TRUE(llvm::StringRef(message).starts_with(start)) << message;
    return message.substr(std::min(start.size(), message.size()));
  };
  EXPECT_EQ(
      getAdvice("cuda:sm_75"),
      "; kernels for GPUs are made of mma.sync of bf16 and cp.async, which "
      "came with sm_80: use such a GPU or a later one, or a target of the "
      "CPU");
  EXPECT_EQ(getAdvice("cuda:sm_90"),
            "; what is compiled for cuda:sm_90a runs on that GPU");
  for (const char *name : {"cuda:sm_87", "cuda:sm_89", "cuda:sm_120"})
    EXPECT_EQ(getAdvice(name),
              "; what is compiled for cuda:sm_86 runs on that GPU");
  for (const char *name : {"cuda:", "cuda:sm_", "cuda:gfx90a", "sm_75", "soup"})
    EXPECT_EQ(getAdvice(name), "") << name;
}

TEST_F(TargetTest, ARecordIsKeptAndADamagedOneMeasuredAgain) {
  llvm::SmallString<128> path;
  ASSERT_FALSE(fs::createUniqueDirectory("sextant-record", path));
  std::string folder = path.str().str(), file = getRecordPath(folder);
  UnitRates first = readOrProbeUnits(folder);
  // A second probe would differ in its last digits.
  EXPECT_EQ(readOrProbeUnits(folder), first);
  std::optional<std::string> text = readPrivateFile(file, 4096);
  ASSERT_NE(text, std::nullopt);
  std::string other = *text;
  other.replace(other.find("family"), 6, "FAMILY");
  for (const std::string &damaged :
       {std::string(), std::string("{"), text->substr(0, text->size() / 2),
        std::string("{}"), std::string("[1]"), other, std::string(4096, 'x'),
        std::string(100000, '[')}) {
    ASSERT_TRUE(writePrivateFile(
        folder, llvm::StringRef(file).rsplit('/').second, damaged));
    UnitRates again = readOrProbeUnits(folder);
    for (Unit unit : allUnits)
      EXPECT_EQ(again[static_cast<size_t>(unit)] > 0, hasUnit(unit));
    EXPECT_EQ(readOrProbeUnits(folder), again) << "the record is not mended";
  }
  // Without a folder it is measured, and kept nowhere.
  EXPECT_EQ(getRecordPath(""), "");
  UnitRates unkept = readOrProbeUnits("");
  EXPECT_EQ(unkept[0] > 0, hasUnit(allUnits[0]));
  (void)fs::remove_directories(folder);
}

//===- TemporariesTest.cpp - Tensors that launches alone use --------------===//
//
// Functions of a few instructions, and which of their tensors are temporary.
//
//===----------------------------------------------------------------------===//

#include "runtime/Temporaries.h"
#include "gtest/gtest.h"

using namespace sextant::runtime;

static Function makeFunction(std::vector<decltype(Instruction::body)> bodies,
                             size_t tensors) {
  Function function;
  function.tensors.resize(tensors);
  for (auto &body : bodies)
    function.instructions.push_back({std::move(body), ""});
  return function;
}

static Launch makeLaunch(Registers reads, Registers writes) {
  Launch launch{};
  launch.reads = std::move(reads);
  launch.writes = std::move(writes);
  return launch;
}

static Alloc makeAlloc(uint32_t result) { return {result, {}, false}; }

static DenseArgument makeArgument(ArgumentKind kind, int64_t number,
                                  std::vector<int64_t> numbers = {}) {
  return {kind, number, std::move(numbers), 0.0, ""};
}

TEST(Temporaries, AreWhatLaunchesLeaveForEachOther) {
  // 0 is an argument, 1 goes from launch to launch, 2 is a result.
  Function function =
      makeFunction({makeAlloc(1), makeLaunch({0}, {1}), makeAlloc(2),
                    makeLaunch({1}, {2}), Release{{1}}, Return{{2}}},
                   3);
  EXPECT_EQ(findTemporaries(function), std::vector<bool>({false, true, false}));
}

TEST(Temporaries, AViewThatIsAResultShowsItsTensor) {
  Function function =
      makeFunction({makeAlloc(1), makeLaunch({0}, {1}), View{1, 2, {}, {}},
                    View{2, 3, {}, {}}, Return{{3}}},
                   4);
  EXPECT_EQ(findTemporaries(function), std::vector<bool>(4));
}

TEST(Temporaries, AViewThatLaunchesReadDoesNot) {
  Function function =
      makeFunction({makeAlloc(1), makeLaunch({0}, {1}), View{1, 2, {}, {}},
                    makeAlloc(3), makeLaunch({2}, {3}), Return{{3}}},
                   4);
  EXPECT_EQ(findTemporaries(function),
            std::vector<bool>({false, true, false, false}));
}

TEST(Temporaries, OperatorsOfOthersSeeNone) {
  Dense dense{"aten::add_.Tensor",
              {makeArgument(ArgumentKind::Tensor, 1),
               makeArgument(ArgumentKind::Tensors, 0, {2, 3}),
               makeArgument(ArgumentKind::Integer, 4)},
              {5}};
  Function function =
      makeFunction({makeAlloc(1), makeAlloc(2), makeAlloc(3), makeAlloc(4),
                    dense, makeLaunch({4, 5}, {}), Return{{}}},
                   6);
  // 4 is a number of the operator, not a tensor; 5 is the operator's own.
  EXPECT_EQ(findTemporaries(function),
            std::vector<bool>({false, false, false, false, true, false}));
}

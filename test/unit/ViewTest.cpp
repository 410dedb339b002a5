//===- ViewTest.cpp - Views against a walk over all indices ---------------===//
//
// A view must show the elements of its source in the order in which a walk over
// all indices meets them.
//
//===----------------------------------------------------------------------===//

#include "runtime/View.h"
#include "gtest/gtest.h"
#include <functional>
#include <numeric>

using namespace sextant::runtime;

static Tensor makeTensor(std::vector<int64_t> sizes,
                         std::vector<int64_t> strides = {}) {
  Tensor tensor;
  tensor.setShape(sizes);
  if (!strides.empty())
    std::copy(strides.begin(), strides.end(), tensor.strides);
  return tensor;
}

/// Offsets of all elements in the order of their indices.
static std::vector<int64_t> getOffsets(const Tensor &tensor) {
  std::vector<int64_t> offsets;
  std::function<void(uint32_t, int64_t)> walk = [&](uint32_t dim,
                                                    int64_t offset) {
    if (dim == tensor.rank)
      return offsets.push_back(offset);
    for (int64_t i = 0; i < tensor.sizes[dim]; ++i)
      walk(dim + 1, offset + i * tensor.strides[dim]);
  };
  walk(0, 0);
  return offsets;
}

static void expectView(const Tensor &source, std::vector<int64_t> sizes) {
  Result<Tensor> view = makeView(source, {}, sizes);
  ASSERT_TRUE(static_cast<bool>(view)) << view.error().message();
  EXPECT_EQ(std::vector<int64_t>(view->sizes, view->sizes + view->rank), sizes);
  EXPECT_EQ(getOffsets(*view), getOffsets(source)) << formatShape(sizes);
}

static void expectNoView(const Tensor &source, std::vector<int64_t> sizes) {
  EXPECT_FALSE(static_cast<bool>(makeView(source, {}, sizes)))
      << formatShape(sizes);
}

TEST(View, SplitsAndJoins) {
  expectView(makeTensor({6, 4}), {2, 3, 4});
  expectView(makeTensor({6, 4}), {24});
  expectView(makeTensor({6, 4}), {3, 8});
  expectView(makeTensor({2, 3, 4}), {6, 4});
  expectView(makeTensor({2, 1, 4}), {8, 1, 1});
  expectView(makeTensor({}), {1, 1});
  expectView(makeTensor({1, 1}), {});
  expectView(makeTensor({0, 4}), {2, 0, 7});
}

TEST(View, OfStridedMemory) {
  // Rows with a gap: dimensions inside a row split, rows join with nothing.
  Tensor gap = makeTensor({3, 4}, {10, 1});
  expectView(gap, {3, 2, 2});
  expectView(gap, {1, 3, 4, 1});
  expectNoView(gap, {12});
  expectNoView(gap, {6, 2});
  // Broadcast rows.
  expectView(makeTensor({4, 3}, {0, 1}), {2, 2, 3});
  expectNoView(makeTensor({4, 3}, {0, 1}), {12});
  // A transposed matrix splits along each dimension.
  expectView(makeTensor({4, 6}, {1, 4}), {2, 2, 3, 2});
  expectNoView(makeTensor({4, 6}, {1, 4}), {24});
}

TEST(View, RandomSplits) {
  // Any factorisation of a contiguous tensor is a view of it.
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::vector<int64_t> sizes;
    for (unsigned rest = seed * 2654435761u >> 8, i = 0; i < 4; ++i, rest /= 4)
      sizes.push_back(1 + rest % 4);
    Tensor source = makeTensor(sizes);
    std::reverse(sizes.begin(), sizes.end());
    expectView(source, sizes);
  }
}

TEST(View, PermutesFirst) {
  uint32_t permutation[] = {1, 0, 2};
  Result<Tensor> view = makeView(makeTensor({5, 2, 8}), permutation,
                                 std::vector<int64_t>{2, 5, 2, 4});
  ASSERT_TRUE(static_cast<bool>(view));
  EXPECT_EQ(view->strides[0], 8);
  EXPECT_EQ(view->strides[1], 16);
  EXPECT_EQ(view->strides[2], 4);
}

TEST(View, RefusesAnotherNumberOfElements) {
  Result<Tensor> view =
      makeView(makeTensor({2, 3}), {}, std::vector<int64_t>{7});
  ASSERT_FALSE(static_cast<bool>(view));
  EXPECT_EQ(view.error().message(),
            "a tensor of shape [2, 3] cannot be seen as [7]");
  EXPECT_FALSE(static_cast<bool>(
      makeView(makeTensor({2, 3}), {}, std::vector<int64_t>{-2, -3})));
}

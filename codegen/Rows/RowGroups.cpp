//===- RowGroups.cpp - A vector of groups of lanes of a row ---------------===//

#include "codegen/Rows/RowGroups.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// Lanes of vectors a, b in order as even and odd ones, and back.
static Values deinterleave(KernelBuilder &kernel, Value a, Value b) {
  SmallVector<int64_t> even, odd;
  for (int64_t lane = 0; lane < kernel.width(); ++lane) {
    even.push_back(2 * lane);
    odd.push_back(2 * lane + 1);
  }
  return {kernel.shuffle(a, b, even), kernel.shuffle(a, b, odd)};
}

static Values interleave(KernelBuilder &kernel, Value a, Value b) {
  auto half = [&](int64_t from) {
    SmallVector<int64_t> mask;
    for (int64_t lane = from; lane < from + kernel.width() / 2; ++lane)
      mask.append({lane, kernel.width() + lane});
    return kernel.shuffle(a, b, mask);
  };
  return {half(0), half(kernel.width() / 2)};
}

int64_t RowGroups::getLane(int64_t part) const {
  return isInterleaved() ? map.getLane(group, 0) + part * kernel.width()
                         : map.getLane(group, part);
}

int64_t RowGroups::getCount(int64_t part) const {
  int64_t width = kernel.width();
  int64_t groups = std::min(width, map.getNumGroups() - group);
  return isInterleaved()
             ? std::clamp<int64_t>(2 * groups - part * width, 0, width)
             : groups;
}

Values RowGroups::load(Value row) {
  Values values;
  for (int64_t part = 0; part < getParts(); ++part) {
    Value from = kernel.advance(row, {getLane(part)});
    values.push_back(getCount(part)
                         ? kernel.loadPart(kernel.vf32, from, getCount(part))
                         : kernel.splatF32(0));
  }
  return isInterleaved() ? deinterleave(kernel, values[0], values[1]) : values;
}

void RowGroups::store(ValueRange values, Value row) {
  Values parts(values);
  if (isInterleaved())
    parts = interleave(kernel, values[0], values[1]);
  for (int64_t part = 0; part < getParts(); ++part)
    if (getCount(part))
      kernel.storePart(parts[part], kernel.advance(row, {getLane(part)}),
                       getCount(part));
}

//===----------------------------------------------------------------------===//
// Rows in registers
//===----------------------------------------------------------------------===//

/// `count` lanes of a row from `first` on; the others are zero.
static Value getRun(KernelBuilder &kernel, ValueRange row, int64_t first,
                    int64_t count) {
  int64_t width = kernel.width(), number = first / width, apart = first % width;
  if (count == 0)
    return kernel.splatF32(0);
  Value low = row[number], run = low;
  if (apart) {
    bool isInOne = apart + count <= width;
    SmallVector<int64_t> mask;
    for (int64_t lane = 0; lane < width; ++lane)
      mask.push_back(isInOne ? (lane + apart) % width : lane + apart);
    run = kernel.shuffle(low, isInOne ? low : row[number + 1], mask);
  }
  if (count == width)
    return run;
  return kernel.selectF(kernel.lanesBelow(count), run, kernel.splatF32(0));
}

/// Puts them back.
static void putRun(KernelBuilder &kernel, Values &row, int64_t first,
                   int64_t count, Value run) {
  int64_t width = kernel.width();
  for (auto [number, vector] : llvm::enumerate(row)) {
    int64_t begin = first - static_cast<int64_t>(number) * width;
    if (begin >= width || begin + count <= 0)
      continue;
    SmallVector<int64_t> mask;
    for (int64_t lane = 0; lane < width; ++lane)
      mask.push_back(
          lane >= begin && lane < begin + count ? width + lane - begin : lane);
    bool isWhole = begin == 0 && count == width;
    vector = isWhole ? run : kernel.shuffle(vector, run, mask);
  }
}

Values RowGroups::getFrom(ValueRange row) {
  Values values;
  for (int64_t part = 0; part < getParts(); ++part)
    values.push_back(getRun(kernel, row, getLane(part), getCount(part)));
  return isInterleaved() ? deinterleave(kernel, values[0], values[1]) : values;
}

void RowGroups::putInto(Values &row, ValueRange values) {
  Values parts(values);
  if (isInterleaved())
    parts = interleave(kernel, values[0], values[1]);
  for (int64_t part = 0; part < getParts(); ++part)
    if (int64_t count = getCount(part))
      putRun(kernel, row, getLane(part), count, parts[part]);
}

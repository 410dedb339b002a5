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

bool RowGroups::areVectors(const VectorTarget &target, const RowMap &map) {
  int64_t width = target.width, groups = map.getNumGroups();
  // Lanes of interleaved groups lie side by side; those of others are a run for
  // each part.
  int64_t run =
      map.grouping == pos::Grouping::interleaved ? 2 * groups : groups;
  return map.begin % width == 0 && run % width == 0;
}

Values RowGroups::getFrom(ValueRange row) {
  Values values;
  for (int64_t part = 0; part < getParts(); ++part)
    values.push_back(getCount(part) ? row[getLane(part) / kernel.width()]
                                    : kernel.splatF32(0));
  return isInterleaved() ? deinterleave(kernel, values[0], values[1]) : values;
}

void RowGroups::putInto(Values &row, ValueRange values) {
  Values parts(values);
  if (isInterleaved())
    parts = interleave(kernel, values[0], values[1]);
  for (int64_t part = 0; part < getParts(); ++part)
    if (getCount(part))
      row[getLane(part) / kernel.width()] = parts[part];
}

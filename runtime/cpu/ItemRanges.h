//===- ItemRanges.h - Work items, handed out to threads ---------*- C++ -*-===//
//
// Ranges shrink: long ones first, so that kernels can keep what neighbouring
// items share, short ones last, so that all workers end together. What shares
// its reads is not cut for that, but into equal parts where workers would have
// nothing: reading again costs more than waiting for the last range.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_CPU_ITEMRANGES_H
#define SEXTANT_RUNTIME_CPU_ITEMRANGES_H

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

namespace sextant::runtime {

/// The work items of one launch.
class ItemRanges {
public:
  /// `together` items, from a multiple of it on, share what they read.
  ItemRanges(int64_t count, int64_t workers, int64_t together)
      : count(count), workers(workers),
        unit(getUnit(count, workers, together)) {}

  /// The next range; empty when all is handed out.
  std::pair<int64_t, int64_t> take() {
    int64_t begin = next.load(std::memory_order_relaxed);
    while (begin < count) {
      int64_t units = (count - begin) / (2 * workers * unit);
      int64_t size = std::max<int64_t>(units, 1) * unit;
      int64_t end = std::min(begin + size, count);
      if (next.compare_exchange_weak(begin, end, std::memory_order_relaxed))
        return {begin, end};
    }
    return {count, count};
  }

private:
  /// Of equal parts of `together` the smallest that is no less than a worker's
  /// share of all items, or all of it.
  static int64_t getUnit(int64_t count, int64_t workers, int64_t together) {
    int64_t share = (count + workers - 1) / workers;
    if (together <= 1 || share <= 1)
      return 1;
    int64_t parts = std::max<int64_t>((together - 1) / (share - 1), 1);
    return (together + parts - 1) / parts;
  }

  std::atomic<int64_t> next = 0;
  int64_t count, workers, unit;
};

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_CPU_ITEMRANGES_H

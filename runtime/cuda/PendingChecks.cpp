//===- PendingChecks.cpp - Checks of data that a device computes ----------===//
//
// A slot is one 64-bit word, which arrives whole. Until then it holds a number
// that no element is (see exec.check_data), so that nobody has to be asked
// whether the copy is done.
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/PendingChecks.h"
#include <algorithm>
#include <atomic>

using namespace sextant::runtime;
using namespace sextant::runtime::cuda;

/// Slots that are made at once.
static constexpr size_t pageSlots = 1024;

static constexpr int64_t notYet = INT64_MIN;

Status PendingChecks::begin() {
  {
    std::lock_guard lock(mutex);
    ++runs;
  }
  return look();
}

/// Memory that lives as long as the process is no part of a graph, neither of
/// one that captures the check nor of one that another thread captures.
Status PendingChecks::makeRoom() {
  UncapturedCalls uncaptured(driver);
  if (Status status = uncaptured.getStatus(); !status)
    return status;
  void *page = nullptr;
  constexpr unsigned portable = 1; // CU_MEMHOSTALLOC_PORTABLE
  if (Status status = driver.check(
          driver.memHostAlloc(&page, pageSlots * sizeof(int64_t), portable),
          "cuMemHostAlloc");
      !status)
    return status;
  for (size_t i = 0; i < pageSlots; ++i)
    free.push_back(static_cast<int64_t *>(page) + i);
  return {};
}

Status PendingChecks::add(Stream stream, const DataCheck &check,
                          bool captured) {
  std::lock_guard lock(mutex);
  if (free.empty())
    if (Status status = makeRoom(); !status)
      return status;
  int64_t *slot = free.back();
  std::atomic_ref(*slot).store(notYet);
  if (Status status = driver.check(
          driver.memcpyToHost(slot, reinterpret_cast<Address>(check.element),
                              sizeof(*slot), stream),
          "cuMemcpyDtoHAsync");
      !status)
    return status;
  free.pop_back();
  pending.push_back(
      {slot, check.predicate, check.bound, check.message, runs, captured});
  return {};
}

/// An error with the call that it belongs to, so many runs before this one.
static Error describe(const Error &error, int64_t runsAgo, bool captured) {
  if (captured)
    return error.in("a replay of a captured call");
  if (runsAgo == 0)
    return error;
  return error.in(std::to_string(runsAgo) +
                  (runsAgo == 1 ? " call ago" : " calls ago"));
}

Status PendingChecks::look() {
  std::lock_guard lock(mutex);
  Status failure;
  std::erase_if(pending, [&](const Pending &check) {
    if (!failure)
      return false;
    // The next replay of a captured call writes it again.
    int64_t value = std::atomic_ref(*check.slot).exchange(notYet);
    if (value == notYet)
      return false;
    if (Status status =
            compare(value, check.predicate, check.bound, check.message);
        !status)
      failure = describe(status.error(), runs - check.run, check.captured);
    if (!check.captured)
      free.push_back(check.slot);
    return !check.captured;
  });
  return failure;
}

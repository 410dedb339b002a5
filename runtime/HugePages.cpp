//===- HugePages.cpp - Fewer page faults in large buffers -----------------===//
//
// The advice is given for whole huge pages inside of the buffer.
//
//===----------------------------------------------------------------------===//

#include "runtime/HugePages.h"
#include <sys/mman.h>

using namespace sextant::runtime;

int64_t sextant::runtime::adviseHugePages(void *memory, int64_t bytes) {
  auto begin = reinterpret_cast<uintptr_t>(memory);
  uintptr_t first = (begin + hugePage - 1) / hugePage * hugePage;
  uintptr_t last =
      (begin + static_cast<uintptr_t>(bytes)) / hugePage * hugePage;
  if (first >= last)
    return 0;
  (void)::madvise(reinterpret_cast<void *>(first), last - first, MADV_HUGEPAGE);
  return static_cast<int64_t>(last - first);
}

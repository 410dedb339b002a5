//===- HugePages.h - Fewer page faults in large buffers ---------*- C++ -*-===//
//
// Memory that comes fresh from the system costs a page fault per page, and
// pages of 2 MiB make them few.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_HUGEPAGES_H
#define SEXTANT_RUNTIME_HUGEPAGES_H

#include <cstdint>

namespace sextant::runtime {

inline constexpr int64_t hugePage = int64_t(2) << 20;

/// Asks for huge pages where whole ones lie in [memory, memory + bytes), and
/// returns their bytes. Large buffers come fresh from the system at every call,
/// and a kernel waits for each page that it touches first: 512 times as often
/// without huge ones. A hint: that it fails changes nothing.
int64_t adviseHugePages(void *memory, int64_t bytes);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_HUGEPAGES_H

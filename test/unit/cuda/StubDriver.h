//===- StubDriver.h - A CUDA driver without a GPU ---------------*- C++ -*-===//
//
// A library with the functions of the driver that the runtime calls, on memory
// of the host. Kernels are functions of the test, known by their names, and
// those of a compiler do nothing; a call that is to fail does; all calls are
// written to a log.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_TEST_UNIT_CUDA_STUBDRIVER_H
#define SEXTANT_TEST_UNIT_CUDA_STUBDRIVER_H

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace sextant::test {

/// One block of a launch.
struct StubBlock {
  int64_t block, blocks;
  const int64_t *arguments;
  int64_t items;
  char *scratch; ///< of the launch
  int64_t scratchBytes;
  unsigned threads, sharedBytes;
};

/// The driver's settings, and what it has seen.
struct StubDriver {
  int version = 13000;
  int devices = 1;
  int generation = 9, revision = 0, multiprocessors = 4;
  int sharedBytes = 200000; ///< that a block may have
  int residentBlocks = 8;   ///< of any kernel, on a multiprocessor

  /// What runs in the place of an entry. Code is an image "stub a b c", which
  /// has the entries a, b and c.
  std::map<std::string, std::function<void(const StubBlock &)>> kernels;

  /// The function that fails from now on, and how.
  std::string failing;
  int failure = 0;

  /// Whether streams are being captured, by this thread or by another one: what
  /// waits then is an error, as it is for the driver, and what makes memory or
  /// loads code is one but for a thread that says that it is no part of a
  /// graph.
  bool capturing = false;
  /// The copies to the host that a capture has seen.
  std::vector<std::function<void()>> captured;
  /// Whether copies to the host arrive only when somebody waits.
  bool holdsCopies = false;
  /// Whether code is looked at only when somebody asks for a kernel's function.
  bool loadsLate = false;

  std::vector<std::string> log; ///< names of functions; launches with more
  int64_t waits = 0;            ///< calls that make the host wait
  int64_t liveBytes = 0;        ///< of memory of the device
  int64_t liveEvents = 0;
};

/// The symbol of the library that gives its one driver.
inline constexpr char stubSymbol[] = "sextantStubDriver";
using GetStubDriver = StubDriver *(*)();

} // namespace sextant::test

#endif // SEXTANT_TEST_UNIT_CUDA_STUBDRIVER_H

//===- StaticReport.h - What kernels take of a GPU, counted -----*- C++ -*-===//
//
// A report that needs no GPU: of each kernel the instructions of its main loop,
// and a model that says for how long they keep which unit of a GPU busy. The
// model knows rates only, no latencies.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_TOOLS_SEXTANT_PROF_STATICREPORT_H
#define SEXTANT_TOOLS_SEXTANT_PROF_STATICREPORT_H

#include "runtime/ArtifactReader.h"
#include "tools/sextant-prof/Listing.h"
#include <optional>

namespace sextant::tools {

/// What a multiprocessor of a GPU does in a clock.
struct GpuRates {
  const char *name;
  double productFlops;     ///< of products of matrices of 16 bits (mma.sync)
  double issues;           ///< instructions of a warp
  double f32Lanes;         ///< multiply-adds and the like
  double specialLanes;     ///< exponentials, reciprocals and the like
  double sharedBytes;      ///< of shared memory
  double secondCacheBytes; ///< copies from the second cache to shared memory
};

/// For how many clocks one pass of a warp keeps a unit busy.
struct UnitClocks {
  const char *unit;
  double clocks;
};

/// Milliseconds of the processor that a kernel took.
struct CompileCost {
  double llvm = 0, ptxas = 0;
};

/// Of a kernel.
struct StaticRow {
  std::string kernel;
  int64_t registers;
  int64_t sharedBytes; ///< of a block
  /// Accesses of memory that a thread has for itself: in all of the kernel and
  /// in its main loop. Registers that are kept there among them.
  int64_t numLocal, numLoopLocal;
  /// Scores that a thread holds in a pass of the main loop; 0 where the kernel
  /// does not say it.
  int64_t numScores;
  Instructions loop;
  /// Of a pass of each loop inside of it (findLoopsInside).
  std::vector<int64_t> inside;
  std::optional<CompileCost> cost = {}; ///< of a model, which is compiled here
};

/// Units of the GPU, the busiest first.
std::vector<UnitClocks> getUnitClocks(const Instructions &loop,
                                      const GpuRates &gpu);

/// The object with the machine code of a kernel for a GPU, the best one;
/// nothing for a kernel of the host, or where there is assembly alone.
std::optional<uint32_t> findMachineCode(const runtime::Artifact &artifact,
                                        const runtime::KernelName &kernel);

/// What a listing says of a kernel. Loads code of the host, which knows how
/// many scores a thread holds.
runtime::Result<StaticRow> makeStaticRow(const runtime::Artifact &artifact,
                                         const runtime::KernelName &kernel,
                                         const KernelListing &listing);

std::string formatStaticTable(const std::vector<StaticRow> &rows);
std::string formatStaticJson(const std::vector<StaticRow> &rows);

} // namespace sextant::tools

#endif // SEXTANT_TOOLS_SEXTANT_PROF_STATICREPORT_H

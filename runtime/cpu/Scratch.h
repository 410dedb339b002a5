//===- Scratch.h - Memory that kernels work in ------------------*- C++ -*-===//
//
// Every worker of a launch has a buffer, which is kept for the next launch: a
// training step asks for the same sizes every time. Buffers of 128 KiB and more
// are whole huge pages.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_CPU_SCRATCH_H
#define SEXTANT_RUNTIME_CPU_SCRATCH_H

#include "runtime/Result.h"
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace sextant::runtime {

/// The scratch buffers of one execution, one per worker.
class Scratch {
public:
  /// Makes `workers` buffers of at least `bytes` each.
  Status reserve(int64_t workers, int64_t bytes);
  /// Fills all of it with bytes that are NaN as f32 and as f64.
  void poison();
  void *get(int64_t worker) const { return buffers[worker].data.get(); }

private:
  /// Frees what aligned_alloc gave.
  struct Free {
    void operator()(void *memory) const;
  };
  /// The memory of one worker.
  struct Buffer {
    std::unique_ptr<void, Free> data;
    int64_t bytes = 0;
  };
  std::vector<Buffer> buffers;
};

/// Scratch that is not in use. Concurrent executions each take one.
class ScratchPool {
public:
  std::unique_ptr<Scratch> take();
  void give(std::unique_ptr<Scratch> scratch);
  /// The pool of this process.
  static ScratchPool &get();

private:
  std::mutex mutex;
  std::vector<std::unique_ptr<Scratch>> idle;
};

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_CPU_SCRATCH_H

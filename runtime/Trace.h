//===- Trace.h - What an observer of an execution sees ----------*- C++ -*-===//
//
// A caller of the executor may watch each instruction: profiles are made this
// way, and other observers can be.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_TRACE_H
#define SEXTANT_RUNTIME_TRACE_H

#include "runtime/Device.h"

namespace sextant::runtime {

/// What an instruction costs; -1 where nobody said.
struct Cost {
  int64_t flops = -1;
  int64_t bytes = -1;
  int64_t items = -1; ///< work items of a launch
};

/// Called around a run and each of its instructions, by the thread that runs
/// the program. The default does nothing.
class Trace {
public:
  virtual ~Trace() = default;
  /// The device, and what it keeps during the run.
  virtual void start(const Device &device, void *session) {}
  virtual Status finish() { return {}; }
  virtual void begin(const Function &function, size_t instruction) {}
  virtual void end(const Function &function, size_t instruction,
                   const Cost &cost) {}
  /// Whether `count` is wanted, which takes time to find out.
  virtual bool countsWork() const { return false; }
  /// After the end of a launch whose work depends on its arguments: its FLOP.
  virtual void count(int64_t flops) {}
};

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_TRACE_H

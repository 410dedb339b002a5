//===- Profile.h - Times of a program's instructions ------------*- C++ -*-===//
//
// A profile is a trace that keeps the time and the cost of every launch and
// every dense operator. Where a device works on while the host goes ahead,
// times are those of marks among its work.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_PROFILE_H
#define SEXTANT_RUNTIME_PROFILE_H

#include "runtime/Trace.h"

namespace sextant::runtime {

/// One execution of one instruction.
struct ProfileEvent {
  size_t instruction;
  int64_t begin, end; ///< nanoseconds, of the steady clock
  Cost cost;
};

/// Records launches and dense operators, the instructions that take time.
class Profile : public Trace {
public:
  explicit Profile(const Artifact &artifact) : artifact(artifact) {}
  void start(const Device &device, void *session) override;
  Status finish() override;
  void begin(const Function &function, size_t instruction) override;
  void end(const Function &function, size_t instruction,
           const Cost &cost) override;
  bool countsWork() const override { return true; }
  void count(int64_t flops) override { events.back().cost.flops = flops; }

  const std::vector<ProfileEvent> &getEvents() const { return events; }
  void clear() { events.clear(); }

  /// JSON: [{"instruction": n, "kind": "launch" | "dense", "name": ...,
  /// "label": ..., "ns": n, "begin_ns": n, "flops": n or null, "bytes": n or
  /// null, "items": n or null}].
  std::string format(const Function &function) const;

private:
  /// Marks of a device before and after the work of an event.
  struct Marks {
    std::shared_ptr<void> begin, end;
  };
  std::shared_ptr<void> mark();

  const Artifact &artifact;
  std::vector<ProfileEvent> events;
  int64_t started = 0;
  const Device *device = nullptr; ///< where it makes marks, during a run
  void *session = nullptr;
  int64_t startOfRun = 0;
  std::shared_ptr<void> firstMark, lastMark;
  std::vector<Marks> marks; ///< of the last events
  Status status; ///< the error of the first mark that could not be made
};

/// The kernel or operator of a launch or dense instruction; "" of others.
std::string_view getCallee(const Artifact &artifact,
                           const Instruction &instruction);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_PROFILE_H

//===- Fiber.h - Functions that take turns on stacks of their own *- C++ -*===//

#ifndef SEXTANT_RUNTIME_EMULATOR_FIBER_H
#define SEXTANT_RUNTIME_EMULATOR_FIBER_H

#include <cstddef>

namespace sextant::runtime::emulator {

/// Where a function that was left goes on: its stack, which holds the rest.
using Context = void *;

/// Leaves the function at hand, keeping where in `from`, and goes on at `to`.
void switchContext(Context *from, Context to);

/// A stack with a page below it that no access survives. Memory that is never
/// touched takes no room.
class FiberStack {
public:
  FiberStack();
  FiberStack(const FiberStack &) = delete;
  FiberStack &operator=(const FiberStack &) = delete;
  ~FiberStack();

  /// False if there was no memory.
  explicit operator bool() const { return memory != nullptr; }

  /// Where `function` begins, which never returns. Each of many stacks begins
  /// elsewhere in its page, `number` times a few cache lines.
  Context start(void (*function)(), unsigned number) const;

private:
  void *memory;
};

} // namespace sextant::runtime::emulator

#endif // SEXTANT_RUNTIME_EMULATOR_FIBER_H

//===- Fiber.cpp - Functions that take turns on stacks of their own -------===//
//
// A switch keeps the registers that a function must keep for its caller, and no
// more: no signal mask, which would cost a system call.
//
//===----------------------------------------------------------------------===//

#include "runtime/emulator/Fiber.h"
#include <cstdint>
#include <sys/mman.h>

using namespace sextant::runtime::emulator;

#ifndef __x86_64__
#error "contexts are written for x86-64"
#endif

static constexpr size_t kPage = 4096;
static constexpr size_t kStack = size_t(1) << 18;
/// Stacks of equal addresses modulo a page would share lines of the cache.
static constexpr size_t kApart = 320;

asm(R"(
.text
.type sextant_switch_context, @function
sextant_switch_context:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size sextant_switch_context, . - sextant_switch_context
)");

extern "C" void switchStacks(Context *from,
                             Context to) asm("sextant_switch_context");

void sextant::runtime::emulator::switchContext(Context *from, Context to) {
  switchStacks(from, to);
}

FiberStack::FiberStack() {
  void *found = ::mmap(nullptr, kStack + kPage, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  memory = found == MAP_FAILED ? nullptr : found;
  if (memory)
    (void)::mprotect(memory, kPage, PROT_NONE);
}

FiberStack::~FiberStack() {
  if (memory)
    (void)::munmap(memory, kStack + kPage);
}

Context FiberStack::start(void (*function)(), unsigned number) const {
  auto end = reinterpret_cast<uintptr_t>(memory) + kStack + kPage;
  auto *top =
      reinterpret_cast<uint64_t *>((end - number * kApart) & ~uintptr_t(15));
  // As behind a call: a return address, of which there is none. Below it what
  // the first switch takes, where to go and six registers.
  *--top = 0;
  *--top = reinterpret_cast<uint64_t>(function);
  for (int i = 0; i < 6; ++i)
    *--top = 0;
  return top;
}

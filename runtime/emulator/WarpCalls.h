//===- WarpCalls.h - What code for emulated warps calls ---------*- C++ -*-===//
//
// The interface between compiled kernels, whose functions are those of one
// thread of a block, and the emulator that runs all of them. A shared object
// exports a pointer to the calls, which is set when it is loaded: it needs no
// symbol of this process.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_EMULATOR_WARPCALLS_H
#define SEXTANT_RUNTIME_EMULATOR_WARPCALLS_H

#include <cstdint>

namespace sextant::runtime::emulator {

/// The range of work items of a kernel, as one thread runs it.
using ThreadFunction = void (*)(const int64_t *arguments, int64_t begin,
                                int64_t end, void *scratch);

/// A kernel's code, made for a block of threads.
struct ThreadCode {
  const char *kernel;
  ThreadFunction function;
  /// For each place the source op that its instruction comes from, as
  /// file:line:column; an empty text where nobody knows.
  const char *const *sources;
  int32_t places;
  int32_t warps; ///< of a block
  int64_t sharedBytes;
};

/// What a thread does to memory. An atomic change is of one word, and whole
/// before another one begins.
enum class AccessKind : int32_t { Load, Store, AtomicChange };

/// `place` is the number of an instruction in its function. Of calls that give
/// what threads do together all threads of a warp make the same one.
struct WarpCalls {
  /// Runs a kernel's function in all threads of a block.
  void (*run)(const ThreadCode *code, const int64_t *arguments, int64_t begin,
              int64_t end, void *scratch, int64_t scratchBytes);
  /// The number of the calling thread in its block.
  int32_t (*getThread)();
  /// `value` as lane `source` of the warp gives it.
  int32_t (*shuffle)(int32_t value, int32_t source, int32_t place);
  /// Bit t: the condition that lane t gives.
  int32_t (*ballot)(int32_t condition, int32_t place);
  void (*synchronize)(int32_t place);
  /// Before a thread accesses so many bytes, by an instruction for addresses
  /// that are multiples of `alignment`.
  void (*access)(const void *address, int32_t bytes, int32_t alignment,
                 AccessKind kind, int32_t place);
  /// Memory that the threads of a block share.
  void *(*getShared)();
  /// Comes to a barrier of the block, at which `threads` threads meet in whole
  /// warps: waits there for all of them, or goes on.
  void (*synchronizeBlock)(int32_t barrier, int32_t threads, int32_t place);
  void (*arrive)(int32_t barrier, int32_t threads, int32_t place);

  // Tensor cores, see TensorCores.h.

  /// `operands`: the thread's words of A (4), B (2) and, as f32, C (4); `sums`:
  /// its elements of A B + C. Elements of A and B are f16, or bf16.
  void (*multiplyF16)(const int32_t *operands, float *sums, int32_t place);
  void (*multiplyBF16)(const int32_t *operands, float *sums, int32_t place);
  /// Four matrices of 8 x 8 elements of 16 bits: `row` is the address in shared
  /// memory of the row that the thread names, `words` what it gets of each.
  void (*loadMatrices)(const void *row, int32_t *words, int32_t isTransposed,
                       int32_t place);
  /// What the thread has of a matrix of 8 x 8 elements of 16 bits, of the
  /// transposed one.
  int32_t (*turnMatrix)(int32_t word, int32_t place);
  /// Begins to copy `given` bytes to shared memory, and zeros up to `bytes`
  /// behind them. They are there when the thread has waited for all but a
  /// number of its latest groups of copies.
  void (*copy)(void *to, const void *from, int32_t bytes, int32_t given,
               int32_t place);
  void (*commitCopies)();
  void (*waitForCopies)(int32_t groups);

  /// 2^x, tanh x and 1 / x, within the errors of the instructions
  /// (Approximation.h).
  float (*exp2)(float x);
  float (*tanh)(float x);
  float (*reciprocal)(float x);
  /// Two numbers as f16 or bf16, the second in the low half.
  int32_t (*toF16)(float high, float low);
  int32_t (*toBF16)(float high, float low);
  /// Further functions, likewise.
  float (*log2)(float x);
  float (*sine)(float x);
  float (*cosine)(float x);
  float (*squareRoot)(float x);
};

/// The pointer to `WarpCalls` that a shared object exports.
inline constexpr const char *warpCallsSymbol = "sextant_warp_calls";

} // namespace sextant::runtime::emulator

#endif // SEXTANT_RUNTIME_EMULATOR_WARPCALLS_H

//===- Peak.cpp - What this machine can do at most ------------------------===//
//
// Independent chains of fused multiply-adds that hide their latency, and a sum
// over more memory than the caches hold. The best of many short calls counts:
// other programs only make it slower.
//
//===----------------------------------------------------------------------===//

#include "tools/sextant-prof/Peak.h"
#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

using namespace sextant::tools;

static double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// The sum of all threads' best rates: each calls `work`, which takes about a
/// millisecond and does `amount`, over and over at the same time.
static double measureRate(int64_t threads, double amount,
                          const std::function<void(int64_t)> &work) {
  std::vector<double> best(static_cast<size_t>(threads), 1e30);
  auto measure = [&](int64_t thread) {
    for (int call = 0; call < 60; ++call) {
      double begin = now();
      work(thread);
      double &mine = best[static_cast<size_t>(thread)];
      mine = std::min(mine, now() - begin);
    }
  };
  std::vector<std::thread> others;
  for (int64_t thread = 1; thread < threads; ++thread)
    others.emplace_back(measure, thread);
  measure(0);
  for (std::thread &other : others)
    other.join();
  double rate = 0.0;
  for (double seconds : best)
    rate += amount / seconds;
  return rate;
}

static constexpr int64_t rounds = 1 << 18;
static constexpr int chains = 12;

#if defined(__x86_64__)
// One function per width: vectors of a width need the target attribute that
// has it.
#define SEXTANT_MULTIPLY_ADDS(name, bits, target_name)                         \
  __attribute__((target(target_name), noinline)) static float name() {         \
    typedef float Vector __attribute__((vector_size(bits / 8)));               \
    Vector sums[chains] = {}, factor = {}, term = {};                          \
    factor += 0.999f;                                                          \
    term += 0.001f;                                                            \
    for (int64_t round = 0; round < rounds; ++round) {                         \
      _Pragma("clang loop unroll(full)") for (int chain = 0; chain < chains;   \
                                              ++chain) {                       \
        _Pragma("clang fp contract(fast)") sums[chain] =                       \
            sums[chain] * factor + term;                                       \
      }                                                                        \
    }                                                                          \
    Vector total = {};                                                         \
    for (const Vector &sum : sums)                                             \
      total += sum;                                                            \
    return total[0];                                                           \
  }
SEXTANT_MULTIPLY_ADDS(multiplyAdd256, 256, "avx2,fma")
SEXTANT_MULTIPLY_ADDS(multiplyAdd512, 512, "avx512f")
#undef SEXTANT_MULTIPLY_ADDS

int sextant::tools::getVectorBits() {
  return __builtin_cpu_supports("avx512f") ? 512 : 256;
}
#else
static float multiplyAdd256() { return 0.0f; }
static float multiplyAdd512() { return 0.0f; }
int sextant::tools::getVectorBits() { return 256; }
#endif

static double measureFlops(int64_t threads, int vectorBits) {
  std::vector<float> sinks(static_cast<size_t>(threads));
  double operations = 2.0 * rounds * chains * (vectorBits / 32);
  return measureRate(threads, operations, [&](int64_t thread) {
    sinks[static_cast<size_t>(thread)] =
        vectorBits == 512 ? multiplyAdd512() : multiplyAdd256();
  });
}

static double measureBytes(int64_t threads) {
  // Each thread walks through memory of its own, one piece at a call, so that
  // no piece is still in a cache when its turn comes again.
  constexpr size_t words = size_t(8) << 20, pieces = 8; // 64 MiB
  struct Walk {
    std::vector<uint64_t> memory = std::vector<uint64_t>(words, 1);
    size_t piece = 0;
    uint64_t sum = 0;
  };
  std::vector<Walk> walks(static_cast<size_t>(threads));
  double amount = words / pieces * sizeof(uint64_t);
  return measureRate(threads, amount, [&](int64_t thread) {
    Walk &walk = walks[static_cast<size_t>(thread)];
    const uint64_t *begin = walk.memory.data() + walk.piece * (words / pieces);
    for (size_t i = 0; i < words / pieces; ++i)
      walk.sum += begin[i];
    walk.piece = (walk.piece + 1) % pieces;
  });
}

Peak sextant::tools::measurePeak(int64_t threads, int vectorBits) {
  return {measureFlops(threads, vectorBits), measureBytes(threads)};
}

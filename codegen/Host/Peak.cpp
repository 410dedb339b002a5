//===- Peak.cpp - What this machine can do at most ------------------------===//
//
// Independent chains of multiply-adds that hide their latency, and a sum over
// more memory than the caches hold. To tell which unit is faster the best of
// short calls counts: other programs only make it slower. What a kernel can
// reach is what they do most of the time: for a millisecond a processor may
// clock a seventh higher than it does for the second that a kernel takes.
//
//===----------------------------------------------------------------------===//

#include "codegen/Host/Peak.h"
#include "runtime/CpuFeatures.h"
#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

using namespace sextant::codegen;

static double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

//===----------------------------------------------------------------------===//
// Units
//===----------------------------------------------------------------------===//

const char *sextant::codegen::getName(Unit unit) {
  switch (unit) {
  case Unit::MultiplyAdd256:
    return "f32 multiply-adds, 256 bits";
  case Unit::MultiplyAdd512:
    return "f32 multiply-adds, 512 bits";
  case Unit::Bf16Dot512:
    return "bf16 dot products, 512 bits";
  case Unit::Bf16Tiles:
    return "bf16 products of tiles";
  }
  return "";
}

/// More chains than any unit has steps of latency times instructions a cycle,
/// and few enough for the sixteen registers of AVX2.
static constexpr int chains = 12;

namespace {
/// Runs `rounds` of every chain; the result depends on all of them.
using RunUnit = float (*)(int64_t rounds);
} // namespace

#if defined(__x86_64__)
// One function per width: vectors of a width need the target attribute that
// has it.
#define SEXTANT_MULTIPLY_ADDS(name, bits, target_name)                         \
  __attribute__((target(target_name), noinline)) static float name(            \
      int64_t rounds) {                                                        \
    typedef float Vector __attribute__((vector_size((bits) / 8)));             \
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

__attribute__((target("avx512f,avx512bw,avx512bf16"),
               noinline)) static float bf16Dot512(int64_t rounds) {
  __m512 sums[chains];
  __m512bh pairs = (__m512bh)_mm512_set1_epi32(0x3f803f80); // ones
  for (__m512 &sum : sums)
    sum = _mm512_setzero_ps();
  for (int64_t round = 0; round < rounds; ++round) {
#pragma clang loop unroll(full)
    for (__m512 &sum : sums)
      sum = _mm512_dpbf16_ps(sum, pairs, pairs);
  }
  __m512 total = _mm512_setzero_ps();
  for (const __m512 &sum : sums)
    total = total + sum;
  return total[0];
}

/// As many instructions in all as of other units, of sums in four registers,
/// which hide their latency as a kernel can.
__attribute__((target("amx-tile,amx-bf16"), noinline)) static float
bf16Tiles(int64_t rounds) {
  constexpr size_t side = 16;
  struct alignas(64) {
    uint8_t palette = 1, reserved[15] = {};
    uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } shape;
  _tile_loadconfig(&shape);
  alignas(64) float memory[side * side] = {};
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, memory, 64);
  _tile_loadd(5, memory, 64);
  for (int64_t round = 0; round < rounds; ++round) {
    static_assert(chains == 12);
#define SEXTANT_FOUR_PRODUCTS                                                  \
  _tile_dpbf16ps(0, 4, 5);                                                     \
  _tile_dpbf16ps(1, 4, 5);                                                     \
  _tile_dpbf16ps(2, 4, 5);                                                     \
  _tile_dpbf16ps(3, 4, 5);
    SEXTANT_FOUR_PRODUCTS
    SEXTANT_FOUR_PRODUCTS
    SEXTANT_FOUR_PRODUCTS
#undef SEXTANT_FOUR_PRODUCTS
  }
  _tile_stored(0, memory, 64);
  _tile_release();
  return memory[0];
}

bool sextant::codegen::hasUnit(Unit unit) {
  __builtin_cpu_init();
  switch (unit) {
  case Unit::MultiplyAdd256:
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  case Unit::MultiplyAdd512:
    return __builtin_cpu_supports("avx512f");
  case Unit::Bf16Dot512:
    return __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512bf16");
  case Unit::Bf16Tiles:
    return runtime::hasCpuFeature("amx-bf16");
  }
  return false;
}

static RunUnit getRun(Unit unit) {
  switch (unit) {
  case Unit::MultiplyAdd256:
    return multiplyAdd256;
  case Unit::MultiplyAdd512:
    return multiplyAdd512;
  case Unit::Bf16Dot512:
    return bf16Dot512;
  case Unit::Bf16Tiles:
    return bf16Tiles;
  }
  return nullptr;
}
#else
bool sextant::codegen::hasUnit(Unit) { return false; }
static RunUnit getRun(Unit) { return nullptr; }
#endif

/// Floating-point operations of `rounds` on a unit.
static double countFlops(Unit unit, int64_t rounds) {
  double perInstruction = unit == Unit::MultiplyAdd256   ? 2.0 * 8
                          : unit == Unit::MultiplyAdd512 ? 2.0 * 16
                          : unit == Unit::Bf16Dot512     ? 2.0 * 32
                                                         : 2.0 * 32 * 16 * 16;
  return perInstruction * chains * static_cast<double>(rounds);
}

UnitRates sextant::codegen::probeUnits() {
  // A call takes 10 to 50 us: less than a share of the processor's time, more
  // than the clock's error. Units take turns, so that a frequency that rises
  // meanwhile favours none.
  constexpr int turns = 15;
  UnitRates rates = {};
  volatile float sink = 0.0f;
  for (int turn = 0; turn < turns; ++turn) {
    for (Unit unit : allUnits) {
      if (!hasUnit(unit))
        continue;
      int64_t rounds = unit == Unit::Bf16Tiles ? 256 : 4096;
      double begin = now();
      sink = sink + getRun(unit)(rounds);
      double &rate = rates[static_cast<size_t>(unit)];
      rate = std::max(rate, countFlops(unit, rounds) / (now() - begin));
    }
  }
  return rates;
}

//===----------------------------------------------------------------------===//
// All threads together
//===----------------------------------------------------------------------===//

/// The sum of all threads' median rates: each calls `work`, which takes about a
/// millisecond and does `amount`, over and over at the same time.
static double measureRate(int64_t threads, size_t calls, double amount,
                          const std::function<void(int64_t)> &work) {
  std::vector<std::vector<double>> seconds(static_cast<size_t>(threads),
                                           std::vector<double>(calls));
  auto measure = [&](int64_t thread) {
    for (double &call : seconds[static_cast<size_t>(thread)]) {
      double begin = now();
      work(thread);
      call = now() - begin;
    }
  };
  std::vector<std::thread> others;
  for (int64_t thread = 1; thread < threads; ++thread)
    others.emplace_back(measure, thread);
  measure(0);
  for (std::thread &other : others)
    other.join();
  double rate = 0.0;
  for (std::vector<double> &mine : seconds) {
    auto middle = mine.begin() + static_cast<ptrdiff_t>(calls / 2);
    std::nth_element(mine.begin(), middle, mine.end());
    rate += amount / *middle;
  }
  return rate;
}

double sextant::codegen::measureFlops(Unit unit, int64_t threads,
                                      size_t calls) {
  if (!hasUnit(unit))
    return 0.0;
  // A product of tiles takes as long as 16 rows of a vector's do.
  int64_t rounds = unit == Unit::Bf16Tiles ? 1 << 14 : 1 << 18;
  std::vector<float> sinks(static_cast<size_t>(threads));
  return measureRate(
      threads, calls, countFlops(unit, rounds), [&](int64_t thread) {
        sinks[static_cast<size_t>(thread)] = getRun(unit)(rounds);
      });
}

double sextant::codegen::measureBytes(int64_t threads) {
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
  constexpr size_t calls = 101;
  return measureRate(threads, calls, amount, [&](int64_t thread) {
    Walk &walk = walks[static_cast<size_t>(thread)];
    const uint64_t *begin = walk.memory.data() + walk.piece * (words / pieces);
    for (size_t i = 0; i < words / pieces; ++i)
      walk.sum += begin[i];
    walk.piece = (walk.piece + 1) % pieces;
  });
}

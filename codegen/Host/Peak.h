//===- Peak.h - What this machine can do at most ----------------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_HOST_PEAK_H
#define SEXTANT_CODEGEN_HOST_PEAK_H

#include <array>
#include <cstdint>

namespace sextant::codegen {

/// What a kernel's products run on.
enum class Unit {
  MultiplyAdd256, ///< fused multiply-adds of f32 in vectors of 256 bits
  MultiplyAdd512, ///< the same in vectors of 512 bits
  Bf16Dot512,     ///< f32 += pair of bf16 times pair of bf16, 512 bits
  Bf16Tiles,      ///< the same of tiles of 16 by 16 pairs
};

inline constexpr std::array<Unit, 4> allUnits = {
    Unit::MultiplyAdd256, Unit::MultiplyAdd512, Unit::Bf16Dot512,
    Unit::Bf16Tiles};

/// "f32 multiply-adds, 512 bits"
const char *getName(Unit unit);

/// Whether this processor, and its operating system, run it.
bool hasUnit(Unit unit);

/// FLOP/s of one thread, per unit; 0 where the processor lacks it.
using UnitRates = std::array<double, allUnits.size()>;

/// The best of short calls of the units in turn, a millisecond in all: enough
/// to tell which is faster, also while other programs run.
UnitRates probeUnits();

/// FLOP/s of all `threads` together on one unit, the median of some calls that
/// take half a millisecond each; 0 where the processor lacks it.
double measureFlops(Unit unit, int64_t threads, size_t calls = 101);

/// Bytes per second that all `threads` together read from memory.
double measureBytes(int64_t threads);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_HOST_PEAK_H

//===- Machine.h - What is known of this machine ----------------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_DRIVER_MACHINE_H
#define SEXTANT_CODEGEN_DRIVER_MACHINE_H

#include "codegen/Host/Peak.h"
#include "llvm/Support/Error.h"
#include <string>

namespace sextant::codegen {

/// Bytes of the data caches that one core sees; 0 where the system does not
/// say.
struct CacheSizes {
  int64_t l1, l2, l3;
};

CacheSizes getCacheSizes();

/// What `sextant-prof --machine` prints and the benchmark's head states.
struct Machine {
  std::string processor;
  CacheSizes caches;
  int64_t threads;
  UnitRates peaks;    ///< FLOP/s of all threads together, measured now
  double bytes;       ///< per second from memory, measured now
  UnitRates probed;   ///< what the choice follows, of one thread
  std::string record; ///< where `probed` is kept, empty if nowhere
  std::string f32, longF32, bf16; ///< the targets that `cpu` means
};

/// Measures for a fraction of a second. An error where `cpu` means no target.
llvm::Expected<Machine> describeMachine(int64_t threads);

std::string formatTable(const Machine &machine);

/// {"processor", "threads", "l1", "l2", "l3", "peak_f32", "peak_bf16" (that of
/// dot products, 0 without), "peak_tiles" (likewise), "peak_bytes",
/// "units": {name: {"probed", "peak"}}, "record", "f32", "long_f32",
/// "bf16"}
std::string formatJson(const Machine &machine);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_DRIVER_MACHINE_H

//===- Machine.cpp - What is known of this machine ------------------------===//

#include "codegen/Driver/Machine.h"
#include "codegen/Artifact/PrivateFiles.h"
#include "codegen/Driver/TargetChoice.h"
#include "codegen/Host/UnitRecord.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include <unistd.h>

using namespace sextant::codegen;

CacheSizes sextant::codegen::getCacheSizes() {
  auto read = [](int name) -> int64_t {
    long size = ::sysconf(name);
    return size > 0 ? size : 0;
  };
  return {read(_SC_LEVEL1_DCACHE_SIZE), read(_SC_LEVEL2_CACHE_SIZE),
          read(_SC_LEVEL3_CACHE_SIZE)};
}

llvm::Expected<Machine> sextant::codegen::describeMachine(int64_t threads) {
  llvm::Expected<Target> f32 = parseTarget("cpu", RowType::F32);
  if (!f32)
    return f32.takeError();
  llvm::Expected<Target> longF32 = parseTarget("cpu", RowType::LongF32);
  if (!longF32)
    return longF32.takeError();
  llvm::Expected<Target> bf16 = parseTarget("cpu", RowType::BF16);
  if (!bf16)
    return bf16.takeError();
  Machine machine;
  machine.processor = getProcessorName();
  machine.caches = getCacheSizes();
  machine.threads = threads;
  for (Unit unit : allUnits)
    machine.peaks[static_cast<size_t>(unit)] = measureFlops(unit, threads);
  machine.bytes = measureBytes(threads);
  machine.probed = getUnitRates();
  machine.record = getRecordPath(getCacheFolder());
  if (::access(machine.record.c_str(), R_OK))
    machine.record.clear();
  machine.f32 = f32->name;
  machine.longF32 = longF32->name;
  machine.bf16 = bf16->name;
  return machine;
}

static double getRate(const UnitRates &rates, Unit unit) {
  return rates[static_cast<size_t>(unit)];
}

static double getPeakF32(const Machine &machine) {
  return std::max(getRate(machine.peaks, Unit::MultiplyAdd256),
                  getRate(machine.peaks, Unit::MultiplyAdd512));
}

static std::string formatSize(int64_t bytes) {
  if (bytes == 0)
    return "unknown";
  if (bytes < 1 << 20)
    return llvm::formatv("{0} KiB", bytes >> 10);
  return llvm::formatv("{0:f1} MiB", static_cast<double>(bytes) / (1 << 20));
}

std::string sextant::codegen::formatTable(const Machine &machine) {
  std::string text = llvm::formatv(
      "{0}; {1} threads\ncaches of a core: L1 {2}, L2 {3}, L3 {4}\n\n"
      "{5,-30} {6,14} {7,14}\n",
      machine.processor, machine.threads, formatSize(machine.caches.l1),
      formatSize(machine.caches.l2), formatSize(machine.caches.l3), "GFLOP/s",
      "all threads", "probe of one");
  for (Unit unit : allUnits)
    text += llvm::formatv(
        "{0,-30} {1,14} {2,14}\n", getName(unit),
        hasUnit(unit)
            ? llvm::formatv("{0:f0}", getRate(machine.peaks, unit) * 1e-9).str()
            : "-",
        hasUnit(unit)
            ? llvm::formatv("{0:f0}", getRate(machine.probed, unit) * 1e-9)
                  .str()
            : "-");
  text += llvm::formatv("memory: {0:f1} GB/s of all threads\n\n"
                        "target cpu: {1} for f32, {2} for f32 from {3} queries "
                        "on, {4} for bf16\n",
                        machine.bytes * 1e-9, machine.f32, machine.longF32,
                        leastLongRows, machine.bf16);
  if (!machine.record.empty())
    text += "the probe is kept in " + machine.record + "\n";
  return text;
}

std::string sextant::codegen::formatJson(const Machine &machine) {
  llvm::json::Object units;
  for (Unit unit : allUnits)
    units[getName(unit)] =
        llvm::json::Object{{"peak", getRate(machine.peaks, unit)},
                           {"probed", getRate(machine.probed, unit)}};
  llvm::json::Object object{
      {"processor", machine.processor},
      {"threads", machine.threads},
      {"l1", machine.caches.l1},
      {"l2", machine.caches.l2},
      {"l3", machine.caches.l3},
      {"peak_f32", getPeakF32(machine)},
      {"peak_bf16", getRate(machine.peaks, Unit::Bf16Dot512)},
      {"peak_tiles", getRate(machine.peaks, Unit::Bf16Tiles)},
      {"peak_bytes", machine.bytes},
      {"units", std::move(units)},
      {"record", machine.record},
      {"f32", machine.f32},
      {"long_f32", machine.longF32},
      {"bf16", machine.bf16}};
  return llvm::formatv("{0:2}\n", llvm::json::Value(std::move(object)));
}

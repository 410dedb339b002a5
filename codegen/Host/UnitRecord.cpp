//===- UnitRecord.cpp - Measured rates, kept between processes ------------===//
//
// A JSON file beside the compiled artifacts. Which unit is faster does not
// change, but a probe on a busy machine is a measurement: a kept one makes all
// processes choose alike.
//
//===----------------------------------------------------------------------===//

#include "codegen/Host/UnitRecord.h"
#include "codegen/Artifact/PrivateFiles.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include "llvm/TargetParser/Host.h"
#include <cmath>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

using namespace sextant::codegen;

/// Names of rates in a record, in the order of units. A unit that is measured
/// in another way gets another name, so that older records do not count.
static constexpr llvm::StringLiteral keys[] = {
    "multiply_add_256", "multiply_add_512", "bf16_dot_512", "bf16_tiles"};
static_assert(std::size(keys) == allUnits.size());

std::string sextant::codegen::getProcessorName() {
#if defined(__x86_64__)
  unsigned words[12], eax, ebx, ecx, edx;
  bool hasBrand = true;
  for (unsigned i = 0; i < 3; ++i)
    hasBrand &= __get_cpuid(0x80000002 + i, &words[4 * i], &words[4 * i + 1],
                            &words[4 * i + 2], &words[4 * i + 3]) != 0;
  if (hasBrand && __get_cpuid(1, &eax, &ebx, &ecx, &edx)) {
    unsigned family = (eax >> 8) & 0xf, model = (eax >> 4) & 0xf;
    if (family == 6 || family == 15)
      model += ((eax >> 16) & 0xf) << 4;
    if (family == 15)
      family += (eax >> 20) & 0xff;
    llvm::StringRef brand(reinterpret_cast<const char *>(words), sizeof(words));
    brand = brand.take_until([](char c) { return c == 0; }).trim();
    return (brand + ", family " + llvm::Twine(family) + ", model " +
            llvm::Twine(model) + ", stepping " + llvm::Twine(eax & 0xf))
        .str();
  }
#endif
  return llvm::sys::getHostCPUName().str();
}

std::string sextant::codegen::getRecordPath(const std::string &folder) {
  if (folder.empty())
    return "";
  std::string name = "machine-";
  for (char c : getProcessorName())
    if (llvm::isAlnum(c))
      name += llvm::toLower(c);
    else if (name.back() != '-')
      name += '-';
  return folder + "/" + name + ".json";
}

/// The rates of a record that has one for every unit of this processor, and for
/// no other.
static std::optional<UnitRates> parse(llvm::StringRef text) {
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  if (!value) {
    llvm::consumeError(value.takeError());
    return std::nullopt;
  }
  const llvm::json::Object *object = value->getAsObject();
  if (!object || object->getString("processor") != getProcessorName())
    return std::nullopt;
  UnitRates rates = {};
  for (Unit unit : allUnits) {
    size_t number = static_cast<size_t>(unit);
    std::optional<double> rate = object->getNumber(keys[number]);
    if (!rate || !std::isfinite(*rate) || *rate < 0 ||
        (*rate > 0) != hasUnit(unit))
      return std::nullopt;
    rates[number] = *rate;
  }
  return rates;
}

UnitRates sextant::codegen::readOrProbeUnits(const std::string &folder) {
  constexpr uint64_t limit = 4096; // bytes: a record has some hundred
  bool usable = makePrivateFolder(folder);
  std::string file = getRecordPath(folder);
  if (usable)
    if (std::optional<std::string> text = readPrivateFile(file, limit))
      if (std::optional<UnitRates> rates = parse(*text))
        return *rates;
  UnitRates rates = probeUnits();
  if (usable) {
    llvm::json::Object object{{"processor", getProcessorName()}};
    for (Unit unit : allUnits)
      object[keys[static_cast<size_t>(unit)]] =
          rates[static_cast<size_t>(unit)];
    std::string text =
        llvm::formatv("{0:2}\n", llvm::json::Value(std::move(object)));
    (void)writePrivateFile(folder, llvm::sys::path::filename(file), text);
  }
  return rates;
}

const UnitRates &sextant::codegen::getUnitRates() {
  static const UnitRates rates = readOrProbeUnits(getCacheFolder());
  return rates;
}

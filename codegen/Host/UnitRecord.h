//===- UnitRecord.h - Measured rates, kept between processes ----*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_HOST_UNITRECORD_H
#define SEXTANT_CODEGEN_HOST_UNITRECORD_H

#include "codegen/Host/Peak.h"
#include <string>

namespace sextant::codegen {

/// "Intel(R) Xeon(R) Processor, family 6, model 167, stepping 8": what the
/// record is kept under. Where the processor does not say, LLVM's name of it.
std::string getProcessorName();

/// Where the record of this processor lies in `folder`; empty without one.
std::string getRecordPath(const std::string &folder);

/// The rates of this processor as `folder` has them; measured, and kept there
/// if it can be written, where it has none or a damaged one.
UnitRates readOrProbeUnits(const std::string &folder);

/// The same of the user's cache, once for each process.
const UnitRates &getUnitRates();

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_HOST_UNITRECORD_H

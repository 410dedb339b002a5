//===- ElfCheck.h - Whether the loader can map a shared object --*- C++ -*-===//
//
// The system's loader trusts the file that it maps. This check comes first, so
// that a damaged artifact is an error and no crash.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_ELFCHECK_H
#define SEXTANT_RUNTIME_ELFCHECK_H

#include "runtime/Result.h"
#include <cstdint>
#include <span>

namespace sextant::runtime {

/// Whether `code` is a shared object as the compiler links them, whose parts
/// all lie inside of it. The system's loader trusts a file: one that is cut
/// short or damaged crashes it. Machine code itself is not looked at.
Status checkElf(std::span<const uint8_t> code);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_ELFCHECK_H

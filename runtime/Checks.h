//===- Checks.h - Checks that users ask for by name -------------*- C++ -*-===//
//
// The variable SEXTANT_CHECK names them, separated by commas: `reads`, which
// the compiler writes into programs, `launches`, for which it keeps launches
// apart that it would make one, `scratch`, for which the host fills what
// launches work in and leave for each other, `races`, `memory` and `banks`,
// which the emulator does, and `now`, for which a GPU is waited for after each
// launch and each check of data, outside of captures.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_CHECKS_H
#define SEXTANT_RUNTIME_CHECKS_H

#include <string_view>
#include <vector>

namespace sextant::runtime {

/// What SEXTANT_CHECK names, known or not. Texts of the environment: good until
/// it changes.
std::vector<std::string_view> getRequestedChecks();

/// Whether it names this one.
bool isCheckRequested(std::string_view check);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_CHECKS_H

//===- TableReads.h - Where a model reads tables ----------------*- C++ -*-===//
//
// Payloads index tables. This function lists the places where an index may lie
// outside, for the message of a comparison that fails.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_TOOLS_SUPPORT_TABLEREADS_H
#define SEXTANT_TOOLS_SUPPORT_TABLEREADS_H

#include "codegen/Driver/Compile.h"
#include <string>
#include <vector>

namespace sextant::tools {

/// The ops of a model's encodings whose index may be outside of a table, as
/// "FILE:LINE:COLUMN: 'op'", in their order; without reads that are inside by
/// their form (of a head, of a batch element, of what a sum runs over). Nothing
/// for a model that cannot be compiled.
std::vector<std::string> findTableReads(const std::string &path,
                                        const codegen::CompileOptions &options);

} // namespace sextant::tools

#endif // SEXTANT_TOOLS_SUPPORT_TABLEREADS_H

//===- NearestNames.h - Suggestions for a name that is unknown --*- C++ -*-===//
//
// An error about an unknown name lists the names that are most like it.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_ENCODING_NEARESTNAMES_H
#define SEXTANT_PASSES_ENCODING_NEARESTNAMES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace sextant::passes {

/// The three names of `known` with the least edit distance to `name`, as text
/// that follows a message: "; the nearest are 'a', 'b'", or "; there is none".
std::string nearestNames(llvm::StringRef name,
                         llvm::ArrayRef<std::string> known);

} // namespace sextant::passes

#endif // SEXTANT_PASSES_ENCODING_NEARESTNAMES_H

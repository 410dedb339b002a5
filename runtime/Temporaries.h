//===- Temporaries.h - Tensors that launches alone use ----------*- C++ -*-===//
//
// What one launch of a run leaves for another, such as the copies of dQ that a
// backward adds up. A device may take their memory from where it likes: neither
// the caller nor an operator of another library meets it.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_TEMPORARIES_H
#define SEXTANT_RUNTIME_TEMPORARIES_H

#include "runtime/ArtifactReader.h"

namespace sextant::runtime {

/// Per tensor of a function, whether an `exec.alloc` makes it that only
/// launches use, itself and through views: it is no result, nor does a dense
/// operator see it.
std::vector<bool> findTemporaries(const Function &function);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_TEMPORARIES_H

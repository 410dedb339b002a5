//===- ScratchLayout.h - Scratch memory of a kernel -------------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_EMIT_SCRATCHLAYOUT_H
#define SEXTANT_CODEGEN_EMIT_SCRATCHLAYOUT_H

#include "llvm/Support/MathExtras.h"
#include <cstdint>

namespace sextant::codegen {

/// Scratch memory of a work item, handed out while the kernel is emitted.
class ScratchLayout {
public:
  /// Gives the first of `elements` f32, aligned to 64 bytes.
  int64_t reserve(int64_t elements) {
    int64_t first = end;
    end += llvm::alignTo(elements, 16);
    return first;
  }
  int64_t getBytes() const { return 4 * end; }

private:
  int64_t end = 0;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_EMIT_SCRATCHLAYOUT_H

//===- Prefetch.h - Hints of what is read soon ------------------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CPU_PREFETCH_H
#define SEXTANT_CODEGEN_CPU_PREFETCH_H

#include "codegen/KernelBuilder.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace sextant::codegen {

/// To which cache a hint brings a line.
enum class CacheLevel : uint32_t { second = 2, first = 3 };

/// Asks for `words` f32 from `pointer` on. The memory need not exist.
inline void emitPrefetch(KernelBuilder &kernel, mlir::Value pointer,
                         int64_t words, CacheLevel level) {
  constexpr int64_t line = 16;
  for (int64_t word = 0; word < words; word += line)
    mlir::LLVM::Prefetch::create(kernel.builder, kernel.loc,
                                 kernel.advance(pointer, {word}), /*rw=*/0,
                                 static_cast<uint32_t>(level), /*cache=*/1);
}

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_PREFETCH_H

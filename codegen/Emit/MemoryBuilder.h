//===- MemoryBuilder.h - Loads and stores of kernels ------------*- C++ -*-===//
//
// The layer of KernelBuilder for memory: addresses, loads and stores of scalars
// and vectors, parts of vectors, prefetches.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_EMIT_MEMORYBUILDER_H
#define SEXTANT_CODEGEN_EMIT_MEMORYBUILDER_H

#include "codegen/Emit/VectorBuilder.h"

namespace sextant::codegen {

/// The cache that a prefetch brings a line to; the values are LLVM's
/// localities. The first has no room to spare but for what is read next.
enum class CacheLevel : uint32_t { Second = 2, First = 3 };

/// f32 of a line of cache.
constexpr int64_t cacheLine = 16;

/// Writes accesses to memory; elements are aligned to their size, no more.
class MemoryBuilder : public VectorBuilder {
public:
  MemoryBuilder(mlir::OpBuilder &builder, mlir::Location loc,
                mlir::Block &entry, int64_t width);

  mlir::Type pointer;

  /// `base` advanced by the sum of `offsets`, in elements of `type` (f32 by
  /// default). Constants are added last and become displacements.
  mlir::Value advance(mlir::Value base, llvm::ArrayRef<Index> offsets,
                      mlir::Type type = nullptr);
  mlir::Value load(mlir::Type type, mlir::Value pointer);
  void store(mlir::Value value, mlir::Value pointer);
  /// f32 scalars and vectors at `base` plus the sum of `offsets`.
  mlir::Value loadF32(mlir::Value base, llvm::ArrayRef<Index> offsets = {});
  mlir::Value loadVector(mlir::Value base, llvm::ArrayRef<Index> offsets = {});
  void storeVector(mlir::Value vector, mlir::Value base,
                   llvm::ArrayRef<Index> offsets = {});
  /// A scalar of memory in all lanes.
  mlir::Value loadBroadcast(mlir::Value base,
                            llvm::ArrayRef<Index> offsets = {});
  /// Asks for the lines of `words` f32 from base plus the sum of `offsets` on,
  /// which may lie outside the memory of `base`.
  void prefetch(mlir::Value base, llvm::ArrayRef<Index> offsets,
                int64_t words = 1, CacheLevel level = CacheLevel::Second);
  /// The first `count` (1 to width) lanes only; the others are zero.
  mlir::Value loadPart(mlir::VectorType type, mlir::Value pointer, Index count);
  void storePart(mlir::Value vector, mlir::Value pointer, Index count);
  /// base[indices], element by element; `indices` is a vector of i32.
  mlir::Value gather(mlir::Type element, mlir::Value base, mlir::Value indices);
  /// base[indices] = vector, element by element.
  void scatter(mlir::Value vector, mlir::Value base, mlir::Value indices);

  // What threads tell each other, in i64. Who loads a number sees all that was
  // written before it was stored.

  mlir::Value loadAcquired(mlir::Value pointer);
  void storeReleased(mlir::Value number, mlir::Value pointer);
  /// Adds 1 to the number at `pointer`; gives what it was.
  mlir::Value countUp(mlir::Value pointer);

  /// Adds a number in f64, or of f32 to be widened, to the number or vector of
  /// f64 at `pointer`.
  void addToF64(mlir::Value pointer, mlir::Value addend);
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_EMIT_MEMORYBUILDER_H

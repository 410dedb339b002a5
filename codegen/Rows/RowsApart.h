//===- RowsApart.h - Rows of heads in other sets of a cache -----*- C++ -*-===//
//
// A kernel of all heads reads the same rows of all of them at once. Where heads
// lie a power of two of bytes apart, as those of sequences of such a length do,
// these rows share a few sets of the second cache and push each other out of
// it. Those of as many heads as a set has room for stay in place; of the others
// there is a copy, made once, with heads that lie in sets of their own.
//
// Whether heads share sets is known when a kernel runs. Rows that stay in the
// cache anyway have no copy: it is known from the sizes, and takes no memory.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_ROWS_ROWSAPART_H
#define SEXTANT_CODEGEN_ROWS_ROWSAPART_H

#include "codegen/Emit/KernelFunction.h"
#include "codegen/Emit/Lowering.h"
#include "codegen/Tiles/CacheTraffic.h"

namespace sextant::codegen {

/// Rows [B, H, L, dim] of f32 and their copy, numbers of a kernel.
struct RowsApart {
  /// Heads of which rows stay in place in the same sets.
  static constexpr int64_t mostInPlace = 2;

  /// Whether rows of a head are those of the copy.
  mlir::Value areCopied(KernelBuilder &kernel, ArgumentBlock &arguments,
                        Index head) const;

  unsigned rows, copy;
};

/// Rows of a head, a multiple of `unit` and at least as many, such that those
/// of the next one lie in other sets: an even number of `unit` would put them
/// where those of the head before are.
mlir::Value padApart(const Lowering &lowering, mlir::Value rows, int64_t unit);

/// Copies `rows` [B, H, L, dim] of f32 to rows of `row` words, of which there
/// are `padded`, a multiple of `block`, or none where the rows that pass,
/// `words` words for each row of a head, fit the second cache anyway. Those
/// past the end repeat the last one.
mlir::Value launchRowsApart(const Lowering &lowering, llvm::StringRef suffix,
                            mlir::Value rows, mlir::Value padded, int64_t block,
                            int64_t row, int64_t words);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_ROWSAPART_H

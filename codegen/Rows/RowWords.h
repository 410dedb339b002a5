//===- RowWords.h - Rows read as words, several at a time -------*- C++ -*-===//
//
// For targets whose loads wait for memory: a lane takes several elements of a
// row at once, as one word, and where a row has fewer words than a vector has
// lanes, a vector takes a word each of several rows.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_ROWS_ROWWORDS_H
#define SEXTANT_CODEGEN_ROWS_ROWWORDS_H

#include "codegen/Emit/KernelFunction.h"

namespace sextant::codegen {

/// How rows of `dim` elements that follow each other are words.
struct RowWords {
  mlir::Type element;
  int64_t bits = 0;    ///< of a word
  int64_t words = 0;   ///< of a row
  int64_t lanes = 0;   ///< of a vector that share a row, a power of two
  int64_t vectors = 0; ///< that a row takes

  /// The largest words that a lane loads at once, if a row is a whole number of
  /// such; null where it is of none.
  static std::optional<RowWords> find(const VectorTarget &target,
                                      mlir::Type element, int64_t dim,
                                      int64_t mostBits = 128);

  int64_t countElements() const {
    return bits / element.getIntOrFloatBitWidth();
  }

  /// Whether the rows of the tensor [B, H, L, dim] lie so in memory, at
  /// addresses of whole words; an i1.
  mlir::Value areIn(KernelBuilder &kernel, ArgumentBlock &arguments,
                    unsigned tensor) const;
  /// How many words apart rows of the tensor are along an axis, in each lane
  /// (i32).
  mlir::Value getStride(KernelBuilder &kernel, ArgumentBlock &arguments,
                        unsigned tensor, unsigned axis) const;
  /// The words at `places` (i32, in words) behind `base`.
  mlir::Value load(KernelBuilder &kernel, mlir::Value base,
                   mlir::Value places) const;
  /// Stores words at places where `condition` holds.
  void store(KernelBuilder &kernel, mlir::Value words, mlir::Value base,
             mlir::Value places, mlir::Value condition) const;
  /// Their elements as vectors of f32, and back.
  KernelBuilder::Values unpack(KernelBuilder &kernel, mlir::Value words) const;
  mlir::Value pack(KernelBuilder &kernel, mlir::ValueRange elements) const;
};

/// A vector of bf16 or f16 as f32. Of bf16 by its bits, which takes a GPU less
/// than a conversion.
mlir::Value extendLanes(KernelBuilder &kernel, mlir::Value vector);

// Arithmetic of vectors of i32, with a constant.
mlir::Value addLanes(KernelBuilder &kernel, mlir::Value a, mlir::Value b);
mlir::Value mulLanes(KernelBuilder &kernel, mlir::Value a, mlir::Value b);
mlir::Value minLanes(KernelBuilder &kernel, mlir::Value a, mlir::Value b);
/// Quotient and remainder of numbers that are not negative.
mlir::Value divLanes(KernelBuilder &kernel, mlir::Value a, int64_t by);
mlir::Value remLanes(KernelBuilder &kernel, mlir::Value a, int64_t by);

/// Lane l of the result: the sum of vector `l modulo their number` over the
/// `lanes` neighbours of which l is one. There are a power of two of vectors,
/// at most `lanes`; the sums share their shuffles.
mlir::Value sumGroups(KernelBuilder &kernel, mlir::ValueRange vectors,
                      int64_t lanes);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_ROWWORDS_H

//===- AllHeadsWeights.h - Packed parameters of all-heads payloads --------===//
//
// Matrices and vectors that payloads of all heads multiply with, in the order
// in which kernels read them: one launch copies them into one buffer, so that a
// weight is a broadcast from contiguous memory.
//
// A product y = M x either keeps x in registers and makes a group of elements
// of y at a time, or keeps y in registers and takes a group of elements of x at
// a time; the streamed axis is outermost:
//
//   results streamed:  [rows / group][columns][group]
//   operands streamed: [columns][rows]
//
// The pullback x' = M^T y' is such a product as well, with a copy of its own.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_TABLES_ALLHEADSWEIGHTS_H
#define SEXTANT_CODEGEN_TABLES_ALLHEADSWEIGHTS_H

#include "codegen/Emit/Lowering.h"

namespace sextant::codegen {

/// A matrix as it is packed for one product.
struct PackedMatrix {
  int64_t place = 0; ///< in the buffer, f32
  int64_t rows = 0, columns = 0;
  bool streamsResults = false;
};

/// The extent of a vector in a payload; inlining has made it static.
int64_t getVectorExtent(mlir::Value vector);

/// The first column that a contraction uses.
int64_t getFirstColumn(pos::ContractOp op);

/// Rows of a hoisted value's buffer at one point, of so many heads.
int64_t countRowsOfPoint(const Hoisted &hoisted, int64_t heads);

/// Elements of an axis that are streamed at a time: a divisor of the extent,
/// of about four, for as many independent chains.
int64_t getGroup(int64_t extent);

/// The weights of a score of all heads, and where each lies in their buffer.
class AllHeadsWeights {
public:
  /// Collects what the score payload and the hoisted vectors of the plan use.
  /// `heads`: a vector of this extent is kept in registers.
  AllHeadsWeights(const KernelPlan &plan, int64_t heads);

  int64_t getHeads() const { return heads; }
  bool isStreamed(mlir::Value vector) const {
    return getVectorExtent(vector) != heads;
  }
  const PackedMatrix &getForward(pos::ContractOp op) const;
  const PackedMatrix &getPullback(pos::ContractOp op) const;
  /// The place of a parameter's elements.
  int64_t getPlace(pos::ElementsOp op) const;
  int64_t getSize() const { return size; }

  /// Fills a buffer [size] x f32.
  mlir::Value launch(const Lowering &lowering) const;

private:
  struct Contraction {
    pos::ContractOp op;
    PackedMatrix forward, pullback;
  };
  int64_t reserve(int64_t elements);

  int64_t heads = 0, size = 0;
  llvm::SmallVector<Contraction> contractions;
  llvm::SmallVector<std::pair<pos::ElementsOp, int64_t>> vectors;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TABLES_ALLHEADSWEIGHTS_H

//===- TileReads.h - What tiles read of parameters themselves ---*- C++ -*-===//
//
// A score payload may read elements of a parameter that are in no table, such
// as a bias of its own for each pair of query and key. Their gradients are
// added to memory, of which items have parts of their own unless it follows
// from the indices that they add to separate elements.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_PLAN_TILEREADS_H
#define SEXTANT_CODEGEN_PLAN_TILEREADS_H

#include "dialects/Pos/IR/Pos.h"
#include <optional>

namespace sextant::codegen {

struct KernelPlan;

/// Which elements of a parameter tiles read, and when. Dimensions are those
/// that all reads of a parameter of the score payload index by the same: none
/// where one does not, and for other parameters.
struct TileReads {
  enum When {
    never,
    rarely, ///< in values over offsets, which have a table in most calls
    always, ///< in the score payload
  };
  using Dim = std::optional<unsigned>;

  When when = never;
  Dim batchDim, headDim, queryDim, keyDim;
  /// The keys' is the last one.
  bool alongKeys = false;

  /// Whether scores of separate pairs of query and key read separate elements.
  bool areOfPairs() const { return queryDim && keyDim; }
};

TileReads getTileReads(const KernelPlan &plan, mlir::BlockArgument param);

/// The first dimension that all reads of a parameter, one at least, index by
/// what `isSuch`. Where that differs, so do the elements: of reads that have it
/// in several dimensions one may meet what another reads elsewhere.
TileReads::Dim findDim(llvm::ArrayRef<pos::ReadOp> reads,
                       llvm::function_ref<bool(mlir::Value)> isSuch);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_PLAN_TILEREADS_H

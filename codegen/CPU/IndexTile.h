//===- IndexTile.h - Bounds of a tile of scores -----------------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CPU_INDEXTILE_H
#define SEXTANT_CODEGEN_CPU_INDEXTILE_H

#include "codegen/KernelBuilder.h"
#include "dialects/Pos/IR/SitePoint.h"

namespace sextant::codegen {

/// Consecutive query and key indices of one head. Coordinates are indices, or
/// unknown where positions are given.
class IndexTile : public pos::TileBounds {
public:
  /// First and last index of each side, both included. The head and the
  /// extents are those of `point`.
  IndexTile(KernelBuilder &kernel, pos::SitePoint &point, bool hasPositions,
            Index firstQuery, Index lastQuery, Index firstKey, Index lastKey)
      : kernel(kernel), point(point), hasPositions(hasPositions),
        query{firstQuery, lastQuery}, key{firstKey, lastKey} {}

  pos::ValueRange32 index(mlir::OpBuilder &, pos::Side side) override {
    std::pair<Index, Index> &range = side == pos::Side::key ? key : query;
    return {kernel.toI32(range.first), kernel.toI32(range.second)};
  }
  pos::ValueRange32 coord(mlir::OpBuilder &builder, pos::Side side,
                          int64_t) override {
    return hasPositions ? pos::ValueRange32() : index(builder, side);
  }
  mlir::Value head(mlir::OpBuilder &builder) override {
    return point.head(builder);
  }
  mlir::Value batch(mlir::OpBuilder &builder) override {
    return point.batch(builder);
  }
  mlir::Value extent(mlir::OpBuilder &builder, pos::Extent extent) override {
    return point.extent(builder, extent);
  }

private:
  KernelBuilder &kernel;
  pos::SitePoint &point;
  bool hasPositions;
  std::pair<Index, Index> query, key;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_INDEXTILE_H

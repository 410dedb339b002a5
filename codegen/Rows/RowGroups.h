//===- RowGroups.h - A vector of groups of lanes of a row -------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_ROWS_ROWGROUPS_H
#define SEXTANT_CODEGEN_ROWS_ROWGROUPS_H

#include "codegen/Emit/KernelBuilder.h"
#include "codegen/Plan/KernelPlan.h"

namespace sextant::codegen {

/// The groups group .. group + width - 1 of a row map, as far as they exist:
/// one or two vectors of lanes (C6).
class RowGroups {
public:
  RowGroups(KernelBuilder &kernel, const RowMap &map, int64_t group)
      : kernel(kernel), map(map), group(group) {}

  /// One vector per value of a group, from a row of f32. Lanes past the last
  /// group are zero.
  KernelBuilder::Values load(mlir::Value row);
  void store(mlir::ValueRange values, mlir::Value row);

  /// The same of a row in registers, [dim] padded to vectors.
  KernelBuilder::Values getFrom(mlir::ValueRange row);
  void putInto(KernelBuilder::Values &row, mlir::ValueRange values);

private:
  bool isInterleaved() const {
    return map.grouping == pos::Grouping::interleaved;
  }
  int64_t getParts() const {
    return map.grouping == pos::Grouping::single ? 1 : 2;
  }
  /// The first lane of a part, and how many lanes belong to the map.
  int64_t getLane(int64_t part) const;
  int64_t getCount(int64_t part) const;

  KernelBuilder &kernel;
  const RowMap &map;
  int64_t group;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ROWS_ROWGROUPS_H

//===- CellVector.h - One vector of a backward cell -------------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CPU_BACKWARD_CELLVECTOR_H
#define SEXTANT_CODEGEN_CPU_BACKWARD_CELLVECTOR_H

#include "codegen/CPU/Backward/BackwardLaunch.h"

namespace sextant::codegen {

/// A query row and a vector of keys of a cell, whose first row and key are rows
/// of the tensors.
struct CellVector {
  const BackwardLaunch &launch;
  const HeadPlace &place;
  Index chunk = 0, kvHead = 0; ///< of the keys
  Index part = 0, sum = 0;     ///< of the queries; see BackwardItem::getSum
  Index firstQuery = 0, firstKey = 0, row = 0, vector = 0;

  Index getQuery() const { return place.kernel.add(firstQuery, row); }
  /// Words from the first key of the cell.
  Index getLane() const {
    return place.kernel.mul(vector, place.kernel.width());
  }
  Index getKey() const { return place.kernel.add(firstKey, getLane()); }
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_BACKWARD_CELLVECTOR_H

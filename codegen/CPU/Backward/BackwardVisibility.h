//===- BackwardVisibility.h - Which scores the mask leaves ------*- C++ -*-===//
//
// Whether a rectangle of scores (a block, a cell) is computed, and with or
// without its mask, is asked of the mask's bounds.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDVISIBILITY_H
#define SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDVISIBILITY_H

#include "codegen/CPU/Backward/BackwardItem.h"
#include "codegen/CPU/Backward/BackwardPoint.h"
#include "codegen/Tiles/TileMask.h"

namespace sextant::codegen {

/// Whether all of a rectangle of scores exists and is visible, and whether some
/// of it may be.
struct Visibility {
  mlir::Value all, some;
};

/// Asks the mask at the head where `point` stands.
class BackwardVisibility {
public:
  BackwardVisibility(BackwardItem &at, BackwardPoint &point)
      : at(at), point(point),
        mask(at.kernel, at.arguments, point, at.launch.plan, at.launch.sites) {}

  /// At most `unit` rows of a side that exist; `first` is a multiple of `unit`.
  TileSide enter(pos::Side side, Index first, int64_t unit);
  /// `queryEnd` and `keyEnd` are the ends of the rectangle as it is computed,
  /// which may lie past the last row.
  Visibility classify(const TileSide &query, Index queryEnd,
                      const TileSide &key, Index keyEnd);
  /// Which lanes of the point are visible.
  mlir::Value emitLanes();

private:
  BackwardItem &at;
  BackwardPoint &point;
  TileMask mask;
};

/// Per group of rows of a block the panels that it sees: [low, high), empty
/// where low is not less than high. Products leave out what is hidden at both
/// ends.
class SeenPanels {
public:
  template <typename Ty> struct Range {
    Ty low, high;
  };

  explicit SeenPanels(BackwardItem &at);

  /// No group of the block sees a panel.
  void clear();
  /// A group sees some of a panel.
  void add(Index group, Index panel);
  Range<Index> get(Index group);
  /// The panels that some group of the block sees.
  Range<Index> getOfBlock();

private:
  Range<mlir::Value> getAddresses(Index group);

  BackwardItem &at;
  KernelBuilder &kernel = at.kernel;
  mlir::Value lowest, highest; ///< i64 per group
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_BACKWARD_BACKWARDVISIBILITY_H

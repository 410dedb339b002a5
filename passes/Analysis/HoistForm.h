//===- HoistForm.h - How a hoisted value is kept ----------------*- C++ -*-===//
//
// A hoisted value is kept in one of five forms. This table of axes and forms is
// the one place that says which values can leave a kernel's tiles.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_ANALYSIS_HOISTFORM_H
#define SEXTANT_PASSES_ANALYSIS_HOISTFORM_H

#include "dialects/Pos/IR/Pos.h"

namespace sextant::passes {

/// How kernels keep a hoisted value, by its axes.
enum class HoistForm {
  HeadScalar,   ///< {batch, head} or less: a scalar of the work item
  OffsetTable,  ///< {batch, head, offset} or less: one row per head
  QueryVector,  ///< {batch, head, query} or less
  KeyVector,    ///< {batch, head, key} or less
  RowLaneTable, ///< {batch, head, self, lane} or less: for row maps; also
                ///< {batch, head, query or key, lane}: appended columns
};

/// The form of values that vary with such axes, or nothing: values of other
/// axes are computed in tiles.
std::optional<HoistForm> getHoistForm(pos::AxisSet axes);

/// Whether a kernel keeps values of such axes outside its tiles.
inline bool isKeptOutsideTiles(pos::AxisSet axes) {
  return getHoistForm(axes).has_value();
}

llvm::StringRef stringifyHoistForm(HoistForm form);

} // namespace sextant::passes

#endif // SEXTANT_PASSES_ANALYSIS_HOISTFORM_H

//===- ScoreSite.h - Where the forward emits score payloads -----*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CPU_SCORESITE_H
#define SEXTANT_CODEGEN_CPU_SCORESITE_H

#include "codegen/CPU/KernelSite.h"

namespace sextant::codegen {

/// Points (vector of query rows, key row): lanes are queries.
class ScoreSite : public KernelSite {
public:
  /// Axes of query positions that are kept in scratch memory.
  static constexpr int64_t packedAxes = 4;

  ScoreSite(KernelBuilder &kernel, ArgumentBlock &arguments,
            const KernelPlan &plan, const SiteOperands &operands,
            int64_t vectors)
      : KernelSite(kernel, arguments, plan, operands, pos::RowOperand::query),
        vectors(vectors) {}

  /// Copies the positions of the item's queries, `count` rows from `first`, to
  /// `memory`: i32 [packedAxes][capacity]; the last row is repeated past the
  /// end.
  void packPositions(Index first, Index count, int64_t capacity,
                     mlir::Value memory);
  /// The first query row of the panel, and its place among the item's rows.
  void enterPanel(Index first, Index place);
  /// `vector` counts vectors within the panel; `row` is that of the key in its
  /// register tile.
  void setPoint(Index vector, Index key, Index row);

  mlir::Value index(mlir::OpBuilder &, pos::Side side) override;
  mlir::Value coord(mlir::OpBuilder &, pos::Side side, int64_t axis) override;

protected:
  Index getCellPlace() override;
  mlir::Value loadHoisted(const Hoisted &hoisted, unsigned table,
                          mlir::Value row) override;

private:
  /// The first row of the vector at hand.
  Index getFirst() {
    return kernel.add(first, kernel.mul(vector, kernel.width()));
  }
  /// The key, kept inside the tensor: tiles may reach past its end.
  Index getKey();

  Index first = 0, place = 0, vector = 0, key = 0, row = 0;
  int64_t vectors; ///< of a panel
  int64_t capacity = 0;
  mlir::Value packed;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_SCORESITE_H

//===- FragmentOperands.h - What kernels on tensor cores read ---*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTOPERANDS_H
#define SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTOPERANDS_H

#include "codegen/Tables/ArgumentPoint.h"
#include "codegen/Tiles/HeadPlace.h"

namespace sextant::codegen {

/// Hoisted values that are read with each tile of scores from shared memory:
/// those over offsets or over columns, of 32 bits, that the score or the mask
/// uses. None where the score is of all heads: AllHeadsThreadPoint reads those.
struct TileWindows {
  TileWindows(const KernelPlan &plan, pos::Side columnSide);

  llvm::SmallVector<const Hoisted *> offsets, columns;
};

/// A score payload that adds to its argument one function of hinges, at the
/// product of a value over offsets and one over queries:
/// FragmentHingeProduct.h.
struct HingeProduct {
  pos::HingeSumOp op;
  const Hoisted *ofOffsets = nullptr, *ofQueries = nullptr;

  static std::optional<HingeProduct> find(const KernelPlan &plan,
                                          const TileWindows &windows);
};

/// The form of a hoisted value over rows of a side.
inline HoistForm getVectorForm(pos::Side side) {
  return side == pos::Side::key ? HoistForm::KeyVector : HoistForm::QueryVector;
}

/// Of the rows of an attention: queries, keys, values and their gradients.
mlir::FloatType getRowElement(const KernelPlan &plan);

/// Elements of rows of query and key as products read them, their columns
/// included.
int64_t countHeadElements(const KernelPlan &plan);

/// Whether the score or the mask uses a hoisted value.
bool isUsedByScores(const KernelPlan &plan, const Hoisted &hoisted);

/// Whether these use values over offsets of given positions, which are in
/// tables only where those hold all offsets in use
/// (codegen/Tables/OffsetRange.h).
bool usesOffsetsOfPositions(const KernelPlan &plan);

/// Has calls with more rows than kernels on tensor cores count, in 32 bits, end
/// with an error.
void checkLengths(const Lowering &lowering);

/// Numbers of the operands of a launch, as far as both directions have them.
struct FragmentOperands {
  FragmentOperands(const KernelPlan &plan, pos::Side columnSide)
      : plan(plan), windows(plan, columnSide),
        hingeProduct(HingeProduct::find(plan, windows)) {}

  const KernelPlan &plan;
  TileWindows windows;
  std::optional<HingeProduct> hingeProduct;
  KernelOperands layout;
  SiteOperands sites;
  /// Rows as products read them.
  unsigned query = 0, key = 0;
  llvm::SmallVector<unsigned> values;
  /// Of a forward a scalar: how many heads of queries a block has, see
  /// BlockHeads.h.
  std::optional<unsigned> packs;

  /// Adds the operands of the owner to those of the launch: as they are, as the
  /// launches of their row maps leave them, and what sites read.
  void read(const Lowering &lowering, const HoistTables &tables,
            LaunchOperands &operands);
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_FRAGMENTOPERANDS_H

//===- BandCell.h - Products of a cell with rows of offsets -----*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_TILES_BANDCELL_H
#define SEXTANT_CODEGEN_TILES_BANDCELL_H

#include "codegen/Emit/KernelBuilder.h"

namespace sextant::codegen {

/// Where the products of a register tile of scores are, row by row, and in the
/// backward where their cotangents go, as in a tile of scores.
struct BandCell {
  mlir::Value products;
  int64_t stride = 0; ///< from a row of them to the next
  mlir::Value gradients = {};
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_TILES_BANDCELL_H

//===- ResidentBlocks.h - Blocks that registers leave room for --*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_RESIDENTBLOCKS_H
#define SEXTANT_CODEGEN_CUDA_RESIDENTBLOCKS_H

#include "codegen/MachineCode/KernelCode.h"
#include "llvm/ADT/ArrayRef.h"

namespace sextant::codegen {

/// A kernel may ask for registers that leave room for several blocks on a
/// multiprocessor (BlockShape::residentBlocks). How many its code needs only
/// the assembler knows: where some would be kept in memory instead, more blocks
/// gain less than that costs. Takes such requests of PTX back; says whether
/// there were any, so that the kernels should be assembled again.
bool withdrawRequestsThatSpill(std::string &ptx,
                               llvm::ArrayRef<KernelResources> assembled);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_RESIDENTBLOCKS_H

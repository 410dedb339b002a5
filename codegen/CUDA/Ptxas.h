//===- Ptxas.h - NVIDIA's assembler and disassembler ------------*- C++ -*-===//
//
// These functions call ptxas, which makes machine code of a GPU from PTX, and
// nvdisasm, which lists it.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_PTXAS_H
#define SEXTANT_CODEGEN_CUDA_PTXAS_H

#include "codegen/MachineCode/KernelCode.h"
#include <optional>

namespace sextant::codegen {

/// What ptxas makes of a module.
struct Assembled {
  std::string cubin;
  std::vector<KernelResources> kernels;
};

/// Assembles PTX for a GPU ("sm_80"). Without a ptxas gives nothing: the driver
/// compiles PTX when it is loaded. It is looked for in this order: the file
/// that SEXTANT_PTXAS names (which must be there), the one that set-up
/// installed, the PATH. An error says what ptxas refused. Kernels are assembled
/// side by side, by as many threads as there are processors, or one after the
/// other, which is what it takes to know the `KernelResources::milliseconds`
/// of each: their code is the same.
llvm::Expected<std::optional<Assembled>>
assemble(llvm::StringRef ptx, llvm::StringRef gpu, bool timesKernels);

/// Which ptxas that is, as a part of what code follows from: its path, its size
/// and when it was made; empty without one.
std::string describePtxas();

/// The listing of machine code that ptxas made, by nvdisasm; an error if there
/// is none.
llvm::Expected<std::string> disassemble(llvm::StringRef cubin);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_PTXAS_H

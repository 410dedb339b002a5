//===- Ptxas.h - NVIDIA's assembler ------------------------------*- C++
//-*-===//

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
/// installed, the PATH. An error says what ptxas refused.
llvm::Expected<std::optional<Assembled>> assemble(llvm::StringRef ptx,
                                                  llvm::StringRef gpu);

/// Which ptxas that is, as a part of what code follows from: its path, its size
/// and when it was made; empty without one.
std::string describePtxas();

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_PTXAS_H

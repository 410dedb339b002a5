//===- DeviceCode.h - From the module of kernels to code of a GPU *- C++ -*===//

#ifndef SEXTANT_CODEGEN_CUDA_DEVICECODE_H
#define SEXTANT_CODEGEN_CUDA_DEVICECODE_H

#include "codegen/MachineCode/KernelCode.h"
#include "llvm/IR/Module.h"

namespace sextant::codegen {

/// Compiles what the host runs of the kernels: the functions that count items
/// and bytes.
using HostCompiler = llvm::Expected<CompiledObject> (*)(llvm::Module &host);

/// Compiles kernels of warps for a GPU of NVIDIA (see KernelCompiler). `gpu` is
/// named as NVPTX and ptxas name it ("sm_80").
///
/// The entry of a kernel bears its name and takes
///   - the argument block by value, as many words as its operands have,
///   - the number of items (i64),
///   - scratch memory, and how many bytes of it each block has (i64).
/// A block is one warp, or what the kernel says of itself (BlockShape). Block b
/// of n runs the items from `items * b / n` on, up to those of the next block,
/// in the b-th piece of the scratch memory.
///
/// The objects are the host's, a cubin where there is a ptxas (Ptxas.h), and
/// PTX, which the driver compiles where no cubin fits.
llvm::Expected<KernelCode> compileForDevice(mlir::ModuleOp kernels,
                                            const Processor &gpu, CodeForm form,
                                            HostCompiler compileHost);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_DEVICECODE_H

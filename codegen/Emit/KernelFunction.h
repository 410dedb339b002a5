//===- KernelFunction.h - The three functions of a kernel -------*- C++ -*-===//
//
// The calling convention of `exec.launch`, seen from inside a kernel.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_EMIT_KERNELFUNCTION_H
#define SEXTANT_CODEGEN_EMIT_KERNELFUNCTION_H

#include "codegen/Emit/ItemSpace.h"
#include "codegen/Emit/Lowering.h"

namespace sextant::codegen {

/// What a launch passes: tensors (reads, then writes) and scalars.
struct KernelOperands {
  llvm::SmallVector<mlir::RankedTensorType> tensors;
  unsigned scalars = 0;

  /// Appends a tensor and gives its number.
  unsigned add(mlir::Type tensor);
  /// Of the argument block, 64 bits each.
  int64_t countWords() const;
};

/// Reads the argument block. Words are loaded once, at the start of the
/// function; sizes that the type knows are constants.
class ArgumentBlock {
public:
  ArgumentBlock(KernelBuilder &kernel, mlir::Value block,
                const KernelOperands &operands);

  mlir::Value getPointer(unsigned tensor);
  mlir::Type getElementType(unsigned tensor) const {
    return operands.tensors[tensor].getElementType();
  }
  Index getSize(unsigned tensor, unsigned dim);
  /// In elements.
  Index getStride(unsigned tensor, unsigned dim);
  Index getScalar(unsigned scalar);
  /// The address of an element; leading dimensions only may be given.
  mlir::Value getAddress(unsigned tensor, llvm::ArrayRef<Index> indices);

private:
  mlir::Value getWord(unsigned number, mlir::Type type);

  KernelBuilder &kernel;
  mlir::Value block;
  const KernelOperands &operands;
  llvm::SmallVector<unsigned> firstWord;
  llvm::SmallVector<mlir::Value> words;
};

/// Bodies of `k_items` (number of items), `k_scratch` (bytes) and `k` (runs
/// some of the items).
struct KernelBody {
  llvm::function_ref<ItemSpace(KernelBuilder &, ArgumentBlock &)> items;
  llvm::function_ref<Index(KernelBuilder &, ArgumentBlock &)> scratchBytes;
  llvm::function_ref<void(KernelBuilder &, ArgumentBlock &, const Items &items,
                          mlir::Value scratch)>
      run;
  /// Bytes of near memory (VectorTarget.h) that `run` uses, asked for after it;
  /// null: none.
  llvm::function_ref<int64_t()> nearBytes = nullptr;
  /// How many items, from a multiple of that number on, share what they read
  /// where they are of one range; null: 1.
  llvm::function_ref<Index(KernelBuilder &, ArgumentBlock &)> together =
      nullptr;
};

/// The item of a kernel that has one.
inline ItemSpace oneItem(KernelBuilder &kernel, ArgumentBlock &) {
  return {kernel, {}};
}
/// The bytes of a kernel without scratch memory.
inline Index noScratch(KernelBuilder &, ArgumentBlock &) { return 0; }

/// Adds the functions of the kernel `suffix` of a lowering. A kernel of that
/// name that is already there stays: it is the same kernel. Where writing it
/// fails, so does the lowering, and no more kernels are written.
void createKernel(const Lowering &lowering, llvm::StringRef suffix,
                  const KernelOperands &operands, const VectorTarget &target,
                  const KernelBody &body);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_EMIT_KERNELFUNCTION_H

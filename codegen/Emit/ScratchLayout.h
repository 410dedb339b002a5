//===- ScratchLayout.h - Scratch memory of a kernel -------------*- C++ -*-===//
//
// Buffers of a work item are handed out while its kernel is emitted, in the
// order in which they are asked for. Where the target has near memory, a buffer
// that still fits is there, and the others are in the memory that a launch
// allocates.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_EMIT_SCRATCHLAYOUT_H
#define SEXTANT_CODEGEN_EMIT_SCRATCHLAYOUT_H

#include "codegen/Emit/KernelBuilder.h"
#include "codegen/Emit/Lowering.h"

namespace sextant::codegen {

/// Scratch memory of a work item. Places count words of 32 bits; those of near
/// memory come first.
class ScratchLayout {
public:
  explicit ScratchLayout(const NearMemory &near = {})
      : nearWords(near.bytes / 4), farEnd(nearWords) {}

  /// Gives the first of `elements` f32, aligned to 64 bytes. Remarks call the
  /// buffer by its name.
  int64_t reserve(int64_t elements, llvm::StringRef name = "other");
  /// Keeps room in near memory for so many words that `reserveHeld` asks for.
  void hold(int64_t words) { heldWords = words; }
  int64_t reserveHeld(int64_t elements, llvm::StringRef name);
  /// Likewise, of what is used too seldom to be near.
  int64_t reserveFar(int64_t elements);
  bool isNear(int64_t place) const { return place < nearWords; }
  /// Words behind the start of its memory.
  int64_t getOffset(int64_t place) const {
    return isNear(place) ? place : place - nearWords;
  }
  bool hasNear() const { return nearWords != 0; }
  int64_t getNearBytes() const { return 4 * nearEnd; }
  /// Of the memory that a launch allocates.
  int64_t getBytes() const { return 4 * (farEnd - nearWords); }

  /// A remark on what is near and what did not fit, where there is near memory.
  void tell(const Lowering &lowering, llvm::StringRef suffix) const;

private:
  int64_t nearWords, nearEnd = 0, farEnd, heldWords = 0;
  llvm::MapVector<llvm::StringRef, int64_t> farBytes; ///< by name
};

/// The same in the code of a kernel: a layout and where its memory is.
class ScratchMemory {
public:
  /// At the start of a function of a kernel.
  ScratchMemory(KernelBuilder &kernel, ScratchLayout &layout, mlir::Value far)
      : layout(layout), far(far) {
    if (layout.hasNear())
      near = kernel.target.near.getAddress(kernel);
  }

  /// The address of a place, and of what lies so many words behind it.
  mlir::Value at(KernelBuilder &kernel, int64_t place,
                 llvm::ArrayRef<Index> offsets = {}) const {
    llvm::SmallVector<Index> all(offsets);
    all.push_back(layout.getOffset(place));
    return kernel.advance(layout.isNear(place) ? near : far, all);
  }
  /// The memory that the launch allocates.
  mlir::Value getFar() const { return far; }
  /// What all addresses are made of stands before this value's uses.
  mlir::Value getLast() const { return near ? near : far; }

  ScratchLayout &layout;

private:
  mlir::Value near, far;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_EMIT_SCRATCHLAYOUT_H

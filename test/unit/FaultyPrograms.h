//===- FaultyPrograms.h - Programs with a fault -----------------*- C++ -*-===//
//
// Tests change a compiled kernel in one way and run its program in the
// emulator, which must find the fault.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_TEST_UNIT_FAULTYPROGRAMS_H
#define SEXTANT_TEST_UNIT_FAULTYPROGRAMS_H

#include "runtime/Tensor.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/IntrinsicInst.h"
#include <random>
#include <string>
#include <vector>

namespace sextant::test {

/// A change of the LLVM IR of a kernel.
using Fault = void (*)(llvm::Function &);

/// The calls of an intrinsic.
llvm::SmallVector<llvm::IntrinsicInst *>
getCalls(llvm::Function &function, llvm::Intrinsic::ID intrinsic);

/// Leaves out all calls of an intrinsic.
template <llvm::Intrinsic::ID intrinsic>
void leaveOut(llvm::Function &function) {
  for (llvm::IntrinsicInst *call : getCalls(function, intrinsic))
    call->eraseFromParent();
}

/// Numbers in -1 .. 1; bf16 are the upper halves of f32.
runtime::Tensor draw(std::vector<int64_t> sizes, std::mt19937 &engine,
                     runtime::DType dtype = runtime::DType::F32);

/// What came of a program: what is wrong with it, or else the bytes of its
/// first result.
struct Outcome {
  std::string message, output;
};

/// Runs a model with a fault, if any, in the kernels whose names begin so, and
/// with what SEXTANT_CHECK asks for.
Outcome runWithFault(const char *model,
                     const std::vector<runtime::Tensor> &inputs,
                     const char *kernel, Fault fault, const char *checks);

/// Expects a message to have all of these texts.
void expectTexts(const std::string &message,
                 std::initializer_list<const char *> texts);

} // namespace sextant::test

#endif // SEXTANT_TEST_UNIT_FAULTYPROGRAMS_H

//===- ArtifactFunction.h - One exec function as instructions ---*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_ARTIFACT_ARTIFACTFUNCTION_H
#define SEXTANT_CODEGEN_ARTIFACT_ARTIFACTFUNCTION_H

#include "codegen/Artifact/ArtifactData.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace sextant::codegen {

/// Names of kernels in the order of their first launch.
using KernelNames = llvm::MapVector<llvm::StringRef, uint32_t>;

/// Writes the instructions of `function`. New kernels and constants are added
/// to `kernels` and `data`. A diagnostic at the op on anything but exec.
mlir::FailureOr<flatbuffers::Offset<artifact::Function>>
writeFunction(flatbuffers::FlatBufferBuilder &builder,
              mlir::func::FuncOp function, KernelNames &kernels,
              DataPool &data);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ARTIFACT_ARTIFACTFUNCTION_H

//===- ArtifactData.h - Types and constants of an artifact ------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_ARTIFACT_ARTIFACTDATA_H
#define SEXTANT_CODEGEN_ARTIFACT_ARTIFACTDATA_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"
#include "runtime/Artifact_generated.h"
#include "llvm/ADT/DenseMap.h"

namespace sextant::codegen {

/// The dtype of an element type, or nothing where there is none.
std::optional<artifact::DType> getArtifactDType(mlir::Type element);

/// Writes a tensor type. Fails at `op` on an element type without a dtype.
mlir::FailureOr<flatbuffers::Offset<artifact::TensorType>>
writeType(flatbuffers::FlatBufferBuilder &builder, mlir::Operation *op,
          mlir::RankedTensorType type);

/// The constants of an artifact, each stored once.
class DataPool {
public:
  explicit DataPool(flatbuffers::FlatBufferBuilder &builder)
      : builder(builder) {}

  /// The number of the constant `values`, used by `op`.
  mlir::FailureOr<uint32_t> add(mlir::Operation *op, mlir::ElementsAttr values);

  llvm::ArrayRef<flatbuffers::Offset<artifact::Data>> getEntries() const {
    return entries;
  }

private:
  flatbuffers::FlatBufferBuilder &builder;
  llvm::DenseMap<mlir::Attribute, uint32_t> numbers;
  llvm::SmallVector<flatbuffers::Offset<artifact::Data>> entries;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_ARTIFACT_ARTIFACTDATA_H

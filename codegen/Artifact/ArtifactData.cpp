//===- ArtifactData.cpp - Types and constants of an artifact --------------===//

#include "codegen/Artifact/ArtifactData.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

std::optional<artifact::DType> codegen::getArtifactDType(Type element) {
  using artifact::DType;
  using Found = std::optional<DType>;
  return TypeSwitch<Type, Found>(element)
      .Case([](Float32Type) { return Found(DType::F32); })
      .Case([](Float64Type) { return Found(DType::F64); })
      .Case([](BFloat16Type) { return Found(DType::BF16); })
      .Case([](Float16Type) { return Found(DType::F16); })
      .Case([](IntegerType type) -> Found {
        if (type.isUnsigned())
          return type.getWidth() == 8 ? Found(DType::U8) : std::nullopt;
        switch (type.getWidth()) {
        case 1:
          return DType::Bool;
        case 8:
          return DType::I8;
        case 16:
          return DType::I16;
        case 32:
          return DType::I32;
        case 64:
          return DType::I64;
        default:
          return std::nullopt;
        }
      })
      .Default([](Type) { return std::nullopt; });
}

FailureOr<flatbuffers::Offset<artifact::TensorType>>
codegen::writeType(flatbuffers::FlatBufferBuilder &builder, Operation *op,
                   RankedTensorType type) {
  std::optional<artifact::DType> dtype =
      getArtifactDType(type.getElementType());
  if (!dtype)
    return op->emitError("an artifact has no tensors of ")
           << type.getElementType();
  SmallVector<int64_t> dims;
  for (int64_t dim : type.getShape())
    dims.push_back(ShapedType::isDynamic(dim) ? -1 : dim);
  return artifact::CreateTensorType(
      builder, *dtype, builder.CreateVector(dims.data(), dims.size()));
}

/// The elements as they lie in memory, in the order of their indices.
static std::optional<std::string> getBytes(ElementsAttr values) {
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(values)) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (!blob)
      return std::nullopt;
    return std::string(blob->getData().begin(), blob->getData().end());
  }
  auto dense = dyn_cast<DenseElementsAttr>(values);
  if (!dense)
    return std::nullopt;
  std::string bytes;
  if (dense.getElementType().isInteger(1)) { // not packed in an artifact
    for (bool value : dense.getValues<bool>())
      bytes.push_back(value);
    return bytes;
  }
  ArrayRef<char> raw = dense.getRawData();
  int64_t copies = dense.isSplat() ? dense.getNumElements() : 1;
  bytes.reserve(raw.size() * copies);
  for (int64_t i = 0; i < copies; ++i)
    bytes.append(raw.begin(), raw.end());
  return bytes;
}

FailureOr<uint32_t> DataPool::add(Operation *op, ElementsAttr values) {
  auto [entry, isNew] = numbers.try_emplace(values, entries.size());
  if (!isNew)
    return entry->second;
  FailureOr<flatbuffers::Offset<artifact::TensorType>> type =
      writeType(builder, op, cast<RankedTensorType>(values.getType()));
  if (failed(type))
    return failure();
  std::optional<std::string> bytes = getBytes(values);
  if (!bytes)
    return op->emitError("an artifact cannot hold constants of this form");
  // Offsets of a FlatBuffer have 31 bits; code and instructions need some.
  constexpr size_t limit = size_t(3) << 29;
  if (bytes->size() > limit || builder.GetSize() > limit - bytes->size())
    return op->emitError("an artifact holds at most 1.5 GiB of constants");
  builder.ForceVectorAlignment(bytes->size(), 1, 64);
  auto data = builder.CreateVector(
      reinterpret_cast<const uint8_t *>(bytes->data()), bytes->size());
  entries.push_back(artifact::CreateData(builder, *type, data));
  return entry->second;
}

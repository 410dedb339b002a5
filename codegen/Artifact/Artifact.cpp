//===- Artifact.cpp - From exec to the bytes of a .sxt file ---------------===//

#include "codegen/Artifact/Artifact.h"
#include "codegen/Artifact/ArtifactFunction.h"
#include "dialects/Exec/IR/Exec.h"
#include "runtime/ArtifactFormat.h"
#include "llvm/Config/llvm-config.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;
using flatbuffers::Offset;

std::string codegen::getCompilerVersion() {
  return "sextant " SEXTANT_VERSION " (LLVM " LLVM_VERSION_STRING ")";
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

/// A setting of the optimizer as text, or nothing.
static std::optional<std::string> getText(Attribute attr) {
  if (auto text = dyn_cast<StringAttr>(attr))
    return text.str();
  if (auto flag = dyn_cast<BoolAttr>(attr))
    return flag.getValue() ? "true" : "false";
  if (auto number = dyn_cast<IntegerAttr>(attr))
    return std::to_string(number.getInt());
  if (auto number = dyn_cast<FloatAttr>(attr)) {
    SmallString<24> text;
    number.getValue().toString(text);
    return text.str().str();
  }
  return std::nullopt;
}

static FailureOr<Offset<artifact::Parameter>>
writeParameter(flatbuffers::FlatBufferBuilder &builder, exec::ParameterOp op,
               DataPool &data) {
  flatbuffers::Optional<uint32_t> number = flatbuffers::nullopt;
  if (op.getValues()) {
    FailureOr<uint32_t> added = data.add(op, *op.getValues());
    if (failed(added))
      return failure();
    number = *added;
  }
  FailureOr<Offset<artifact::TensorType>> type =
      writeType(builder, op, cast<RankedTensorType>(op.getType()));
  if (failed(type))
    return failure();
  std::vector<double> numbers;
  if (op.getInitArgs())
    for (FloatAttr value : op.getInitArgs()->getAsRange<FloatAttr>())
      numbers.push_back(value.getValueAsDouble());
  std::vector<Offset<artifact::Setting>> settings;
  for (NamedAttribute attr : op->getDiscardableAttrs()) {
    std::optional<std::string> text = getText(attr.getValue());
    if (!text)
      return op.emitError("the setting '")
             << attr.getName().getValue()
             << "' must be a number, a truth value or a string";
    auto name = builder.CreateString(attr.getName().str());
    auto value = builder.CreateString(*text);
    settings.push_back(artifact::CreateSetting(builder, name, value));
  }
  auto optional = [](std::optional<APFloat> bound) {
    return bound ? flatbuffers::Optional<double>(bound->convertToDouble())
                 : flatbuffers::Optional<double>(flatbuffers::nullopt);
  };
  auto init = static_cast<artifact::Init>(op.getInit());
  auto name = builder.CreateString(op.getName().str());
  auto numbersOffset = builder.CreateVector(numbers);
  auto settingsOffset = builder.CreateVector(settings);
  return artifact::CreateParameter(builder, name, *type, init, numbersOffset,
                                   number, op.getFrozen(), op.getShared(),
                                   optional(op.getFloor()),
                                   optional(op.getCeiling()), settingsOffset);
}

static_assert(static_cast<int>(exec::Init::given) ==
                      static_cast<int>(artifact::Init::Given) &&
                  static_cast<int>(exec::Init::constant) ==
                      static_cast<int>(artifact::Init::Constant) &&
                  static_cast<int>(exec::Init::normal) ==
                      static_cast<int>(artifact::Init::Normal) &&
                  static_cast<int>(exec::Init::uniform) ==
                      static_cast<int>(artifact::Init::Uniform),
              "exec and the artifact number distributions alike");

//===----------------------------------------------------------------------===//
// The artifact
//===----------------------------------------------------------------------===//

std::string codegen::sealBytes(flatbuffers::FlatBufferBuilder &builder) {
  std::string bytes(reinterpret_cast<const char *>(builder.GetBufferPointer()),
                    builder.GetSize());
  uint64_t sum =
      runtime::computeChecksum({builder.GetBufferPointer(), builder.GetSize()});
  bytes.append(reinterpret_cast<const char *>(&sum), sizeof(sum));
  return bytes;
}

static Offset<artifact::Object>
writeObject(flatbuffers::FlatBufferBuilder &builder,
            const CompiledObject &object) {
  auto architecture = builder.CreateString(object.architecture);
  auto features = builder.CreateVectorOfStrings(object.features);
  builder.ForceVectorAlignment(object.code.size(), 1, 64);
  auto code = builder.CreateVector(
      reinterpret_cast<const uint8_t *>(object.code.data()),
      object.code.size());
  return artifact::CreateObject(builder, object.kind, architecture, features,
                                code);
}

/// Each kernel stands in every object.
static std::vector<Offset<artifact::Kernel>>
writeKernels(flatbuffers::FlatBufferBuilder &builder, const KernelNames &names,
             ArrayRef<CompiledObject> objects) {
  uint32_t host = 0;
  std::vector<uint32_t> devices;
  for (auto [number, object] : llvm::enumerate(objects))
    if (object.kind == artifact::ObjectKind::SharedObject)
      host = static_cast<uint32_t>(number);
    else
      devices.push_back(static_cast<uint32_t>(number));
  std::vector<Offset<artifact::Kernel>> kernels;
  for (auto [name, number] : names) {
    auto nameOffset = builder.CreateString(name.str());
    auto devicesOffset = builder.CreateVector(devices);
    kernels.push_back(
        artifact::CreateKernel(builder, nameOffset, host, devicesOffset));
  }
  return kernels;
}

FailureOr<std::string> codegen::writeArtifact(ModuleOp module,
                                              ArrayRef<CompiledObject> compiled,
                                              StringRef target) {
  flatbuffers::FlatBufferBuilder builder(1 << 16);
  KernelNames kernelNames;
  DataPool data(builder);
  std::vector<Offset<artifact::Function>> functions;
  std::vector<Offset<artifact::Parameter>> parameters;
  for (Operation &op : *module.getBody()) {
    if (auto function = dyn_cast<func::FuncOp>(op)) {
      if (function.isPrivate())
        continue;
      FailureOr<Offset<artifact::Function>> written =
          writeFunction(builder, function, kernelNames, data);
      if (failed(written))
        return failure();
      functions.push_back(*written);
    } else if (auto parameter = dyn_cast<exec::ParameterOp>(op)) {
      FailureOr<Offset<artifact::Parameter>> written =
          writeParameter(builder, parameter, data);
      if (failed(written))
        return failure();
      parameters.push_back(*written);
    }
  }
  bool hasHostCode = llvm::any_of(compiled, [](const CompiledObject &object) {
    return object.kind == artifact::ObjectKind::SharedObject;
  });
  if (!kernelNames.empty() && !hasHostCode)
    return module.emitError("the program launches kernels but has no code");

  std::vector<Offset<artifact::Kernel>> kernels =
      writeKernels(builder, kernelNames, compiled);
  std::vector<Offset<artifact::Object>> objects;
  for (const CompiledObject &object : compiled)
    objects.push_back(writeObject(builder, object));
  auto compiler = builder.CreateString(getCompilerVersion());
  auto targetOffset = builder.CreateString(target.str());
  auto objectsOffset = builder.CreateVector(objects);
  auto kernelsOffset = builder.CreateVector(kernels);
  auto functionsOffset = builder.CreateVector(functions);
  auto parametersOffset = builder.CreateVector(parameters);
  auto dataOffset =
      builder.CreateVector(data.getEntries().data(), data.getEntries().size());
  artifact::FinishArtifactBuffer(
      builder,
      artifact::CreateArtifact(builder, runtime::artifactFormat, compiler,
                               targetOffset, objectsOffset, kernelsOffset,
                               functionsOffset, parametersOffset, dataOffset));
  return sealBytes(builder);
}

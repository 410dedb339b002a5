//===- Manifest.cpp - What an artifact says of itself ---------------------===//
//
// Functions, arguments and parameters are written in the order of the artifact.
//
//===----------------------------------------------------------------------===//

#include "runtime/Manifest.h"
#include "runtime/FatArtifact.h"
#include "runtime/Json.h"
#include <set>

using namespace sextant::runtime;

static const char *getName(ObjectKind kind) {
  switch (kind) {
  case ObjectKind::SharedObject:
    return "shared object";
  case ObjectKind::Cubin:
    return "cubin";
  case ObjectKind::Ptx:
    return "ptx";
  }
  return "";
}

static void writeType(JsonWriter &json, const TensorType &type) {
  json.entry("dtype", getName(type.dtype)).key("dims").beginArray();
  for (int64_t dim : type.dims)
    dim == -1 ? json.null() : json.value(dim);
  json.endArray();
}

static void writeFunction(JsonWriter &json, const Function &function) {
  json.beginObject().entry("name", std::string_view(function.name));
  json.key("arguments").beginArray();
  for (size_t i = 0; i < function.arguments.size(); ++i) {
    const Argument &argument = function.arguments[i];
    json.beginObject().entry("name", std::string_view(argument.name));
    writeType(json, function.tensors[i]);
    json.key("dim_names").beginArray();
    for (int32_t dim : argument.dims) {
      if (dim < 0)
        json.null();
      else
        json.value(std::string_view(function.dimNames[dim]));
    }
    json.endArray().endObject();
  }
  json.endArray().key("results").beginArray();
  const auto &last = std::get<Return>(function.instructions.back().body);
  for (size_t i = 0; i < function.results.size(); ++i) {
    json.beginObject().entry("name", std::string_view(function.results[i]));
    writeType(json, function.tensors[last.tensors[i]]);
    json.endObject();
  }
  json.endArray().endObject();
}

static const char *getName(sextant::artifact::Init init) {
  switch (init) {
  case sextant::artifact::Init::Given:
    return "given";
  case sextant::artifact::Init::Constant:
    return "constant";
  case sextant::artifact::Init::Normal:
    return "normal";
  case sextant::artifact::Init::Uniform:
    return "uniform";
  }
  return "";
}

static void writeParameter(JsonWriter &json, const Parameter &parameter) {
  json.beginObject().entry("name", std::string_view(parameter.name));
  writeType(json, parameter.type);
  json.entry("init", getName(parameter.init));
  json.key("init_numbers").beginArray();
  for (double number : parameter.initNumbers)
    json.value(number);
  json.endArray();
  json.entry("has_values", parameter.data.has_value());
  json.entry("frozen", parameter.frozen).entry("shared", parameter.shared);
  auto bound = [&](const char *name, const std::optional<double> &value) {
    json.key(name);
    value ? json.value(*value) : json.null();
  };
  bound("floor", parameter.floor);
  bound("ceiling", parameter.ceiling);
  json.key("settings").beginObject();
  for (const auto &[name, value] : parameter.settings)
    json.entry(name, std::string_view(value));
  json.endObject().endObject();
}

/// Kernels of several programs may have one name.
static void writeKernels(JsonWriter &json,
                         std::span<const Artifact> artifacts) {
  std::set<std::string_view> seen;
  json.key("kernels").beginArray();
  for (const Artifact &artifact : artifacts)
    for (const KernelName &kernel : artifact.kernels)
      if (seen.insert(kernel.name).second)
        json.value(std::string_view(kernel.name));
  json.endArray();
}

static void writeObject(JsonWriter &json, const Object &object) {
  json.beginObject()
      .entry("kind", ::getName(object.kind))
      .entry("architecture", std::string_view(object.architecture));
  json.key("features").beginArray();
  for (const std::string &feature : object.features)
    json.value(std::string_view(feature));
  json.endArray().endObject();
}

std::string
sextant::runtime::formatManifest(std::span<const Artifact> artifacts) {
  const Artifact &first = artifacts.front();
  JsonWriter json;
  json.beginObject()
      .entry("compiler", std::string_view(first.compiler))
      .entry("target", std::string_view(joinTargets(artifacts)));
  writeKernels(json, artifacts);
  json.key("objects").beginArray();
  for (const Artifact &artifact : artifacts)
    for (const Object &object : artifact.objects)
      writeObject(json, object);
  json.endArray().key("functions").beginArray();
  for (const Function &function : first.functions)
    writeFunction(json, function);
  json.endArray().key("parameters").beginArray();
  for (const Parameter &parameter : first.parameters)
    writeParameter(json, parameter);
  json.endArray().endObject();
  return json.text();
}

//===- Profile.cpp - Times of a program's instructions --------------------===//
//
// Times are those of the steady clock before and after each launch or dense
// operator.
//
//===----------------------------------------------------------------------===//

#include "runtime/Profile.h"
#include "runtime/Json.h"
#include <chrono>

using namespace sextant::runtime;

static int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string_view sextant::runtime::getCallee(const Artifact &artifact,
                                             const Instruction &instruction) {
  if (const auto *launch = std::get_if<Launch>(&instruction.body))
    return artifact.kernels[launch->kernel].name;
  if (const auto *dense = std::get_if<Dense>(&instruction.body))
    return dense->op;
  return {};
}

void Profile::begin(const Function &, size_t) { started = now(); }

void Profile::end(const Function &function, size_t instruction,
                  const Cost &cost) {
  int64_t ended = now();
  if (!getCallee(artifact, function.instructions[instruction]).empty())
    events.push_back({instruction, started, ended, cost});
}

std::string Profile::format(const Function &function) const {
  JsonWriter json;
  json.beginArray();
  for (const ProfileEvent &event : events) {
    const Instruction &instruction = function.instructions[event.instruction];
    auto optional = [&](const char *name, int64_t number) {
      json.key(name);
      number < 0 ? json.null() : json.value(number);
    };
    bool launch = std::holds_alternative<Launch>(instruction.body);
    json.beginObject()
        .entry("instruction", static_cast<int64_t>(event.instruction))
        .entry("kind", launch ? "launch" : "dense")
        .entry("name", getCallee(artifact, instruction))
        .entry("label", std::string_view(instruction.label))
        .entry("ns", event.end - event.begin)
        .entry("begin_ns", event.begin);
    optional("flops", event.cost.flops);
    optional("bytes", event.cost.bytes);
    optional("items", event.cost.items);
    json.endObject();
  }
  json.endArray();
  return json.text();
}

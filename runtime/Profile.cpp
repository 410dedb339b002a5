//===- Profile.cpp - Times of a program's instructions --------------------===//
//
// Times are those of the steady clock before and after each launch or dense
// operator, or of a device's marks, which begin with the time of the run.
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

std::shared_ptr<void> Profile::mark() {
  Result<std::shared_ptr<void>> made = device->mark(device->state, session);
  if (made)
    return *made;
  if (status)
    status = made.error();
  return nullptr;
}

void Profile::start(const Device &given, void *givenSession) {
  device = given.mark ? &given : nullptr;
  session = givenSession;
  marks.clear();
  status = Status();
  startOfRun = now();
  firstMark = device ? mark() : nullptr;
}

Status Profile::finish() {
  size_t first = events.size() - marks.size();
  for (size_t i = 0; status && i < marks.size(); ++i) {
    ProfileEvent &event = events[first + i];
    for (auto [time, mark] : {std::pair{&event.begin, &marks[i].begin},
                              std::pair{&event.end, &marks[i].end}}) {
      Result<int64_t> passed =
          device->getTime(device->state, firstMark.get(), mark->get());
      if (!passed) {
        status = passed.error();
        break;
      }
      *time = startOfRun + *passed;
    }
  }
  marks.clear();
  return status;
}

void Profile::begin(const Function &, size_t) {
  started = now();
  lastMark = device && status ? mark() : nullptr;
}

void Profile::end(const Function &function, size_t instruction,
                  const Cost &cost) {
  int64_t ended = now();
  if (getCallee(artifact, function.instructions[instruction]).empty())
    return;
  events.push_back({instruction, started, ended, cost});
  if (device && status)
    marks.push_back({std::move(lastMark), mark()});
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

//===- Report.cpp - Profiles as tables, JSON and traces -------------------===//
//
// Each row is the median over the runs. Rates are shown beside the measured
// limits of the machine.
//
//===----------------------------------------------------------------------===//

#include "tools/sextant-prof/Report.h"
#include "runtime/Json.h"
#include <algorithm>
#include <cstdio>
#include <map>

using namespace sextant;
using namespace sextant::runtime;

double tools::getMedian(std::vector<double> values) {
  if (values.empty())
    return 0.0;
  std::sort(values.begin(), values.end());
  size_t half = values.size() / 2;
  return values.size() % 2 ? values[half]
                           : (values[half - 1] + values[half]) / 2.0;
}

std::vector<tools::Row>
tools::makeRows(const Artifact &artifact, const Function &function,
                const std::vector<ProfileEvent> &events) {
  std::map<size_t, std::vector<double>> times;
  std::map<size_t, Cost> costs;
  for (const ProfileEvent &event : events) {
    times[event.instruction].push_back(
        static_cast<double>(event.end - event.begin) * 1e-9);
    costs[event.instruction] = event.cost;
  }
  std::vector<Row> rows;
  for (auto &[number, seconds] : times) {
    const Instruction &instruction = function.instructions[number];
    bool launch = std::holds_alternative<Launch>(instruction.body);
    rows.push_back({number, launch ? "launch" : "dense",
                    std::string(getCallee(artifact, instruction)),
                    instruction.label, getMedian(seconds), costs[number]});
  }
  return rows;
}

//===----------------------------------------------------------------------===//
// Table
//===----------------------------------------------------------------------===//

template <typename... Values>
static std::string format(const char *pattern, Values... values) {
  char text[256];
  std::snprintf(text, sizeof(text), pattern, values...);
  return text;
}

/// 1234567 -> "1.23 M"; "-" for what is not known.
static std::string formatScaled(double value) {
  if (value < 0)
    return "-";
  static constexpr const char *units[] = {"", "k", "M", "G", "T"};
  size_t unit = 0;
  while (value >= 1000.0 && unit + 1 < std::size(units)) {
    value /= 1000.0;
    ++unit;
  }
  return format("%.3g %s", value, units[unit]);
}

static std::string formatShare(double rate, double peak) {
  return rate < 0 || peak <= 0 ? "-" : format("%.1f %%", 100.0 * rate / peak);
}

static double getRate(int64_t amount, double seconds) {
  return amount < 0 || seconds <= 0 ? -1.0
                                    : static_cast<double>(amount) / seconds;
}

std::string tools::formatTable(const Report &report) {
  std::string text = format(
      "%s on %s, %lld threads, median of %lld runs: %.3f ms\n"
      "%s peak: %sFLOP/s (%s), %sB/s (memory)\n\n",
      report.function.c_str(), report.target.c_str(),
      static_cast<long long>(report.threads),
      static_cast<long long>(report.runs), report.seconds * 1e3,
      report.peak.origin.c_str(), formatScaled(report.peak.flops).c_str(),
      report.peak.unit.c_str(), formatScaled(report.peak.bytes).c_str());
  text += format("%4s  %-40s %10s %6s %9s %9s %9s %8s %9s %8s\n", "#",
                 "kernel or operator", "time ms", "share", "FLOP", "FLOP/s",
                 "of peak", "bytes", "B/s", "of peak");
  double total = 0.0;
  for (const Row &row : report.rows)
    total += row.seconds;
  for (const Row &row : report.rows) {
    std::string name = row.name;
    if (!row.label.empty())
      name += " (" + row.label + ")";
    double flops = getRate(row.cost.flops, row.seconds);
    double bytes = getRate(row.cost.bytes, row.seconds);
    text += format("%4zu  %-40s %10.4f %6s %9s %9s %9s %8s %9s %8s\n",
                   row.instruction, name.substr(0, 60).c_str(),
                   row.seconds * 1e3, formatShare(row.seconds, total).c_str(),
                   formatScaled(static_cast<double>(row.cost.flops)).c_str(),
                   formatScaled(flops).c_str(),
                   formatShare(flops, report.peak.flops).c_str(),
                   formatScaled(static_cast<double>(row.cost.bytes)).c_str(),
                   formatScaled(bytes).c_str(),
                   formatShare(bytes, report.peak.bytes).c_str());
  }
  return text;
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

std::string tools::formatJson(const Report &report) {
  JsonWriter json;
  json.beginObject()
      .entry("function", std::string_view(report.function))
      .entry("target", std::string_view(report.target))
      .entry("threads", report.threads)
      .entry("runs", report.runs)
      .entry("seconds", report.seconds)
      .entry("peak_flops", report.peak.flops)
      .entry("peak_unit", std::string_view(report.peak.unit))
      .entry("peak_bytes", report.peak.bytes);
  json.key("instructions").beginArray();
  for (const Row &row : report.rows) {
    auto optional = [&](const char *name, int64_t number) {
      json.key(name);
      number < 0 ? json.null() : json.value(number);
    };
    json.beginObject()
        .entry("instruction", static_cast<int64_t>(row.instruction))
        .entry("kind", std::string_view(row.kind))
        .entry("name", std::string_view(row.name))
        .entry("label", std::string_view(row.label))
        .entry("seconds", row.seconds);
    optional("flops", row.cost.flops);
    optional("bytes", row.cost.bytes);
    optional("items", row.cost.items);
    json.endObject();
  }
  json.endArray().endObject();
  return json.text() + "\n";
}

std::string tools::formatTrace(const Artifact &artifact,
                               const Function &function,
                               const std::vector<ProfileEvent> &events) {
  JsonWriter json;
  json.beginObject().key("traceEvents").beginArray();
  int64_t start = events.empty() ? 0 : events.front().begin;
  for (const ProfileEvent &event : events) {
    const Instruction &instruction = function.instructions[event.instruction];
    json.beginObject()
        .entry("ph", "X")
        .entry("pid", int64_t(1))
        .entry("tid", int64_t(1))
        .entry("name", getCallee(artifact, instruction))
        .entry("cat", std::holds_alternative<Launch>(instruction.body)
                          ? "launch"
                          : "dense")
        .entry("ts", static_cast<double>(event.begin - start) * 1e-3)
        .entry("dur", static_cast<double>(event.end - event.begin) * 1e-3);
    json.key("args").beginObject();
    json.entry("label", std::string_view(instruction.label));
    json.entry("flops", event.cost.flops).entry("bytes", event.cost.bytes);
    json.entry("items", event.cost.items).endObject().endObject();
  }
  json.endArray().endObject();
  return json.text() + "\n";
}

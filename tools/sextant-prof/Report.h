//===- Report.h - Profiles as tables, JSON and traces -----------*- C++ -*-===//
//
// A profile is shown as a table for people, as JSON, or as a trace that
// Perfetto opens.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_TOOLS_SEXTANT_PROF_REPORT_H
#define SEXTANT_TOOLS_SEXTANT_PROF_REPORT_H

#include "runtime/Profile.h"
#include <string>
#include <vector>

namespace sextant::tools {

/// One instruction over all runs.
struct Row {
  size_t instruction;
  std::string kind, name, label;
  double seconds; ///< median of the runs
  runtime::Cost cost;
};

/// Limits of all threads together, or of a device.
struct Peak {
  double flops;       ///< of the fastest unit that the target multiplies with
  std::string unit;   ///< what that is
  double bytes;       ///< per second, read from memory
  std::string origin; ///< "measured" or "stated"
};

/// What a profile found.
struct Report {
  std::string function, target;
  int64_t runs, threads;
  double seconds; ///< median of whole runs
  Peak peak;
  std::vector<Row> rows;
};

/// Rows of instructions in order, from the events of `runs` runs.
std::vector<Row> makeRows(const runtime::Artifact &artifact,
                          const runtime::Function &function,
                          const std::vector<runtime::ProfileEvent> &events);

std::string formatTable(const Report &report);
std::string formatJson(const Report &report);

/// A trace that ui.perfetto.dev opens: every event of every run.
std::string formatTrace(const runtime::Artifact &artifact,
                        const runtime::Function &function,
                        const std::vector<runtime::ProfileEvent> &events);

double getMedian(std::vector<double> values);

} // namespace sextant::tools

#endif // SEXTANT_TOOLS_SEXTANT_PROF_REPORT_H

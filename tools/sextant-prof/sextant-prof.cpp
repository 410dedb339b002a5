//===- sextant-prof.cpp - Times the instructions of a program -------------===//
//
// Exit codes: 0 done, 1 an input is at fault, 2 the command line is.
//
//===----------------------------------------------------------------------===//

#include "runtime/Executor.h"
#include "runtime/cpu/HostDevice.h"
#include "tools/sextant-prof/Report.h"
#include "tools/support/Model.h"
#include "tools/support/RunOptions.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>
#include <fstream>

using namespace sextant;
using namespace sextant::runtime;

static int fail(const std::string &message) {
  llvm::errs() << "sextant-prof: " << message << '\n';
  return 1;
}

static double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// The width that a target's kernels compute with.
static int getVectorBits(const std::string &target) {
  return target.find("avx2") != std::string::npos ? 256
                                                  : tools::getVectorBits();
}

static Status writeFile(const std::string &path, const std::string &text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file)
    return makeError("cannot write ", path);
  return {};
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  tools::RunOptions options;
  std::string traceFile;
  bool json = false;
  int64_t runs = 10, warmup = 2;
  tools::CommandLine commandLine(
      "sextant-prof", "MODEL.mlir|ARTIFACT.sxt",
      "Times the kernels of a function on the host, and sets them against\n"
      "the peak of the machine, which it measures. Programs with operators of\n"
      "ATen are profiled from Python (Program.profile).\n");
  options.addTo(commandLine);
  commandLine.addNumber("runs", runs, "that are timed (10)");
  commandLine.addNumber("warmup", warmup, "runs before (2)");
  commandLine.addFlag("json", json, "print JSON instead of a table");
  commandLine.addValue("trace", traceFile, "FILE",
                       "write a trace for ui.perfetto.dev");
  std::string path = commandLine.parse(argc, argv);
  if (runs < 1 || warmup < 0)
    commandLine.fail("at least one run is needed");
  if (options.threads > 0)
    setHostThreads(options.threads);

  Result<std::unique_ptr<Program>> program =
      tools::loadModel(path, options.compile);
  if (!program)
    return fail(program.error().message());
  const Artifact &artifact = (*program)->getArtifact();
  Result<size_t> number = tools::chooseFunction(artifact, options.function);
  if (!number)
    return fail(number.error().message());
  const Function &function = artifact.functions[*number];
  Result<std::vector<Tensor>> inputs =
      tools::makeInputs(artifact, function, options.getInputs());
  if (!inputs)
    return fail(inputs.error().message());

  Profile profile(artifact);
  std::vector<double> times;
  for (int64_t run = -warmup; run < runs; ++run) {
    if (run == 0)
      profile.clear();
    double begin = now();
    Result<std::vector<Tensor>> outputs =
        execute(**program, *number, *inputs, profile);
    if (!outputs)
      return fail(outputs.error().message());
    if (run >= 0)
      times.push_back(now() - begin);
  }
  const Device &device = getHostDevice();
  int64_t threads = device.threads(device.state);
  tools::Report report{
      function.name,
      artifact.target,
      runs,
      threads,
      tools::getMedian(times),
      tools::measurePeak(threads, getVectorBits(artifact.target)),
      tools::makeRows(artifact, function, profile.getEvents())};
  llvm::outs() << (json ? tools::formatJson(report)
                        : tools::formatTable(report));
  if (!traceFile.empty())
    if (Status status =
            writeFile(traceFile, tools::formatTrace(artifact, function,
                                                    profile.getEvents()));
        !status)
      return fail(status.error().message());
  return 0;
}

//===- sextant-prof.cpp - Times the instructions of a program -------------===//
//
// This tool times the kernels of a function and sets them against the peak of
// the machine, or counts what they take of a GPU. Exit codes: 0 done, 1 an
// input is at fault, 2 the command line is.
//
//===----------------------------------------------------------------------===//

#include "codegen/CUDA/Ptxas.h"
#include "codegen/Driver/Machine.h"
#include "codegen/Driver/TargetChoice.h"
#include "codegen/MachineCode/KernelCode.h"
#include "runtime/Executor.h"
#include "runtime/cpu/HostDevice.h"
#include "tools/sextant-prof/Report.h"
#include "tools/sextant-prof/StaticReport.h"
#include "tools/support/Model.h"
#include "tools/support/RunOptions.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>

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

/// Of the units that kernels of the artifact multiply with, the fastest. The
/// reference is set against what its own machine could do.
static tools::Peak measurePeak(const Artifact &artifact,
                               const Function &function, int64_t threads) {
  using namespace codegen;
  bool hasBF16 = std::any_of(
      function.tensors.begin(), function.tensors.end(),
      [](const auto &tensor) { return tensor.dtype == DType::BF16; });
  tools::Peak peak{0.0, "", measureBytes(threads), "measured"};
  auto consider = [&](Unit unit, double share) {
    double flops = share * measureFlops(unit, threads);
    if (flops <= peak.flops)
      return;
    peak.flops = flops;
    peak.unit = getName(unit);
    if (share != 1.0)
      peak.unit += ", several for one of f32";
  };
  llvm::Expected<Target> target = parseTarget(artifact.target);
  if (target && target->f32Unit) {
    consider(*target->f32Unit, target->getShareOfUnit(RowType::LongF32));
    if (hasBF16 && target->bf16Unit)
      consider(*target->bf16Unit, target->getShareOfUnit(RowType::BF16));
  } else {
    llvm::consumeError(target.takeError());
    for (Unit unit : {Unit::MultiplyAdd256, Unit::MultiplyAdd512})
      consider(unit, 1.0);
  }
  return peak;
}

/// What a device states of itself; of the host it is measured.
static Result<tools::Peak> findPeak(const Program &program,
                                    const Function &function, int64_t threads) {
  const Device &device = program.getDevice();
  if (!device.getPeak)
    return measurePeak(program.getArtifact(), function, threads);
  Result<DevicePeak> stated = device.getPeak(device.state);
  if (!stated)
    return stated.error();
  return tools::Peak{stated->flops, "f32 multiply-adds", stated->bytes,
                     "stated"};
}

static Status writeFile(const std::string &path, const std::string &text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file)
    return makeError("cannot write ", path);
  return {};
}

static int printMachine(int64_t threads, bool json) {
  llvm::Expected<codegen::Machine> machine = codegen::describeMachine(threads);
  if (!machine)
    return fail(llvm::toString(machine.takeError()));
  llvm::outs() << (json ? codegen::formatJson(*machine)
                        : codegen::formatTable(*machine));
  return 0;
}

/// What the kernels of a model take of a GPU, which need not be there.
static Result<std::vector<tools::StaticRow>>
makeStaticRows(const Artifact &artifact, std::vector<std::string> &listings) {
  std::map<uint32_t, std::vector<tools::KernelListing>> objects;
  listings.reserve(artifact.objects.size());
  std::vector<tools::StaticRow> rows;
  for (const KernelName &kernel : artifact.kernels) {
    std::optional<uint32_t> number = tools::findMachineCode(artifact, kernel);
    if (!number)
      continue;
    auto [entry, isNew] = objects.try_emplace(*number);
    if (isNew) {
      std::span<const uint8_t> code = artifact.objects[*number].code;
      llvm::Expected<std::string> listing = codegen::disassemble(
          {reinterpret_cast<const char *>(code.data()), code.size()});
      if (!listing)
        return makeError(llvm::toString(listing.takeError()));
      listings.push_back(std::move(*listing));
      entry->second = tools::parseListing(listings.back());
    }
    auto found = llvm::find_if(entry->second, [&](const auto &listing) {
      return listing.kernel == kernel.name;
    });
    if (found == entry->second.end())
      return makeError("the machine code of kernel '", kernel.name,
                       "' has no such kernel");
    Result<tools::StaticRow> row =
        tools::makeStaticRow(artifact, kernel, *found);
    if (!row)
      return row.error();
    rows.push_back(std::move(*row));
  }
  if (rows.empty())
    return makeError("there is no machine code of a GPU to count in: compile "
                     "for one with --target=cuda:sm_80, where ptxas is");
  return rows;
}

static int printStatic(const std::string &path, codegen::CompileOptions options,
                       bool json) {
  std::map<std::string, tools::CompileCost> costs;
  options.useCache = false; // which does not know what a kernel took
  options.tellCode = [&](const codegen::KernelCode &code) {
    if (!code.times)
      return;
    for (const codegen::KernelTimes &kernel : code.times->kernels)
      costs[kernel.kernel].llvm = kernel.optimizing + kernel.emitting;
    for (const codegen::KernelResources &kernel : code.resources)
      costs[kernel.kernel].ptxas = kernel.milliseconds;
  };
  Result<std::string> bytes = tools::readProgram(path, options);
  if (!bytes)
    return fail(bytes.error().message());
  Result<Artifact> artifact = tools::readGpuProgram(*bytes, options.target);
  if (!artifact)
    return fail(artifact.error().in(path).message());
  std::vector<std::string> listings; // which the rows name parts of
  Result<std::vector<tools::StaticRow>> rows =
      makeStaticRows(*artifact, listings);
  if (!rows)
    return fail(rows.error().in(path).message());
  for (tools::StaticRow &row : *rows)
    if (auto found = costs.find(row.kernel); found != costs.end())
      row.cost = found->second;
  llvm::outs() << (json ? tools::formatStaticJson(*rows)
                        : tools::formatStaticTable(*rows));
  return 0;
}

/// Seconds of each run of a function after those that warm up.
static Result<std::vector<double>> timeRuns(const Program &program,
                                            size_t function,
                                            std::span<const Tensor> inputs,
                                            Profile &profile, int64_t warmup,
                                            int64_t runs) {
  std::vector<double> times;
  for (int64_t run = -warmup; run < runs; ++run) {
    if (run == 0)
      profile.clear();
    double begin = now();
    Result<std::vector<Tensor>> outputs =
        execute(program, function, inputs, profile);
    if (!outputs)
      return outputs.error();
    if (run >= 0)
      times.push_back(now() - begin);
  }
  return times;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  tools::RunOptions options;
  std::string traceFile;
  bool json = false, machine = false, isStatic = false;
  int64_t runs = 10, warmup = 2;
  tools::CommandLine commandLine("sextant-prof", "MODEL.mlir|ARTIFACT.sxt",
                                 "Times the kernels of a function on the host, "
                                 "or on a GPU by its events,\n"
                                 "and sets them against the peak: that of the "
                                 "host is measured, that of a\n"
                                 "GPU is what it states. Programs with "
                                 "operators of ATen are profiled from\n"
                                 "Python (Program.profile).\n");
  options.addTo(commandLine);
  commandLine.addNumber("runs", runs, "that are timed (10)");
  commandLine.addNumber("warmup", warmup, "runs before (2)");
  commandLine.addFlag("json", json, "print JSON instead of a table");
  commandLine.addValue("trace", traceFile, "FILE",
                       "write a trace for ui.perfetto.dev");
  commandLine.addFlagAlone("machine", machine,
                           "print what this machine can do and what 'cpu' "
                           "means on it, instead of a profile");
  commandLine.addFlag("static", isStatic,
                      "count instructions of the main loops of a GPU's kernels "
                      "instead; needs no GPU. --target chooses one of an "
                      "artifact's programs");
  std::string path = commandLine.parse(argc, argv);
  if (runs < 1 || warmup < 0)
    commandLine.fail("at least one run is needed");
  if (options.threads > 0)
    setHostThreads(options.threads);
  int64_t threads = getHostThreads();
  if (machine)
    return printMachine(threads, json);
  if (isStatic)
    return printStatic(path, options.compile, json);

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
  if (inputs)
    inputs = copyToDevice((*program)->getDevice(), *inputs);
  if (!inputs)
    return fail(inputs.error().message());

  Profile profile(artifact);
  Result<std::vector<double>> times =
      timeRuns(**program, *number, *inputs, profile, warmup, runs);
  if (!times)
    return fail(times.error().message());
  Result<tools::Peak> peak = findPeak(**program, function, threads);
  if (!peak)
    return fail(peak.error().message());
  tools::Report report{
      function.name,
      artifact.target,
      runs,
      threads,
      tools::getMedian(*times),
      *peak,
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

//===- sextant-run.cpp - Runs a program on files or made-up values --------===//
//
// This tool runs a function of a program on the host or a GPU, and compares its
// results with the reference if asked. Exit codes: 0 done, 1 an input is at
// fault or a check failed, 2 the command line is.
//
//===----------------------------------------------------------------------===//

#include "runtime/Executor.h"
#include "runtime/cpu/HostDevice.h"
#include "tools/support/InputFile.h"
#include "tools/support/Model.h"
#include "tools/support/Npy.h"
#include "tools/support/RunOptions.h"
#include "tools/support/TableReads.h"
#include "tools/support/Values.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/InitLLVM.h"
#include <cmath>

using namespace sextant;
using namespace sextant::runtime;

static int fail(const std::string &message) {
  llvm::errs() << "sextant-run: " << message << '\n';
  return 1;
}

using Outputs = std::vector<Tensor>;

/// Inputs of another program with the same arguments, but other dtypes.
static Result<Outputs> convert(const Outputs &inputs,
                               const Function &function) {
  Outputs result;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i >= function.arguments.size())
      return makeError("the reference takes fewer arguments");
    DType dtype = function.tensors[i].dtype;
    if (inputs[i].dtype == dtype) {
      result.push_back(inputs[i]);
      continue;
    }
    Result<Tensor> tensor = tools::makeTensor(dtype, inputs[i].shape(),
                                              tools::getValues(inputs[i]));
    if (!tensor)
      return tensor.error();
    result.push_back(std::move(*tensor));
  }
  return result;
}

static Result<Outputs> run(const Program &program, size_t number,
                           const Outputs &inputs) {
  const Device &device = program.getDevice();
  Trace nothing;
  Result<Outputs> values = copyToDevice(device, inputs);
  if (values)
    values = execute(program, number, *values, nothing);
  if (values)
    values = copyToHost(device, *values);
  return values;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

static void print(const std::string &name, const Tensor &tensor) {
  double sum = 0.0, largest = 0.0;
  size_t strange = 0;
  std::vector<double> values = tools::getValues(tensor);
  for (double value : values) {
    if (!std::isfinite(value)) {
      ++strange;
      continue;
    }
    sum += value;
    largest = std::max(largest, std::fabs(value));
  }
  llvm::outs() << name << ": " << getName(tensor.dtype) << ' '
               << formatShape(tensor.shape());
  if (values.size() > strange)
    llvm::outs() << llvm::format(
        ", mean %.6g, largest magnitude %.6g",
        sum / static_cast<double>(values.size() - strange), largest);
  if (strange)
    llvm::outs() << ", " << strange << " not finite";
  llvm::outs() << '\n';
}

/// How far a dtype's results may be from the reference, relative to the
/// largest element: rounding of inputs and results, and of sums that a kernel
/// takes in another order than the definition.
static double getTolerance(DType dtype) {
  switch (dtype) {
  case DType::BF16:
    return 2e-2;
  case DType::F16:
    return 2.5e-3;
  case DType::F64:
    return 1e-12;
  default:
    return 2e-5;
  }
}

/// Prints and judges the distance to the reference. Infinities and NaN must
/// stand in the same places.
static bool compare(const std::string &name, const Tensor &ours,
                    const Tensor &reference) {
  std::vector<double> a = tools::getValues(ours);
  std::vector<double> b = tools::getValues(reference);
  double largest = 0.0, distance = 0.0;
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i) {
    if (std::isfinite(a[i]) && std::isfinite(b[i])) {
      largest = std::max(largest, std::fabs(b[i]));
      distance = std::max(distance, std::fabs(a[i] - b[i]));
    } else if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) {
      same = false;
    }
  }
  double tolerance = getTolerance(ours.dtype) * std::max(largest, 1e-3);
  bool good = same && distance <= tolerance;
  llvm::outs() << name << ": ";
  if (!same)
    llvm::outs() << "infinite, NaN or missing elements differ";
  else
    llvm::outs() << llvm::format("error %.3g, tolerance %.3g", distance,
                                 tolerance);
  llvm::outs() << (good ? ", ok\n" : ", WRONG\n");
  return good;
}

static bool hasNaN(const Tensor &tensor) {
  return llvm::any_of(tools::getValues(tensor),
                      [](double value) { return std::isnan(value); });
}

/// Says where NaN may come from when no input has one: an index outside of a
/// table reads NaN, on every target.
static Status explainNaN(const Function &function, const Outputs &inputs,
                         const Outputs &expected, const std::string &path,
                         const codegen::CompileOptions &options) {
  auto strange = llvm::find_if(expected, hasNaN);
  if (strange == expected.end() || llvm::any_of(inputs, hasNaN))
    return {};
  std::string places;
  for (const std::string &place : tools::findTableReads(path, options))
    places += "\n  " + place;
  std::string text = function.results[strange - expected.begin()] +
                     " holds NaN, which no input does";
  if (!places.empty())
    text += "; an index outside of a table reads NaN, and these may have one:";
  return makeError(text, places);
}

/// What the definition in a file gives for the inputs of a function.
static Result<Outputs> runReference(const std::string &path,
                                    const codegen::CompileOptions &options,
                                    const Function &function,
                                    const Outputs &inputs) {
  Result<std::unique_ptr<Program>> reference =
      tools::loadReference(path, options);
  if (!reference)
    return reference.error();
  const Artifact &artifact = (*reference)->getArtifact();
  Result<size_t> number = tools::chooseFunction(artifact, function.name);
  if (!number)
    return number.error().in(path);
  const Function &defined = artifact.functions[*number];
  if (defined.results != function.results ||
      defined.arguments.size() != function.arguments.size())
    return makeError(path, ": its function '", function.name,
                     "' has other arguments or results: this is not the model "
                     "that was compiled");
  Result<Outputs> converted = convert(inputs, defined);
  if (!converted)
    return converted.error();
  Result<Outputs> expected = run(**reference, *number, *converted);
  if (!expected)
    return expected.error().in("the reference");
  if (Status status = explainNaN(function, inputs, *expected, path, options);
      !status)
    return status.error();
  return expected;
}

static Status writeOutputs(const std::string &folder, const Function &function,
                           const Outputs &outputs) {
  if (std::error_code error = llvm::sys::fs::create_directories(folder))
    return makeError(folder, ": ", error.message());
  for (size_t i = 0; i < outputs.size(); ++i)
    if (Status status = tools::writeNpy(
            folder + "/" + function.results[i] + ".npy", outputs[i]);
        !status)
      return status;
  return {};
}

//===----------------------------------------------------------------------===//
// Main
//===----------------------------------------------------------------------===//

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  tools::RunOptions options;
  std::string folder, definition;
  bool wantsCheck = false;
  tools::CommandLine commandLine(
      "sextant-run", "MODEL.mlir|ARTIFACT.sxt",
      "Runs a function of a program and says what comes out: on the first GPU "
      "where it is\ncompiled for one, else on the host.\n");
  options.addTo(commandLine);
  commandLine.addValue("output", folder, "FOLDER",
                       "write every result as FOLDER/NAME.npy");
  commandLine.addFlag("check", wantsCheck,
                      "compare with the reference target: that of the model, "
                      "or the program for it in an artifact");
  commandLine.addValue("model", definition, "MODEL.mlir",
                       "what an artifact was compiled from, for --check");
  std::string path = commandLine.parse(argc, argv);
  if (!wantsCheck && !definition.empty())
    commandLine.fail("--model is for --check");
  if (definition.empty())
    definition = path;
  if (wantsCheck && definition == "-")
    commandLine.fail("--check reads the model twice: it needs a file");
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
  Result<Outputs> inputs =
      tools::makeInputs(artifact, function, options.getInputs());
  if (!inputs)
    return fail(inputs.error().message());
  Result<Outputs> outputs = run(**program, *number, *inputs);
  if (!outputs)
    return fail(outputs.error().message());
  for (size_t i = 0; i < outputs->size(); ++i)
    print(function.results[i], (*outputs)[i]);
  if (!folder.empty())
    if (Status status = writeOutputs(folder, function, *outputs); !status)
      return fail(status.error().message());
  if (!wantsCheck)
    return 0;

  Result<Outputs> expected =
      runReference(definition, options.compile, function, *inputs);
  if (!expected)
    return fail(expected.error().message());
  bool good = true;
  for (size_t i = 0; i < outputs->size(); ++i)
    good &= compare(function.results[i], (*outputs)[i], (*expected)[i]);
  return good ? 0 : fail("the results differ from the reference");
}

//===- Ptxas.cpp - NVIDIA's assembler and disassembler --------------------===//
//
// What ptxas says of kernels is read from its verbose output.
//
//===----------------------------------------------------------------------===//

#include "codegen/CUDA/Ptxas.h"
#include "codegen/CUDA/NvidiaTool.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Regex.h"

using namespace llvm;
using namespace sextant::codegen;

static Expected<std::string> findPtxas() {
  return findNvidiaTool("ptxas", "SEXTANT_PTXAS", SEXTANT_PTXAS_PATH);
}

std::string sextant::codegen::describePtxas() {
  Expected<std::string> path = findPtxas();
  if (!path) {
    consumeError(path.takeError()); // which `assemble` will give
    return {};
  }
  sys::fs::file_status status;
  if (path->empty() || sys::fs::status(*path, status))
    return {};
  return formatv("{0} {1} {2}", *path, status.getSize(),
                 status.getLastModificationTime().time_since_epoch().count());
}

/// The number before `unit` in a line; 0 if there is none.
static int64_t getNumber(StringRef line, StringRef unit) {
  SmallVector<StringRef, 2> parts;
  if (!Regex("([0-9]+) " + unit.str()).match(line, &parts))
    return 0;
  int64_t number = 0;
  return parts[1].getAsInteger(10, number) ? 0 : number;
}

/// What the verbose output says of each kernel: a line with its name, then
/// lines with its stack, its registers and its time.
static std::vector<KernelResources> parseReport(StringRef log) {
  static constexpr StringLiteral begin = "Compiling entry function \'";
  std::vector<KernelResources> kernels;
  SmallVector<StringRef> lines;
  log.split(lines, '\n');
  for (StringRef line : lines) {
    if (size_t at = line.find(begin); at != StringRef::npos) {
      kernels.emplace_back();
      kernels.back().kernel =
          line.drop_front(at + begin.size()).split('\'').first.str();
    }
    if (kernels.empty())
      continue;
    KernelResources &kernel = kernels.back();
    if (line.contains("bytes stack frame")) {
      kernel.stackBytes = getNumber(line, "bytes stack frame");
      kernel.spillStoreBytes = getNumber(line, "bytes spill stores");
      kernel.spillLoadBytes = getNumber(line, "bytes spill loads");
    } else if (line.contains("Used ")) {
      SmallVector<StringRef, 2> parts;
      if (Regex("Used ([0-9]+) registers").match(line, &parts))
        (void)parts[1].getAsInteger(10, kernel.registers);
    } else if (line.contains("Compile time")) {
      SmallVector<StringRef, 2> parts;
      if (Regex("Compile time = ([0-9.]+) ms").match(line, &parts))
        (void)parts[1].getAsDouble(kernel.milliseconds);
    }
  }
  return kernels;
}

/// Shares processor time out among kernels, by the time of the clock that each
/// took: of a busy machine the clock says little.
static void shareOut(double milliseconds,
                     std::vector<KernelResources> &kernels) {
  double sum = 0;
  for (const KernelResources &kernel : kernels)
    sum += kernel.milliseconds;
  for (KernelResources &kernel : kernels)
    kernel.milliseconds *= sum > 0 ? milliseconds / sum : 0;
}

Expected<std::optional<Assembled>>
sextant::codegen::assemble(StringRef ptx, StringRef gpu, bool timesKernels) {
  Expected<std::string> ptxas = findPtxas();
  if (!ptxas)
    return ptxas.takeError();
  if (ptxas->empty())
    return std::nullopt;
  Expected<ToolFolder> folder = ToolFolder::create();
  if (!folder)
    return folder.takeError();
  if (Error error = folder->write("kernels.ptx", ptx))
    return std::move(error);
  std::string architecture = "-arch=" + gpu.str();
  double milliseconds = 0;
  Expected<std::string> said = folder->run(
      *ptxas,
      {architecture, "-v", "-split-compile", timesKernels ? "1" : "0", "-o",
       folder->getPath("kernels.cubin"), folder->getPath("kernels.ptx")},
      " refuses the kernels for " + gpu, &milliseconds);
  if (!said)
    return said.takeError();
  Expected<std::string> cubin = folder->read("kernels.cubin");
  if (!cubin)
    return cubin.takeError();
  std::vector<KernelResources> kernels = parseReport(*said);
  // Of threads side by side ptxas says nothing true.
  if (timesKernels)
    shareOut(milliseconds, kernels);
  return Assembled{std::move(*cubin), std::move(kernels)};
}

Expected<std::string> sextant::codegen::disassemble(StringRef cubin) {
  Expected<std::string> nvdisasm =
      findNvidiaTool("nvdisasm", "SEXTANT_NVDISASM", SEXTANT_NVDISASM_PATH);
  if (!nvdisasm)
    return nvdisasm.takeError();
  if (nvdisasm->empty())
    return createStringError(
        "there is no nvdisasm, which reads machine code of a GPU: "
        "SEXTANT_NVDISASM may name it, and set-up installs it");
  Expected<ToolFolder> folder = ToolFolder::create();
  if (!folder)
    return folder.takeError();
  if (Error error = folder->write("kernels.cubin", cubin))
    return std::move(error);
  return folder->run(*nvdisasm, {"-c", folder->getPath("kernels.cubin")},
                     " does not read the kernels");
}

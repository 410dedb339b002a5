//===- Ptxas.cpp - NVIDIA's assembler -------------------------------------===//
//
// ptxas reads and writes files only: those of a temporary folder, which is
// removed on every way out. What it says of kernels is read from its verbose
// output.
//
//===----------------------------------------------------------------------===//

#include "codegen/CUDA/Ptxas.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>

using namespace llvm;
using namespace sextant::codegen;

/// Where ptxas is, empty if nowhere.
static Expected<std::string> findPtxas() {
  if (const char *named = std::getenv("SEXTANT_PTXAS"); named && *named) {
    if (sys::fs::can_execute(named))
      return std::string(named);
    return createStringError("SEXTANT_PTXAS names '" + Twine(named) +
                             "', which is no program");
  }
  if (sys::fs::can_execute(SEXTANT_PTXAS_PATH))
    return std::string(SEXTANT_PTXAS_PATH);
  ErrorOr<std::string> found = sys::findProgramByName("ptxas");
  return found ? *found : std::string();
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

static Error writeFile(StringRef path, StringRef text) {
  std::error_code code;
  raw_fd_ostream stream(path, code);
  if (!code) {
    stream << text;
    stream.close();
    code = stream.error();
    stream.clear_error();
  }
  return code ? createStringError(code, "cannot write " + path)
              : Error::success();
}

static Expected<std::string> readFile(StringRef path) {
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/false,
                                      /*RequiresNullTerminator=*/false);
  if (!buffer)
    return createStringError(buffer.getError(), "cannot read " + path);
  return (*buffer)->getBuffer().str();
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

Expected<std::optional<Assembled>> sextant::codegen::assemble(StringRef ptx,
                                                              StringRef gpu) {
  Expected<std::string> ptxas = findPtxas();
  if (!ptxas)
    return ptxas.takeError();
  if (ptxas->empty())
    return std::nullopt;
  SmallString<128> folder;
  if (std::error_code code = sys::fs::createUniqueDirectory("sextant", folder))
    return createStringError(code, "cannot make a temporary folder");
  scope_exit remove([&] { (void)sys::fs::remove_directories(folder); });
  auto getPath = [&](StringRef name) {
    SmallString<128> path = folder;
    sys::path::append(path, name);
    return std::string(path);
  };
  std::string source = getPath("kernels.ptx"),
              object = getPath("kernels.cubin");
  std::string log = getPath("log");
  if (Error error = writeFile(source, ptx))
    return std::move(error);
  std::string architecture = "-arch=" + gpu.str(), message;
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(log),
                                          StringRef(log)};
  int code = sys::ExecuteAndWait(
      *ptxas, {*ptxas, architecture, "-v", "-o", object, source},
      /*Env=*/std::nullopt, redirects, /*SecondsToWait=*/0, /*MemoryLimit=*/0,
      &message);
  Expected<std::string> said = readFile(log);
  if (!said)
    return said.takeError();
  if (code != 0)
    return createStringError(*ptxas + " refuses the kernels for " + gpu + ": " +
                             (message.empty() ? *said : message));
  Expected<std::string> cubin = readFile(object);
  if (!cubin)
    return cubin.takeError();
  return Assembled{std::move(*cubin), parseReport(*said)};
}

//===- NvidiaTool.cpp - Programs of NVIDIA's toolkit ----------------------===//

#include "codegen/CUDA/NvidiaTool.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>

using namespace llvm;
using namespace sextant;
using namespace sextant::codegen;

Expected<std::string> codegen::findNvidiaTool(StringRef name,
                                              const char *variable,
                                              StringRef installed) {
  if (const char *named = std::getenv(variable); named && *named) {
    if (named == StringRef("none"))
      return std::string();
    if (sys::fs::can_execute(named))
      return std::string(named);
    return createStringError(Twine(variable) + " names '" + named +
                             "', which is no program");
  }
  if (sys::fs::can_execute(installed))
    return installed.str();
  ErrorOr<std::string> found = sys::findProgramByName(name);
  return found ? *found : std::string();
}

Expected<ToolFolder> ToolFolder::create() {
  SmallString<128> path;
  if (std::error_code code = sys::fs::createUniqueDirectory("sextant", path))
    return createStringError(code, "cannot make a temporary folder");
  return ToolFolder(std::move(path));
}

ToolFolder::~ToolFolder() {
  if (!path.empty())
    (void)sys::fs::remove_directories(path);
}

std::string ToolFolder::getPath(StringRef name) const {
  SmallString<128> file = path;
  sys::path::append(file, name);
  return std::string(file);
}

Error ToolFolder::write(StringRef name, StringRef bytes) const {
  std::error_code code;
  raw_fd_ostream stream(getPath(name), code);
  if (!code) {
    stream << bytes;
    stream.close();
    code = stream.error();
    stream.clear_error();
  }
  return code ? createStringError(code, "cannot write " + getPath(name))
              : Error::success();
}

Expected<std::string> ToolFolder::read(StringRef name) const {
  auto buffer = MemoryBuffer::getFile(getPath(name), /*IsText=*/false,
                                      /*RequiresNullTerminator=*/false);
  if (!buffer)
    return createStringError(buffer.getError(), "cannot read " + getPath(name));
  return (*buffer)->getBuffer().str();
}

Expected<std::string> ToolFolder::run(StringRef program,
                                      ArrayRef<StringRef> arguments,
                                      const Twine &failure,
                                      double *milliseconds) const {
  SmallVector<StringRef> command{program};
  append_range(command, arguments);
  std::string log = getPath("log"), message;
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(log),
                                          StringRef(log)};
  std::optional<sys::ProcessStatistics> statistics;
  int code =
      sys::ExecuteAndWait(program, command, /*Env=*/std::nullopt, redirects,
                          /*SecondsToWait=*/0, /*MemoryLimit=*/0, &message,
                          /*ExecutionFailed=*/nullptr, &statistics);
  if (milliseconds && statistics)
    *milliseconds +=
        std::chrono::duration<double, std::milli>(statistics->TotalTime)
            .count();
  Expected<std::string> said = read("log");
  if (!said)
    return said.takeError();
  if (code != 0)
    return createStringError(program + failure + ": " +
                             (message.empty() ? *said : message));
  return said;
}

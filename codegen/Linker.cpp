//===- Linker.cpp - Links an object file in this process ------------------===//
//
// lld as a library: about 2 ms, where a process would take 15. Its state is
// global, hence the mutex.
//
//===----------------------------------------------------------------------===//

#include "codegen/Linker.h"
#include "lld/Common/Driver.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <mutex>

LLD_HAS_DRIVER(elf)

using namespace sextant::codegen;

static llvm::Error createError(llvm::StringRef what, std::error_code code) {
  return llvm::createStringError(code, what + ": " + code.message());
}

llvm::Expected<std::string>
sextant::codegen::linkSharedObject(llvm::StringRef object) {
  llvm::SmallString<128> input, output;
  int descriptor;
  if (std::error_code code =
          llvm::sys::fs::createTemporaryFile("sextant", "o", descriptor, input))
    return createError("cannot create a temporary object file", code);
  llvm::FileRemover removeInput(input);
  {
    llvm::raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
    stream << object;
    stream.close();
    if (stream.has_error()) {
      std::error_code code = stream.error();
      stream.clear_error();
      return createError("cannot write a temporary object file", code);
    }
  }
  if (std::error_code code =
          llvm::sys::fs::createTemporaryFile("sextant", "so", output))
    return createError("cannot create a temporary shared object", code);
  llvm::FileRemover removeOutput(output);

  std::string messages;
  llvm::raw_string_ostream stream(messages);
  {
    static std::mutex mutex;
    std::lock_guard<std::mutex> lock(mutex);
    static bool canRun = true;
    if (!canRun)
      return llvm::createStringError(
          "the linker crashed before and cannot run again in this process");
    const char *arguments[] = {"ld.lld", "-shared",      "--threads=1",
                               "-o",     output.c_str(), input.c_str()};
    lld::Result result =
        lld::lldMain(arguments, stream, stream, {{lld::Gnu, &lld::elf::link}});
    canRun = result.canRunAgain;
    if (result.retCode)
      return llvm::createStringError("cannot link kernels: " + messages);
  }
  auto buffer = llvm::MemoryBuffer::getFile(output);
  if (!buffer)
    return createError("cannot read the linked kernels", buffer.getError());
  return (*buffer)->getBuffer().str();
}

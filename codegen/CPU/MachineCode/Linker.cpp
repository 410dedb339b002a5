//===- Linker.cpp - Links an object file in this process ------------------===//
//
// lld as a library: about 2 ms, where a process would take 15. Its state is
// global, hence the mutex. It reads a file in memory and writes into a pipe: a
// full disk is no error. For an output that is a regular file LLVM would
// install signal handlers, which remove it when the program is ended, in the
// place of the program's own.
//
//===----------------------------------------------------------------------===//

#include "codegen/CPU/MachineCode/Linker.h"
#include "lld/Common/Driver.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

LLD_HAS_DRIVER(elf)

using namespace sextant::codegen;

static llvm::Error createError(llvm::StringRef what) {
  std::error_code code(errno, std::generic_category());
  return llvm::createStringError(code, what + ": " + code.message());
}

namespace {
/// A descriptor, and where this process finds what it stands for.
class Descriptor {
public:
  Descriptor() = default;
  explicit Descriptor(int number) : number(number) {}
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  ~Descriptor() {
    if (number >= 0)
      (void)::close(number);
  }
  std::string getPath() const {
    return "/proc/self/fd/" + std::to_string(number);
  }

  int number = -1;
};
} // namespace

static llvm::Error write(const Descriptor &file, llvm::StringRef bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(file.number, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return createError("cannot keep the object file in memory");
    bytes = bytes.drop_front(static_cast<size_t>(count));
  }
  return llvm::Error::success();
}

/// All that comes through a pipe until `end` is told. Its end of file would not
/// do: a process that is forked meanwhile holds it open, too.
static void read(const Descriptor &pipe, const Descriptor &end,
                 std::string &bytes) {
  constexpr size_t piece = 1 << 16;
  for (bool isEnd = false; !isEnd;) {
    pollfd waits[] = {{pipe.number, POLLIN, 0}, {end.number, POLLIN, 0}};
    if (::poll(waits, std::size(waits), -1) < 0) {
      if (errno == EINTR)
        continue;
      return;
    }
    isEnd = waits[1].revents != 0;
    for (ssize_t count = 1; count > 0 || (count < 0 && errno == EINTR);) {
      size_t done = bytes.size();
      bytes.resize(done + piece);
      count = ::read(pipe.number, bytes.data() + done, piece);
      bytes.resize(done + static_cast<size_t>(std::max<ssize_t>(count, 0)));
    }
  }
}

llvm::Expected<std::string>
sextant::codegen::linkSharedObject(llvm::StringRef object) {
  Descriptor input(::memfd_create("sextant.o", MFD_CLOEXEC)), source, sink,
      end(::eventfd(0, EFD_CLOEXEC));
  int ends[2];
  if (input.number < 0 || end.number < 0 || ::pipe2(ends, O_CLOEXEC))
    return createError("cannot create a file in memory");
  source.number = ends[0];
  sink.number = ends[1];
  if (llvm::Error error = write(input, object))
    return std::move(error);
  // The writer may wait for the reader, never the other way round.
  if (::fcntl(source.number, F_SETFL, O_NONBLOCK) < 0)
    return createError("cannot create a file in memory");
  std::string inputPath = input.getPath(), outputPath = sink.getPath();
  std::string messages, output;
  llvm::raw_string_ostream stream(messages);
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  static bool canRun = true;
  if (!canRun)
    return llvm::createStringError(
        "the linker crashed before and cannot run again in this process");
  const char *arguments[] = {"ld.lld", "-shared",          "--threads=1",
                             "-o",     outputPath.c_str(), inputPath.c_str()};
  std::thread reader([&] { read(source, end, output); });
  lld::Result result =
      lld::lldMain(arguments, stream, stream, {{lld::Gnu, &lld::elf::link}});
  (void)::eventfd_write(end.number, 1);
  reader.join();
  canRun = result.canRunAgain;
  if (result.retCode)
    return llvm::createStringError("cannot link kernels: " + messages);
  return output;
}

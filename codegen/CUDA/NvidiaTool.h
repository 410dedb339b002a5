//===- NvidiaTool.h - Programs of NVIDIA's toolkit --------------*- C++ -*-===//
//
// Machine code of a GPU is made and read by programs of NVIDIA, which read and
// write files only: here are where they are found and how one is run.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_NVIDIATOOL_H
#define SEXTANT_CODEGEN_CUDA_NVIDIATOOL_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Error.h"
#include <string>

namespace sextant::codegen {

/// Where a program is, in this order: the file that the environment variable
/// names (which must be there; nowhere for "none"), the one that set-up
/// installed, the PATH; empty if nowhere.
llvm::Expected<std::string> findNvidiaTool(llvm::StringRef name,
                                           const char *variable,
                                           llvm::StringRef installed);

/// A folder for the files of one run, removed by the destructor.
class ToolFolder {
public:
  static llvm::Expected<ToolFolder> create();
  ToolFolder(ToolFolder &&other) : path(std::move(other.path)) {
    other.path.clear();
  }
  ToolFolder &operator=(ToolFolder &&) = delete;
  ~ToolFolder();

  std::string getPath(llvm::StringRef name) const;
  llvm::Error write(llvm::StringRef name, llvm::StringRef bytes) const;
  llvm::Expected<std::string> read(llvm::StringRef name) const;

  /// Runs a program to its end and gives what it wrote to its outputs; an error
  /// begins with its path and `failure` and ends with what it wrote. Processor
  /// time that the program took is added to `milliseconds`.
  llvm::Expected<std::string> run(llvm::StringRef program,
                                  llvm::ArrayRef<llvm::StringRef> arguments,
                                  const llvm::Twine &failure,
                                  double *milliseconds = nullptr) const;

private:
  explicit ToolFolder(llvm::SmallString<128> path) : path(std::move(path)) {}
  llvm::SmallString<128> path;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_NVIDIATOOL_H

//===- SharedObject.h - Compiled code, loaded from memory -------*- C++ -*-===//
//
// Kernels are machine code in an ELF file that stands inside of the artifact.
// It is loaded from memory, without a file on disk.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_SHAREDOBJECT_H
#define SEXTANT_RUNTIME_SHAREDOBJECT_H

#include "runtime/Result.h"
#include <cstdint>
#include <span>

namespace sextant::runtime {

/// An ELF shared object in this process; closed by the destructor.
class SharedObject {
public:
  static Result<SharedObject> load(std::span<const uint8_t> code);
  SharedObject(SharedObject &&other) noexcept;
  SharedObject &operator=(SharedObject &&) = delete;
  ~SharedObject();

  /// The address of a symbol, or an error that names it.
  Result<void *> find(const std::string &symbol) const;
  /// The address of a symbol, null where there is none.
  void *findIfAny(const std::string &symbol) const;

private:
  explicit SharedObject(void *handle) : handle(handle) {}
  void *handle;
};

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_SHAREDOBJECT_H

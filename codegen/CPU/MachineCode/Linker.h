//===- Linker.h - Links an object file in this process ----------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CPU_MACHINECODE_LINKER_H
#define SEXTANT_CODEGEN_CPU_MACHINECODE_LINKER_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace sextant::codegen {

/// Makes an ELF shared object of one object file, both as bytes.
llvm::Expected<std::string> linkSharedObject(llvm::StringRef object);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_MACHINECODE_LINKER_H

//===- CompileText.h - A module's text to a stage of compilation *- C++ -*-===//
//
// The Python package compiles by one call: it gives a module as text and gets a
// stage of it, or an artifact. Targets are listed and described here too.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_FRONTEND_BINDINGS_COMPILETEXT_H
#define SEXTANT_FRONTEND_BINDINGS_COMPILETEXT_H

#include "frontend/bindings/Session.h"
#include <optional>
#include <string>

namespace sextant::bindings {

/// What one compilation is asked for.
struct CompileRequest {
  std::string text;       ///< a module
  std::string file;       ///< its name in diagnostics
  std::string target;     ///< see codegen::parseTarget
  std::string searchPath; ///< folders of encodings, separated by colons
  std::string stage; ///< pos, exec, kernel, llvm, asm (text), artifact (bytes)
};

/// The text or the bytes of the stage; failures leave diagnostics.
std::optional<std::string> compileText(Session &session,
                                       const CompileRequest &request);

/// The versions of Sextant and LLVM, as artifacts name them.
std::string getVersion();

/// Names of the targets that this machine can run.
std::vector<std::string> listTargets();

/// Queries of a head from which on `cpu` means another target for f32
/// (codegen::leastLongRows); more than there can be where it never does. None,
/// with an error, where this machine runs no target of the CPU.
std::optional<int64_t> countLongRows(Session &session);

/// Where tensors of a target are ("cpu") and what they are made of ("f32",
/// ...); `name` as for a compilation.
struct TargetFacts {
  std::string device;
  std::vector<std::string> elementTypes;
};
std::optional<TargetFacts> describeTarget(Session &session,
                                          const std::string &name);

/// Adds a target with vectors of `width` lanes and `registers` of them, which
/// otherwise is as the target `like`, without what that has for its own width.
/// True; failures leave diagnostics.
std::optional<bool> registerTarget(Session &session, const std::string &name,
                                   const std::string &like, int64_t width,
                                   int64_t registers);

/// What this machine can do with so many threads, as JSON (see
/// codegen/Driver/Machine.h).
std::optional<std::string> describeMachine(Session &session, int64_t threads);

/// FLOP/s of a unit of that description, measured for so many calls of half a
/// millisecond (see codegen/Host/Peak.h). An error where no unit has the name.
std::optional<double> measureFlops(Session &session, const std::string &unit,
                                   int64_t threads, int64_t calls);

} // namespace sextant::bindings

#endif // SEXTANT_FRONTEND_BINDINGS_COMPILETEXT_H

//===- Session.h - One call of the compiler from Python ---------*- C++ -*-===//
//
// A session borrows an MLIR context and keeps the diagnostics of one call as
// plain values. Nothing here knows Python; nothing here throws.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_FRONTEND_BINDINGS_SESSION_H
#define SEXTANT_FRONTEND_BINDINGS_SESSION_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include <memory>
#include <string>
#include <vector>

namespace sextant::bindings {

/// A diagnostic with its place; line and column count from 1, 0 if unknown.
struct Diagnostic {
  std::string severity; ///< error, warning, remark or note
  std::string message;
  std::string file;
  unsigned line = 0;
  unsigned column = 0;
  std::vector<Diagnostic> notes;
};

/// One call of the compiler: it borrows a context and collects its diagnostics.
class Session {
public:
  Session();
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  mlir::MLIRContext *getContext() { return context.get(); }
  const std::vector<Diagnostic> &getDiagnostics() const { return diagnostics; }

  /// Adds a failure that did not come as a diagnostic of the context.
  void addError(const std::string &message);

private:
  std::unique_ptr<mlir::MLIRContext> context;
  std::vector<Diagnostic> diagnostics;
  mlir::DiagnosticEngine::HandlerID handler;
};

} // namespace sextant::bindings

#endif // SEXTANT_FRONTEND_BINDINGS_SESSION_H

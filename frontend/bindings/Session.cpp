//===- Session.cpp - Contexts and diagnostics of calls --------------------===//
//
// Making a context costs milliseconds, so contexts that sessions give back are
// kept: one per thread that compiles at the same time, up to a few.
//
//===----------------------------------------------------------------------===//

#include "frontend/bindings/Session.h"
#include "codegen/Driver/Compile.h"
#include "mlir/IR/Location.h"
#include "passes/Encoding/EncodingLibrary.h"
#include <mutex>

using namespace mlir;
using namespace sextant;
using namespace sextant::bindings;

//===----------------------------------------------------------------------===//
// Contexts
//===----------------------------------------------------------------------===//

static constexpr size_t kKeptContexts = 4;

namespace {
/// Contexts of MLIR that no session uses now, kept for the next one.
struct ContextPool {
  std::mutex mutex;
  std::vector<std::unique_ptr<MLIRContext>> contexts;
};
} // namespace

static ContextPool &getPool() {
  // Never destroyed: Python threads may still compile while the process ends.
  static ContextPool *pool = new ContextPool;
  return *pool;
}

static std::unique_ptr<MLIRContext> borrowContext() {
  ContextPool &pool = getPool();
  {
    std::lock_guard<std::mutex> lock(pool.mutex);
    if (!pool.contexts.empty()) {
      std::unique_ptr<MLIRContext> context = std::move(pool.contexts.back());
      pool.contexts.pop_back();
      return context;
    }
  }
  DialectRegistry registry;
  passes::registerEncodingDialects(registry);
  codegen::registerCompilerDialects(registry);
  // One call is one thread: the caller's own threads are the parallelism.
  auto context =
      std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->printOpOnDiagnostic(false);
  context->loadAllAvailableDialects();
  return context;
}

static void returnContext(std::unique_ptr<MLIRContext> context) {
  ContextPool &pool = getPool();
  std::lock_guard<std::mutex> lock(pool.mutex);
  if (pool.contexts.size() < kKeptContexts)
    pool.contexts.push_back(std::move(context));
}

//===----------------------------------------------------------------------===//
// Diagnostics
//===----------------------------------------------------------------------===//

static const char *spell(DiagnosticSeverity severity) {
  switch (severity) {
  case DiagnosticSeverity::Note:
    return "note";
  case DiagnosticSeverity::Warning:
    return "warning";
  case DiagnosticSeverity::Error:
    return "error";
  case DiagnosticSeverity::Remark:
    return "remark";
  }
  return "error";
}

static bindings::Diagnostic convert(mlir::Diagnostic &from) {
  bindings::Diagnostic to;
  to.severity = spell(from.getSeverity());
  to.message = from.str();
  // The innermost place in a file: a fused or call-site location has several.
  from.getLocation()->walk([&](Location location) {
    auto place = dyn_cast<FileLineColLoc>(location);
    if (!place)
      return WalkResult::advance();
    to.file = place.getFilename().str();
    to.line = place.getLine();
    to.column = place.getColumn();
    return WalkResult::interrupt();
  });
  for (mlir::Diagnostic &note : from.getNotes())
    to.notes.push_back(convert(note));
  return to;
}

Session::Session() : context(borrowContext()) {
  handler = context->getDiagEngine().registerHandler(
      [this](mlir::Diagnostic &diagnostic) {
        diagnostics.push_back(convert(diagnostic));
        return success();
      });
}

Session::~Session() {
  context->getDiagEngine().eraseHandler(handler);
  returnContext(std::move(context));
}

void Session::addError(const std::string &message) {
  bindings::Diagnostic diagnostic;
  diagnostic.severity = "error";
  diagnostic.message = message;
  diagnostics.push_back(diagnostic);
}

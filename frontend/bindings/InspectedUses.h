//===- InspectedUses.h - Uses with their definitions ------------*- C++ -*-===//
//
// A question of the Python package is about a list of uses. Each has its own
// copy of the definition here, with the options folded as for a compilation.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_FRONTEND_BINDINGS_INSPECTEDUSES_H
#define SEXTANT_FRONTEND_BINDINGS_INSPECTEDUSES_H

#include "dialects/Pos/IR/Pos.h"
#include "frontend/bindings/Inspect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "passes/Analysis/Evaluate.h"
#include "passes/Encoding/EncodingLibrary.h"

namespace sextant::bindings {

/// The definitions of a source, open for the time of a call.
class Definitions {
public:
  /// Null when the text does not parse.
  static std::unique_ptr<Definitions> open(Session &session,
                                           const Source &source);

  passes::EncodingLibrary library;

private:
  Definitions(mlir::MLIRContext *context, const Source &source,
              mlir::OwningOpRef<mlir::ModuleOp> parsed);

  mlir::OwningOpRef<mlir::ModuleOp> text;
};

/// A use or a host.
struct InspectedUse {
  std::string instance; ///< of a host: <instance>.<host>
  pos::UseAttr use;     ///< called `instance`
  mlir::OwningOpRef<pos::EncodingOp> definition; ///< what attention takes of it
  mlir::OwningOpRef<pos::EncodingOp> whole;      ///< with functions for a model
};

/// The uses (`#pos.use` attributes as text) and their hosts, in the order of
/// their parameters.
std::optional<std::vector<InspectedUse>>
inspectUses(Session &session, const Source &source,
            const std::vector<std::string> &uses);

/// Whether a value is computed with an extent that is another from call to call
/// of one program.
bool readsCall(mlir::Value value);

/// A function that looks up the values of extents.
std::function<std::optional<int64_t>(pos::Extent)>
getLookup(const Extents &extents);

/// Values of `definition`, which is one of the use's. Fails if a requirement of
/// it does not hold; those on extents of the call are for the program to check.
mlir::FailureOr<passes::Evaluator> makeEvaluator(InspectedUse &use,
                                                 pos::EncodingOp definition,
                                                 const Extents &extents);

} // namespace sextant::bindings

#endif // SEXTANT_FRONTEND_BINDINGS_INSPECTEDUSES_H

//===- InspectedUses.cpp - Uses with their definitions --------------------===//
//
// A use is checked and its definition copied by the functions that the pass
// `pos-link-encodings` calls.
//
//===----------------------------------------------------------------------===//

#include "frontend/bindings/InspectedUses.h"
#include "mlir/AsmParser/AsmParser.h"
#include "passes/Encoding/CopyDefinition.h"
#include "passes/Encoding/FoldOptions.h"
#include "passes/Encoding/Hosts.h"
#include "passes/Encoding/ParseText.h"
#include "passes/Encoding/Requirements.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::bindings;

std::unique_ptr<Definitions> Definitions::open(Session &session,
                                               const Source &source) {
  MLIRContext *context = session.getContext();
  OwningOpRef<ModuleOp> text;
  if (!source.definitions.empty()) {
    text = passes::parseText(source.definitions, "<definitions>", context);
    if (!text)
      return nullptr;
  }
  return std::unique_ptr<Definitions>(
      new Definitions(context, source, std::move(text)));
}

Definitions::Definitions(MLIRContext *context, const Source &source,
                         OwningOpRef<ModuleOp> parsed)
    : library(context, passes::SearchPath(source.searchPath),
              parsed ? *parsed : ModuleOp()),
      text(std::move(parsed)) {}

/// Appends a use, then its hosts: in the order of their parameters.
static LogicalResult inspectUse(pos::UseAttr use, const std::string &prefix,
                                Definitions &definitions,
                                std::vector<InspectedUse> &inspected) {
  Location user = UnknownLoc::get(use.getContext());
  auto definition =
      definitions.library.find(use.getEncoding().getValue(), user);
  if (failed(definition) || failed(passes::verifyHosts(use, *definition, user)))
    return failure();
  auto values = passes::getOptionValues(*definition, use.getOptions(), user);
  if (failed(values))
    return failure();
  FailureOr<OwningOpRef<pos::EncodingOp>> copy =
      passes::copyDefinition(*definition, *values, user);
  if (failed(copy))
    return failure();
  InspectedUse entry;
  entry.instance = prefix + use.getInstance().getValue().str();
  entry.use = pos::UseAttr::get(
      use.getContext(), use.getEncoding(),
      StringAttr::get(use.getContext(), entry.instance), use.getOptions(), {});
  entry.whole = std::move(*copy);
  entry.definition = (*entry.whole).clone();
  passes::removeModelPart(*entry.definition);
  std::string inner = entry.instance + ".";
  inspected.push_back(std::move(entry));
  if (ArrayAttr hosts = use.getHosts())
    for (auto host : hosts.getAsRange<pos::UseAttr>())
      if (failed(inspectUse(host, inner, definitions, inspected)))
        return failure();
  return success();
}

std::optional<std::vector<InspectedUse>>
bindings::inspectUses(Session &session, const Source &source,
                      const std::vector<std::string> &uses) {
  std::unique_ptr<Definitions> definitions = Definitions::open(session, source);
  if (!definitions)
    return std::nullopt;
  MLIRContext *context = session.getContext();
  std::vector<InspectedUse> inspected;
  for (const std::string &text : uses) {
    auto use = dyn_cast_or_null<pos::UseAttr>(parseAttribute(text, context));
    if (!use) {
      emitError(UnknownLoc::get(context), "expected a use of an encoding, got ")
          << text;
      return std::nullopt;
    }
    if (failed(inspectUse(use, "", *definitions, inspected)))
      return std::nullopt;
  }
  return inspected;
}

static bool isOfTheCall(pos::Extent extent) {
  return extent == pos::Extent::batch || extent == pos::Extent::query ||
         extent == pos::Extent::key;
}

bool bindings::readsCall(Value value) {
  if (auto extent = value.getDefiningOp<pos::ExtentOp>())
    return isOfTheCall(extent.getExtent());
  Operation *op = value.getDefiningOp();
  return op && llvm::any_of(op->getOperands(), readsCall);
}

std::function<std::optional<int64_t>(pos::Extent)>
bindings::getLookup(const Extents &extents) {
  return [&extents](pos::Extent extent) -> std::optional<int64_t> {
    auto found = extents.find(pos::stringifyExtent(extent).str());
    if (found == extents.end())
      return std::nullopt;
    return found->second;
  };
}

FailureOr<passes::Evaluator> bindings::makeEvaluator(InspectedUse &use,
                                                     pos::EncodingOp definition,
                                                     const Extents &extents) {
  auto lookup = getLookup(extents);
  auto fixed = [&](pos::Extent extent) -> std::optional<int64_t> {
    return isOfTheCall(extent) ? std::nullopt : lookup(extent);
  };
  using passes::Evaluator;
  Evaluator ofProgram(definition, Evaluator::withExtents(fixed));
  if (failed(passes::verifyRequirements(definition, ofProgram, use.instance,
                                        definition->getLoc())))
    return failure();
  return Evaluator(definition, Evaluator::withExtents(lookup));
}

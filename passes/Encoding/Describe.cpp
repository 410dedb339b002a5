//===- Describe.cpp - What is known of encodings without a model ----------===//

#include "passes/Encoding/Describe.h"
#include "dialects/Pos/IR/Pos.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "passes/Analysis/Evaluate.h"
#include "passes/Encoding/FoldOptions.h"
#include "passes/Encoding/Library.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

//===----------------------------------------------------------------------===//
// Diagnostics
//===----------------------------------------------------------------------===//

namespace {
/// Collects what is reported while it lives.
class Report {
public:
  explicit Report(MLIRContext *context)
      : handler(context, [this](Diagnostic &diagnostic) {
          add(diagnostic);
          for (Diagnostic &note : diagnostic.getNotes())
            add(note);
          return success();
        }) {}

  llvm::Error takeError() {
    return llvm::createStringError(StringRef(text).rtrim());
  }

private:
  void add(Diagnostic &diagnostic) {
    llvm::raw_string_ostream os(text);
    Location loc = diagnostic.getLocation();
    if (auto place = dyn_cast<FileLineColLoc>(loc))
      os << place.getFilename().getValue() << ":" << place.getLine() << ":"
         << place.getColumn() << ": ";
    os << (diagnostic.getSeverity() == DiagnosticSeverity::Note ? "note: "
                                                                : "error: ")
       << diagnostic << "\n";
  }

  std::string text;
  ScopedDiagnosticHandler handler;
};
} // namespace

//===----------------------------------------------------------------------===//
// Definitions
//===----------------------------------------------------------------------===//

static std::string getText(pos::EncodingOp encoding, StringRef attribute) {
  auto text = encoding->getAttrOfType<StringAttr>(attribute);
  return text ? text.str() : "";
}

static std::string getFile(pos::EncodingOp encoding) {
  auto place = dyn_cast<FileLineColLoc>(encoding.getLoc());
  return place ? place.getFilename().str() : "";
}

static OptionInfo describeOption(pos::OptionOp option) {
  OptionInfo info;
  info.name = option.getName().str();
  llvm::raw_string_ostream(info.type) << option.getType();
  if (option.getChoices()) {
    info.type = "choice";
    for (auto choice : option.getChoicesAttr().getAsRange<StringAttr>())
      info.choices.push_back(choice.str());
  }
  llvm::raw_string_ostream os(info.defaultValue);
  if (auto name = dyn_cast<StringAttr>(option.getValue()))
    os << name.getValue();
  else if (auto number = dyn_cast<FloatAttr>(option.getValue()))
    os << llvm::format("%.9g", number.getValueAsDouble());
  else
    option.getValue().print(os, /*elideType=*/true);
  return info;
}

static std::string describeDim(Value dim) {
  Operation *op = dim.getDefiningOp();
  if (auto extent = dyn_cast<pos::ExtentOp>(op))
    return pos::stringifyExtent(extent.getExtent()).str();
  if (auto option = dyn_cast<pos::OptionOp>(op))
    return option.getName().str();
  if (op->hasTrait<OpTrait::ConstantLike>())
    if (auto number = op->getAttrOfType<IntegerAttr>("value"))
      return std::to_string(number.getInt());
  return "*";
}

static InitKind getInitKind(pos::ParamOp param) {
  if (!param.getInitBody().empty())
    return InitKind::Values;
  if (!param.getInit())
    return InitKind::Given;
  switch (*param.getInit()) {
  case pos::Init::constant:
    return InitKind::Constant;
  case pos::Init::normal:
    return InitKind::Normal;
  case pos::Init::uniform:
    return InitKind::Uniform;
  }
  llvm_unreachable("every distribution is listed");
}

static ParamInfo describeParam(pos::ParamOp param) {
  ParamInfo info;
  info.name = param.getName().str();
  for (Value dim : param.getDims())
    info.dims.push_back(describeDim(dim));
  auto type = cast<RankedTensorType>(param.getType());
  llvm::raw_string_ostream(info.type) << type.getElementType();
  info.frozen = param.getFrozen() || type.getElementType().isInteger(32);
  if (auto floor = param.getFloor())
    info.floor = floor->convertToDouble();
  if (auto ceiling = param.getCeiling())
    info.ceiling = ceiling->convertToDouble();
  info.scope = pos::stringifyScope(param.getScope()).str();
  info.init = getInitKind(param);
  return info;
}

static std::string describePlace(pos::SiteOpInterface site) {
  std::string text = site->getName().stripDialect().str();
  if (auto rows = dyn_cast<pos::RowsOp>(*site)) {
    text += " of ";
    llvm::raw_string_ostream os(text);
    llvm::interleaveComma(
        rows.getOf().getAsRange<pos::RowOperandAttr>(), os,
        [&](auto attr) { os << pos::stringifyRowOperand(attr.getValue()); });
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Uses
//===----------------------------------------------------------------------===//

static std::optional<int64_t> getExtent(const Extents &extents,
                                        pos::Extent extent) {
  switch (extent) {
  case pos::Extent::heads:
    return extents.heads;
  case pos::Extent::kv_heads:
    return extents.kvHeads ? extents.kvHeads : extents.heads;
  case pos::Extent::head_dim:
    return extents.headDim;
  case pos::Extent::value_dim:
    return extents.valueDim ? extents.valueDim : extents.headDim;
  case pos::Extent::model:
    if (!extents.model && extents.heads && extents.headDim)
      return *extents.heads * *extents.headDim;
    return extents.model;
  case pos::Extent::query:
    return extents.query;
  case pos::Extent::key:
    return extents.key;
  case pos::Extent::batch:
    return extents.batch;
  }
  llvm_unreachable("every extent is listed");
}

/// Fills in what depends on options and extents.
static LogicalResult evaluateParam(ParamInfo &info, pos::ParamOp param,
                                   Evaluator &evaluator) {
  for (int64_t size : evaluator.getSizes(param)) {
    if (size < -1)
      return param.emitOpError("'") << info.name << "' has size " << size;
    info.sizes.push_back(size);
  }
  for (Value argument : param.getInitArgs())
    if (auto value = dyn_cast_or_null<FloatAttr>(evaluator.evaluate(argument)))
      info.arguments.push_back(value.getValueAsDouble());
  if (info.arguments.size() != param.getInitArgs().size())
    info.arguments.clear();
  if (info.init != InitKind::Values || llvm::is_contained(info.sizes, -1))
    return success();
  auto values = evaluator.getInitialValues(param, info.sizes);
  if (failed(values))
    return failure();
  info.values = std::move(*values);
  return success();
}

static LogicalResult describeUse(pos::UseAttr use, Library &library,
                                 const Extents &extents,
                                 std::vector<ParamInfo> &params) {
  Location loc = UnknownLoc::get(use.getContext());
  auto definition = library.find(use.getEncoding().getValue(), loc);
  if (failed(definition))
    return failure();
  auto options = getOptionValues(*definition, use.getOptions(), loc);
  if (failed(options))
    return failure();
  OwningOpRef<pos::EncodingOp> copy = definition->clone();
  foldOptions(*copy, *options);
  Evaluator evaluator(*copy, Evaluator::withExtents([&](pos::Extent extent) {
    return getExtent(extents, extent);
  }));
  auto originals = definition->getOps<pos::ParamOp>();
  auto copies = copy->getOps<pos::ParamOp>();
  for (auto [original, param] : llvm::zip_equal(originals, copies)) {
    ParamInfo info = describeParam(original);
    info.name = (use.getInstance().getValue() + "." + info.name).str();
    if (failed(evaluateParam(info, param, evaluator)))
      return failure();
    params.push_back(std::move(info));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Catalog
//===----------------------------------------------------------------------===//

struct Catalog::Impl {
  explicit Impl(std::string path)
      : context(getRegistry(), MLIRContext::Threading::DISABLED),
        path(std::move(path)) {
    context.loadAllAvailableDialects();
  }

  static DialectRegistry getRegistry() {
    DialectRegistry registry;
    registerEncodingDialects(registry);
    return registry;
  }

  MLIRContext context;
  std::string path;
};

Catalog::Catalog(std::string searchPath)
    : impl(std::make_unique<Impl>(std::move(searchPath))) {}
Catalog::~Catalog() = default;

std::vector<std::string> Catalog::list() {
  SmallVector<std::string> names = SearchPath(impl->path).list();
  return {names.begin(), names.end()};
}

llvm::Expected<EncodingInfo> Catalog::describe(const std::string &name) {
  Report report(&impl->context);
  Library library(&impl->context, SearchPath(impl->path), ModuleOp());
  auto encoding = library.find(name, UnknownLoc::get(&impl->context));
  if (failed(encoding))
    return report.takeError();
  EncodingInfo info{name,
                    getText(*encoding, "formula"),
                    getText(*encoding, "paper"),
                    getFile(*encoding),
                    {},
                    {},
                    {}};
  for (auto option : encoding->getOps<pos::OptionOp>())
    info.options.push_back(describeOption(option));
  for (auto param : encoding->getOps<pos::ParamOp>())
    info.params.push_back(describeParam(param));
  for (auto site : encoding->getOps<pos::SiteOpInterface>())
    info.places.push_back(describePlace(site));
  return info;
}

llvm::Expected<std::vector<ParamInfo>>
Catalog::getParams(const std::string &definitions, const std::string &uses,
                   const Extents &extents) {
  MLIRContext *context = &impl->context;
  Report report(context);
  auto module = parseSourceString<ModuleOp>(definitions, ParserConfig(context));
  if (!module)
    return report.takeError();
  auto list = dyn_cast_or_null<ArrayAttr>(parseAttribute(uses, context));
  if (!list)
    return report.takeError();
  Library library(context, SearchPath(impl->path), *module);
  std::vector<ParamInfo> params;
  for (Attribute entry : list) {
    auto use = dyn_cast<pos::UseAttr>(entry);
    if (!use) {
      emitError(UnknownLoc::get(context), "expected uses, got ") << entry;
      return report.takeError();
    }
    if (failed(describeUse(use, library, extents, params)))
      return report.takeError();
  }
  return params;
}

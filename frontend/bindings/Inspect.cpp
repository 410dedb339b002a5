//===- Inspect.cpp - Reads definitions for the Python package -------------===//
//
// Definitions are parsed and their options folded as for a compilation. Facts
// are then read from the ops; nothing is declared twice.
//
//===----------------------------------------------------------------------===//

#include "frontend/bindings/Inspect.h"
#include "dialects/Pos/IR/OptionReferences.h"
#include "dialects/Pos/IR/PosFunctions.h"
#include "frontend/bindings/InspectedUses.h"
#include "frontend/bindings/Spelling.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::bindings;

//===----------------------------------------------------------------------===//
// Facts
//===----------------------------------------------------------------------===//

static std::string spellInit(pos::ParamOp param) {
  if (!param.getInitBody().empty())
    return "formula";
  if (!param.getInit())
    return "";
  std::string text = pos::stringifyInit(*param.getInit()).str() + "(";
  llvm::ListSeparator comma;
  for (Value argument : param.getInitArgs())
    text += (StringRef(comma) + spell(argument)).str();
  return text + ")";
}

/// Whether an initial value is computed with an extent of the call.
static bool startsWithCall(pos::ParamOp param) {
  bool reads = llvm::any_of(param.getInitArgs(), readsCall);
  param.getInitBody().walk([&](Operation *op) {
    reads |= llvm::any_of(op->getOperands(), readsCall);
  });
  return reads;
}

static ParamFacts getFacts(pos::ParamOp param) {
  ParamFacts facts;
  facts.name = param.getName().str();
  Type element = cast<RankedTensorType>(param.getType()).getElementType();
  facts.element = element.isInteger(32) ? "i32" : "f32";
  for (Value dim : param.getDims())
    facts.dims.push_back(spell(dim));
  facts.init = spellInit(param);
  facts.trained = !param.getFrozen() && !element.isInteger(32);
  if (auto floor = param.getFloor())
    facts.floor = floor->convertToDouble();
  if (auto ceiling = param.getCeiling())
    facts.ceiling = ceiling->convertToDouble();
  facts.scope = pos::stringifyScope(param.getScope()).str();
  auto encoding = param->getParentOfType<pos::EncodingOp>();
  for (auto which :
       {pos::ModelFunction::InitialState, pos::ModelFunction::Produce})
    if (pos::getResultNames(encoding, which).contains(param.getNameAttr()))
      facts.filledBy = pos::kModelFunctions[static_cast<unsigned>(which)].str();
  facts.ofModel = param->use_empty() &&
                  pos::getArgumentNames(encoding).contains(param.getNameAttr());
  facts.startsWithCall = startsWithCall(param);
  return facts;
}

static OptionValue getOptionValue(Attribute value) {
  if (auto text = dyn_cast<StringAttr>(value))
    return text.getValue().str();
  if (auto flag = dyn_cast<BoolAttr>(value))
    return flag.getValue();
  if (auto integer = dyn_cast<IntegerAttr>(value))
    return integer.getInt();
  return cast<FloatAttr>(value).getValueAsDouble();
}

static std::optional<ExtendedFacts>
getExtendedFacts(pos::EncodingOp definition) {
  pos::UseAttr use = pos::getExtended(definition);
  if (!use)
    return std::nullopt;
  ExtendedFacts facts;
  facts.encoding = use.getEncoding().getValue().str();
  if (DictionaryAttr options = use.getOptions())
    for (NamedAttribute option : options) {
      std::string name = option.getName().str();
      if (auto symbol = dyn_cast<FlatSymbolRefAttr>(option.getValue()))
        facts.handedOn[name] = symbol.getValue().str();
      else
        facts.options[name] = getOptionValue(option.getValue());
    }
  return facts;
}

static OptionFacts getFacts(pos::OptionOp option) {
  OptionFacts facts;
  facts.name = option.getName().str();
  llvm::raw_string_ostream(facts.type) << option.getType();
  facts.value = getOptionValue(option.getValue());
  facts.range = option.describeRange();
  if (std::optional<ArrayAttr> choices = option.getChoices())
    for (StringAttr choice : choices->getAsRange<StringAttr>())
      facts.choices.push_back(choice.getValue().str());
  return facts;
}

/// Operands whose rows a definition maps.
static void collectOperands(pos::EncodingOp definition,
                            llvm::SetVector<StringRef> &operands) {
  auto collect = [&](ArrayAttr of) {
    for (auto operand : of.getAsRange<pos::RowOperandAttr>())
      operands.insert(pos::stringifyRowOperand(operand.getValue()));
  };
  for (auto rows : definition.getOps<pos::RowsOp>())
    collect(rows.getOf());
  for (auto turn : definition.getOps<pos::TurnRowsOp>())
    collect(turn.getOf());
}

static bool seesAllHeads(pos::ScoreOp score) {
  return isa<RankedTensorType>(
      score.getBody().front().getArgument(0).getType());
}

/// Whether a payload knows the number of its head, or how many there are, in
/// any other way than to choose the head's part of a parameter: a part of the
/// heads would get other values.
static bool countsHeads(pos::EncodingOp definition) {
  auto isExtentOfHeads = [](Value value) {
    auto extent = value.getDefiningOp<pos::ExtentOp>();
    return extent && extent.getExtent() == pos::Extent::heads;
  };
  bool counts = false;
  definition.walk([&](pos::HeadOp head) {
    for (OpOperand &use : head->getUses()) {
      auto read = dyn_cast<pos::ReadOp>(use.getOwner());
      auto param = read ? read.getTensor().getDefiningOp<pos::ParamOp>()
                        : pos::ParamOp();
      unsigned index = use.getOperandNumber() - 1; // after the tensor
      counts |= !param || !isExtentOfHeads(param.getDims()[index]);
    }
  });
  SmallVector<Value> open;
  definition.walk([&](pos::ExtentOp op) {
    if (llvm::is_contained(
            {pos::Extent::heads, pos::Extent::kv_heads, pos::Extent::model},
            op.getExtent()))
      open.push_back(op.getResult());
  });
  while (!open.empty()) {
    for (Operation *user : open.pop_back_val().getUsers()) {
      counts |= bool(user->getParentOfType<pos::SiteOpInterface>()) ||
                isa<pos::SiteOpInterface>(user);
      if (!isa<pos::ParamOp>(user))
        llvm::append_range(open, user->getResults());
    }
  }
  return counts ||
         llvm::any_of(definition.getOps<pos::ScoreOp>(), seesAllHeads);
}

/// Whether a dim of a parameter is computed with an extent of the call: one
/// that is such an extent is known by its name.
static bool computesWithCall(pos::ParamOp param) {
  return llvm::any_of(param.getDims(), [](Value dim) {
    return !dim.getDefiningOp<pos::ExtentOp>() && readsCall(dim);
  });
}

/// Where the sites of a definition stand, and what its scores read of the query
/// row and of other keys.
static std::vector<std::string> getPlaces(pos::EncodingOp definition) {
  llvm::SetVector<StringRef> operands;
  collectOperands(definition, operands);
  std::vector<std::string> places;
  auto add = [&](std::string place) {
    if (!llvm::is_contained(places, place))
      places.push_back(std::move(place));
  };
  for (Operation &op : definition.getBody().front()) {
    if (!isa<pos::SiteOpInterface>(op))
      continue;
    std::string place = op.getName().stripDialect().str();
    if (auto score = dyn_cast<pos::ScoreOp>(op); score && seesAllHeads(score))
      place += " of all heads";
    if (isa<pos::RowsOp, pos::TurnRowsOp>(op))
      place += " of " + llvm::join(operands, ", ");
    add(place);
    op.walk([&](pos::PayloadOpInterface inner) {
      if (inner.isOfOneHead())
        add(inner->getName().stripDialect().str());
    });
  }
  return places;
}

/// "produce(input, weight) -> gate", for each function that a model calls.
static std::vector<std::string> spellFunctions(pos::EncodingOp definition) {
  auto spellRole = [](std::optional<pos::Role> role) {
    std::string name = role->name.getValue().str();
    return role->kind == pos::RoleKind::Weighted ? "weighted " + name : name;
  };
  std::vector<std::string> functions;
  for (auto function : definition.getOps<func::FuncOp>()) {
    if (function.isPrivate())
      continue;
    SmallVector<std::string> arguments, results;
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      arguments.push_back(spellRole(pos::getArgumentRole(function, i)));
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (auto role = pos::getResultRole(function, i))
        results.push_back(spellRole(role));
    functions.push_back(
        function.getSymName().str() + "(" + llvm::join(arguments, ", ") + ")" +
        (results.empty() ? "" : " -> ") + llvm::join(results, ", "));
  }
  return functions;
}

static std::string getText(Operation *op, StringRef attribute) {
  auto text = op->getAttrOfType<StringAttr>(attribute);
  return text ? text.getValue().str() : "";
}

static std::string getFile(Operation *op) {
  std::string file;
  op->getLoc()->walk([&](Location location) {
    auto place = dyn_cast<FileLineColLoc>(location);
    if (!place)
      return WalkResult::advance();
    file = place.getFilename().str();
    return WalkResult::interrupt();
  });
  return file;
}

/// Whether a function of a definition takes positions.
static bool takesPositions(pos::EncodingOp definition) {
  for (auto function : definition.getOps<func::FuncOp>())
    for (unsigned i = 0, e = function.getNumArguments(); i != e; ++i)
      if (auto role = pos::getArgumentRole(function, i);
          role && role->kind == pos::RoleKind::Positions)
        return true;
  return false;
}

/// How many axes of positions the sites of a definition with folded options
/// read. What its options leave unused does not count.
static FailureOr<int64_t> countAxes(pos::EncodingOp definition) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(definition.getLoc());
  module->push_back(definition.clone());
  PassManager passes(definition.getContext());
  passes.addPass(createCanonicalizerPass());
  if (failed(passes.run(*module)))
    return failure();
  int64_t last = -1;
  module->walk([&](Operation *op) {
    if (auto coord = dyn_cast<pos::CoordOp>(op))
      last = std::max<int64_t>(last, coord.getAxis());
    else if (auto offset = dyn_cast<pos::OffsetOp>(op))
      last = std::max<int64_t>(last, offset.getAxis());
    else if (auto bound = dyn_cast<pos::BoundOp>(op))
      last = std::max<int64_t>(last, bound.getAxis());
  });
  return last + 1;
}

//===----------------------------------------------------------------------===//
// Questions
//===----------------------------------------------------------------------===//

std::vector<std::string> bindings::listEncodings(Session &session,
                                                 const Source &source) {
  std::unique_ptr<Definitions> definitions = Definitions::open(session, source);
  if (!definitions)
    return {};
  SmallVector<std::string> names = definitions->library.list();
  return std::vector<std::string>(names.begin(), names.end());
}

std::optional<EncodingFacts> bindings::describe(Session &session,
                                                const Source &source,
                                                const std::string &name) {
  std::unique_ptr<Definitions> definitions = Definitions::open(session, source);
  if (!definitions)
    return std::nullopt;
  auto found =
      definitions->library.find(name, UnknownLoc::get(session.getContext()));
  if (failed(found))
    return std::nullopt;
  pos::EncodingOp definition = *found;
  EncodingFacts facts;
  facts.name = name;
  facts.formula = getText(definition, "formula");
  facts.paper = getText(definition, "paper");
  facts.file = getFile(definition);
  // Without aliases, so that the text stands alone.
  llvm::raw_string_ostream text(facts.text);
  definition->print(text, OpPrintingFlags().useLocalScope());
  text << '\n';
  facts.places = getPlaces(definition);
  facts.functions = spellFunctions(definition);
  for (StringAttr state :
       pos::getResultNames(definition, pos::ModelFunction::InitialState))
    facts.states.push_back(state.getValue().str());
  for (auto input : definition.getOps<pos::InputOp>())
    facts.inputs.push_back(input.getName().str());
  for (StringAttr used : pos::getUsedEncodings(definition))
    facts.uses.push_back(used.getValue().str());
  facts.extended = getExtendedFacts(definition);
  for (auto option : definition.getOps<pos::OptionOp>())
    facts.options.push_back(getFacts(option));
  for (auto param : definition.getOps<pos::ParamOp>())
    facts.params.push_back(getFacts(param));
  return facts;
}

/// The parameter of a name, or null.
static pos::ParamOp findParam(pos::EncodingOp definition, StringRef name) {
  for (auto param : definition.getOps<pos::ParamOp>())
    if (param.getName() == name)
      return param;
  return {};
}

/// What a use asks of a model beside the parameters of attention.
static void addModelPart(InspectedUse &use, SignatureFacts &signature) {
  pos::EncodingOp whole = *use.whole;
  for (auto param : whole.getOps<pos::ParamOp>())
    if (!findParam(*use.definition, param.getName())) {
      signature.modelParams.push_back(getFacts(param));
      signature.modelParams.back().name =
          use.instance + "." + signature.modelParams.back().name;
    }
  for (auto param : whole.getOps<pos::ParamOp>())
    if (!getFacts(param).filledBy.empty())
      signature.filled.push_back(use.instance + "." + param.getName().str());
  // Sizes and ranges of inputs follow from options, which are constants here.
  passes::Evaluator evaluator(
      whole, [](Operation *, ArrayRef<Attribute>) { return Attribute(); });
  for (auto input : whole.getOps<pos::InputOp>()) {
    SmallVector<int64_t> dims = evaluator.getSizes(input);
    InputFacts facts{use.instance + "." + input.getName().str(),
                     {dims.begin(), dims.end()},
                     {}};
    for (Value limit : input.getRange())
      if (auto known = dyn_cast_or_null<IntegerAttr>(evaluator.evaluate(limit)))
        facts.range.push_back(known.getInt());
    signature.inputs.push_back(facts);
  }
}

std::optional<SignatureFacts>
bindings::getSignature(Session &session, const Source &source,
                       const std::vector<std::string> &uses) {
  auto inspected = inspectUses(session, source, uses);
  if (!inspected)
    return std::nullopt;
  SignatureFacts signature;
  llvm::SetVector<StringRef> operands;
  for (InspectedUse &use : *inspected) {
    pos::EncodingOp definition = *use.definition;
    for (auto param : definition.getOps<pos::ParamOp>()) {
      signature.params.push_back(getFacts(param));
      signature.params.back().name =
          use.instance + "." + signature.params.back().name;
    }
    addModelPart(use, signature);
    collectOperands(definition, operands);
    signature.turnsRows |= !definition.getOps<pos::TurnRowsOp>().empty();
    signature.requiresPast |= !definition.getOps<pos::RequirePastOp>().empty();
    signature.computesWithCall |=
        llvm::any_of(definition.getOps<pos::ParamOp>(), computesWithCall);
    signature.allHeads |=
        llvm::any_of(definition.getOps<pos::ScoreOp>(), seesAllHeads);
    if (countsHeads(definition))
      signature.countHeads.push_back(use.instance);
  }
  for (StringRef operand : operands)
    signature.operands.push_back(operand.str());
  return signature;
}

std::optional<int64_t>
bindings::countAxes(Session &session, const Source &source,
                    const std::vector<std::string> &uses) {
  auto inspected = inspectUses(session, source, uses);
  if (!inspected)
    return std::nullopt;
  int64_t most = 0;
  for (InspectedUse &use : *inspected) {
    FailureOr<int64_t> axes = ::countAxes(*use.definition);
    if (failed(axes))
      return std::nullopt;
    most = std::max({most, *axes, int64_t(takesPositions(*use.whole))});
  }
  return most;
}

static LogicalResult getShape(pos::ParamOp param, passes::Evaluator &evaluator,
                              std::vector<int64_t> &shape) {
  for (auto [dim, size] : llvm::enumerate(evaluator.getSizes(param))) {
    if (size < 0)
      return param.emitOpError("size of dimension ")
             << dim << " of \"" << param.getName()
             << "\" is not known: " << spell(param.getDims()[dim]);
    shape.push_back(size);
  }
  return success();
}

std::optional<Shapes> bindings::getShapes(Session &session,
                                          const Source &source,
                                          const std::vector<std::string> &uses,
                                          const Extents &extents) {
  auto inspected = inspectUses(session, source, uses);
  if (!inspected)
    return std::nullopt;
  Shapes shapes;
  for (InspectedUse &use : *inspected) {
    FailureOr<passes::Evaluator> evaluator =
        makeEvaluator(use, *use.definition, extents);
    if (failed(evaluator))
      return std::nullopt;
    for (auto param : (*use.definition).getOps<pos::ParamOp>()) {
      std::vector<int64_t> &shape =
          shapes[use.instance + "." + param.getName().str()];
      if (failed(getShape(param, *evaluator, shape)))
        return std::nullopt;
    }
  }
  return shapes;
}

static std::optional<InitialFacts>
getInitialValues(pos::ParamOp param, passes::Evaluator &evaluator) {
  InitialFacts facts;
  if (failed(getShape(param, evaluator, facts.shape)))
    return std::nullopt;
  if (!param.getInitBody().empty()) {
    facts.kind = "values";
    auto values = evaluator.getInitialValues(param, facts.shape);
    if (failed(values))
      return std::nullopt;
    facts.numbers = std::move(*values);
    return facts;
  }
  if (!param.getInit()) {
    param.emitOpError("has no initial value: it is given at every call");
    return std::nullopt;
  }
  facts.kind = pos::stringifyInit(*param.getInit()).str();
  for (Value argument : param.getInitArgs()) {
    auto number = dyn_cast_or_null<FloatAttr>(evaluator.evaluate(argument));
    if (!number) {
      param.emitOpError("initial value is not known: ") << spell(argument);
      return std::nullopt;
    }
    facts.numbers.push_back(number.getValueAsDouble());
  }
  return facts;
}

std::optional<std::vector<InitialFacts>>
bindings::getInitialValues(Session &session, const Source &source,
                           const std::vector<std::string> &uses,
                           const std::vector<std::string> &params,
                           const Extents &extents) {
  auto inspected = inspectUses(session, source, uses);
  if (!inspected)
    return std::nullopt;
  llvm::StringMap<InitialFacts> found;
  for (InspectedUse &use : *inspected) {
    FailureOr<passes::Evaluator> evaluator =
        makeEvaluator(use, *use.whole, extents);
    if (failed(evaluator))
      return std::nullopt;
    for (auto param : (*use.whole).getOps<pos::ParamOp>()) {
      std::string name = use.instance + "." + param.getName().str();
      if (!llvm::is_contained(params, name))
        continue;
      std::optional<InitialFacts> facts = ::getInitialValues(param, *evaluator);
      if (!facts)
        return std::nullopt;
      found[name] = std::move(*facts);
    }
  }
  std::vector<InitialFacts> values;
  for (const std::string &name : params) {
    auto facts = found.find(name);
    if (facts == found.end()) {
      session.addError("no parameter is called \"" + name + "\"");
      return std::nullopt;
    }
    values.push_back(facts->second);
  }
  return values;
}

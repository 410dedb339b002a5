//===- ModelFunctions.cpp - What encodings do around attention ------------===//
//
// The functions are specialised as `pos-specialize` does it, to know the types
// of their results; a model then needs no more than their declarations.
//
//===----------------------------------------------------------------------===//

#include "frontend/bindings/ModelFunctions.h"
#include "frontend/bindings/InspectedUses.h"
#include "passes/Encoding/SpecializeFunction.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::bindings;

static RankedTensorType getType(const Shapes &tensors, StringRef role,
                                Type element) {
  auto found = tensors.find(role.str());
  if (found == tensors.end())
    return {};
  SmallVector<int64_t> shape =
      llvm::map_to_vector(found->second, [](int64_t dim) {
        return dim < 0 ? ShapedType::kDynamic : dim;
      });
  return RankedTensorType::get(shape, element);
}

static TensorFacts getFacts(std::optional<pos::Role> role, Type type) {
  auto tensor = cast<RankedTensorType>(type);
  TensorFacts facts;
  if (role) {
    facts.role = pos::kRoleKinds[static_cast<unsigned>(role->kind)].str();
    facts.name = role->name.getValue().str();
  }
  for (int64_t dim : tensor.getShape())
    facts.dims.push_back(ShapedType::isDynamic(dim) ? -1 : dim);
  llvm::raw_string_ostream(facts.element) << tensor.getElementType();
  return facts;
}

/// The declaration that stands for a function in a model.
static std::string declare(func::FuncOp function, const InspectedUse &use,
                           const Extents &extents) {
  OpBuilder builder(function.getContext());
  auto declaration =
      func::FuncOp::create(builder, function.getLoc(), function.getSymName(),
                           function.getFunctionType());
  declaration.setPrivate();
  SmallVector<NamedAttribute> sizes;
  for (const auto &[name, size] : extents)
    sizes.push_back(builder.getNamedAttr(
        name, builder.getI32IntegerAttr(static_cast<int32_t>(size))));
  declaration->setAttr(passes::kUseAttr, use.use);
  declaration->setAttr(passes::kExtentsAttr, builder.getDictionaryAttr(sizes));
  std::string text;
  llvm::raw_string_ostream stream(text);
  declaration->print(stream, OpPrintingFlags().useLocalScope());
  declaration.erase();
  return text;
}

static FunctionFacts getFacts(const passes::FunctionCopy &copy,
                              const InspectedUse &use, const Extents &extents) {
  func::FuncOp function = *copy.function;
  FunctionFacts facts;
  facts.instance = use.instance;
  facts.name = pos::kModelFunctions[static_cast<unsigned>(copy.which)].str();
  facts.symbol = function.getSymName().str();
  facts.declaration = declare(function, use, extents);
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
    facts.arguments.push_back(
        getFacts(pos::getArgumentRole(function, i), type));
  for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
    facts.results.push_back(getFacts(pos::getResultRole(function, i), type));
  facts.draws =
      function.walk([](pos::DropoutOp) { return WalkResult::interrupt(); })
          .wasInterrupted();
  return facts;
}

std::optional<std::vector<FunctionFacts>>
bindings::getFunctions(Session &session, const Source &source,
                       const std::vector<std::string> &uses,
                       const Extents &extents, const Shapes &tensors) {
  auto inspected = inspectUses(session, source, uses);
  if (!inspected)
    return std::nullopt;
  Builder builder(session.getContext());
  Type f32 = builder.getF32Type();
  passes::ModelTensors model{
      getType(tensors, "positions", builder.getI32Type()),
      getType(tensors, "input", f32), getType(tensors, "attention", f32),
      getType(tensors, "mlp", f32)};
  std::vector<FunctionFacts> facts;
  for (InspectedUse &use : *inspected) {
    FailureOr<passes::Evaluator> evaluator =
        makeEvaluator(use, *use.whole, extents);
    if (failed(evaluator))
      return std::nullopt;
    auto copies = passes::specializeFunctions(*use.whole, use.instance, model,
                                              getLookup(extents), *evaluator);
    if (failed(copies))
      return std::nullopt;
    for (const passes::FunctionCopy &copy : *copies)
      facts.push_back(getFacts(copy, use, extents));
  }
  return facts;
}

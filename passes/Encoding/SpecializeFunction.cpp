//===- SpecializeFunction.cpp - An encoding's function for a model --------===//
//
// The copy is made in one walk: helpers are inlined, extents become constants,
// scalar arithmetic is folded, choices and loops give way to what they stand
// for (FunctionBodies.h), and the types of results are inferred again from
// those of operands, from the first op to the last.
//
//===----------------------------------------------------------------------===//

#include "passes/Encoding/SpecializeFunction.h"
#include "dialects/Nn/IR/Nn.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/Encoding/FunctionBodies.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

static LogicalResult foldExtents(func::FuncOp function,
                                 const ExtentValues &extents) {
  WalkResult folded = function.walk([&](pos::ExtentOp extent) -> WalkResult {
    std::optional<int64_t> value = extents(extent.getExtent());
    if (!value)
      return extent.emitOpError("has no value in a function of a model: take "
                                "the size of an argument (tensor.dim)");
    OpBuilder builder(extent);
    auto constant = arith::ConstantOp::create(
        builder, extent.getLoc(),
        builder.getI32IntegerAttr(static_cast<int32_t>(*value)));
    extent.replaceAllUsesWith(constant.getResult());
    extent.erase();
    return WalkResult::advance();
  });
  return failure(folded.wasInterrupted());
}

/// Makes the sizes of a reshape that are known part of its type. One that is
/// negative is left to ATen, as in other functions.
static void inferReshape(nn::ReshapeOp reshape) {
  auto type = cast<RankedTensorType>(reshape.getType());
  SmallVector<int64_t> shape(type.getShape());
  SmallVector<Value> open;
  auto next = reshape.getSizes().begin();
  for (int64_t &dim : shape) {
    if (!ShapedType::isDynamic(dim))
      continue;
    Value size = *next++;
    APInt known;
    if (matchPattern(size, m_ConstantInt(&known)) && !known.isNegative())
      dim = known.getSExtValue();
    else
      open.push_back(size);
  }
  OpBuilder builder(reshape);
  auto copy = nn::ReshapeOp::create(
      builder, reshape.getLoc(), type.clone(shape), reshape.getInput(), open);
  reshape.replaceAllUsesWith(copy.getResult());
  reshape.erase();
}

/// Makes the start and the length of a range attributes if they are known.
static void inferRange(nn::SliceOp slice) {
  auto fold = [](Value value, auto set, auto clear) {
    APInt known;
    if (!value || !matchPattern(value, m_ConstantInt(&known)) ||
        known.isNegative())
      return;
    set(known.getSExtValue());
    clear();
  };
  fold(
      slice.getStartValue(), [&](int64_t start) { slice.setStart(start); },
      [&] { slice.getStartValueMutable().clear(); });
  fold(
      slice.getLengthValue(), [&](int64_t length) { slice.setLength(length); },
      [&] { slice.getLengthValueMutable().clear(); });
}

/// Makes a known length of 0, 1, 2, ... part of its type.
static void inferIota(nn::IotaOp iota) {
  APInt length;
  if (!iota.getLength() ||
      !matchPattern(iota.getLength(), m_ConstantInt(&length)) ||
      length.isNegative())
    return;
  iota.getResult().setType(
      cast<RankedTensorType>(iota.getType()).clone({length.getSExtValue()}));
  iota.getLengthMutable().clear();
}

static LogicalResult inferTypes(Operation *op) {
  if (auto cast = dyn_cast<nn::CastOp>(op)) { // the element type is its own
    auto shape = mlir::cast<RankedTensorType>(cast.getInput().getType());
    cast.getResult().setType(
        mlir::cast<RankedTensorType>(cast.getType()).clone(shape.getShape()));
  }
  auto inferable = dyn_cast<InferTypeOpInterface>(op);
  if (!inferable)
    return success();
  SmallVector<Type> types;
  if (failed(inferable.inferReturnTypes(
          op->getContext(), op->getLoc(), op->getOperands(),
          op->getDiscardableAttrDictionary(), op->getPropertiesStorage(),
          op->getRegions(), types)))
    return failure();
  for (auto [result, type] : llvm::zip_equal(op->getResults(), types))
    result.setType(type);
  return success();
}

/// Replaces an op by what it folds to.
static bool foldAway(Operation *op) {
  bool mayFold = isa<pos::DropoutOp>(op) ||
                 llvm::all_of(op->getResultTypes(), [](Type type) {
                   return type.isIntOrIndexOrFloat();
                 });
  OpBuilder builder(op);
  SmallVector<Value> folded;
  if (!mayFold || op->getNumResults() != 1 ||
      op->hasTrait<OpTrait::ConstantLike>() ||
      failed(builder.tryFold(op, folded)))
    return false;
  if (folded.front() == op->getResult(0)) // changed, but the same op
    return false;
  op->replaceAllUsesWith(folded);
  op->erase();
  return true;
}

/// Checks a requirement, which constants decide.
static LogicalResult verifyRequirement(pos::RequireOp require) {
  APInt value, limit;
  if (!matchPattern(require.getValue(), m_ConstantInt(&value)) ||
      !matchPattern(require.getLimit(), m_ConstantInt(&limit)))
    return require.emitOpError("is decided by neither options nor extents of "
                               "the model, of which functions are made");
  bool isMost = require.getRelation() == pos::Relation::at_most;
  if (isMost ? value.sle(limit) : value.sge(limit))
    return success();
  return require.emitError()
         << "@" << require->getParentOfType<func::FuncOp>().getSymName() << ": "
         << require.getMessage() << ": got " << value.getSExtValue()
         << ", but must be at " << (isMost ? "most " : "least ")
         << limit.getSExtValue();
}

/// Folds scalars, choices and loops and infers types, from the first op to the
/// last.
static LogicalResult inferBody(func::FuncOp function) {
  Operation *op = &function.front().front();
  while (!op->hasTrait<OpTrait::IsTerminator>()) {
    Operation *expanded = passes::expandControlFlow(op);
    if (expanded != op) {
      op = expanded;
      continue;
    }
    if (isa<scf::IfOp, scf::ForOp>(op))
      return op->emitOpError("is decided by neither options nor extents of the "
                             "model, of which functions are made");
    Operation *next = op->getNextNode();
    if (auto require = dyn_cast<pos::RequireOp>(op)) {
      if (failed(verifyRequirement(require)))
        return failure();
      require.erase();
      op = next;
      continue;
    }
    if (foldAway(op)) {
      op = next;
      continue;
    }
    if (auto slice = dyn_cast<nn::SliceOp>(op))
      inferRange(slice);
    if (auto iota = dyn_cast<nn::IotaOp>(op))
      inferIota(iota);
    if (auto reshape = dyn_cast<nn::ReshapeOp>(op))
      inferReshape(reshape);
    else if (auto map = dyn_cast<pos::MapRowsOp>(op))
      map.getResult().setType(map.getInput().getType());
    else if (failed(inferTypes(op)))
      return failure();
    op = next;
  }
  return success();
}

static LogicalResult setArgumentTypes(func::FuncOp function,
                                      ArrayRef<Type> types) {
  if (types.size() != function.getNumArguments())
    return function.emitError("takes ")
           << function.getNumArguments() << " arguments, but the model gives "
           << types.size();
  for (auto [argument, type] :
       llvm::zip_equal(function.getArguments(), types)) {
    auto written = dyn_cast<RankedTensorType>(argument.getType());
    auto given = dyn_cast<RankedTensorType>(type);
    if (!written || !given ||
        written.getElementType() != given.getElementType() ||
        failed(verifyCompatibleShape(written, given))) {
      auto role = pos::getArgumentRole(function, argument.getArgNumber());
      return function.emitError("@")
             << function.getSymName() << ": argument "
             << argument.getArgNumber() << ", '" << role->name.getValue()
             << "', is " << argument.getType() << ", but in the model " << type;
    }
    argument.setType(type);
  }
  return success();
}

FailureOr<OwningOpRef<func::FuncOp>>
passes::specializeFunction(func::FuncOp function, StringRef symbol,
                           ArrayRef<Type> arguments,
                           const ExtentValues &extents) {
  auto encoding = cast<pos::EncodingOp>(function->getParentOp());
  OwningOpRef<func::FuncOp> copy = function.clone();
  if (failed(setArgumentTypes(*copy, arguments)))
    return failure();
  inlineHelpers(*copy, encoding);
  if (failed(foldExtents(*copy, extents)) || failed(inferBody(*copy)))
    return failure();
  copy->setSymName(symbol);
  copy->setPrivate();
  copy->setType(
      FunctionType::get(copy->getContext(), arguments,
                        copy->front().getTerminator()->getOperandTypes()));
  return copy;
}

//===----------------------------------------------------------------------===//
// All functions of a use
//===----------------------------------------------------------------------===//

namespace {
/// Types of what the arguments of an encoding's functions stand for.
class ArgumentTypes {
public:
  ArgumentTypes(pos::EncodingOp definition, const ModelTensors &tensors,
                Evaluator &evaluator)
      : tensors(tensors) {
    for (auto param : definition.getOps<pos::ParamOp>())
      addSized(param.getNameAttr(), param.getType(), evaluator.getSizes(param));
    for (auto input : definition.getOps<pos::InputOp>())
      addSized(input.getNameAttr(), input.getType(), evaluator.getSizes(input));
  }

  Type get(pos::Role role) const {
    switch (role.kind) {
    case pos::RoleKind::Positions:
      return tensors.positions;
    case pos::RoleKind::Input:
      return tensors.input;
    case pos::RoleKind::Attention:
      return tensors.attention;
    case pos::RoleKind::Mlp:
      return tensors.mlp;
    case pos::RoleKind::Weighted:
    case pos::RoleKind::Named:
      return named.lookup(role.name);
    }
    llvm_unreachable("unknown role");
  }

  void add(StringAttr name, Type type) { named[name] = type; }

private:
  void addSized(StringAttr name, Type type, ArrayRef<int64_t> sizes) {
    SmallVector<int64_t> shape = llvm::map_to_vector(sizes, [](int64_t size) {
      return size < 0 ? ShapedType::kDynamic : size;
    });
    named[name] = cast<RankedTensorType>(type).clone(shape);
  }

  ModelTensors tensors;
  llvm::DenseMap<StringAttr, Type> named;
};
} // namespace

/// Notes the types of what a function gives; those of states do not change.
static LogicalResult addResults(const FunctionCopy &copy,
                                ArgumentTypes &types) {
  func::FuncOp function = *copy.function;
  if (copy.which == pos::ModelFunction::AuxiliaryLoss)
    return success();
  bool updates = copy.which == pos::ModelFunction::AfterAttention ||
                 copy.which == pos::ModelFunction::AfterMlp;
  for (auto [number, type] : llvm::enumerate(function.getResultTypes())) {
    pos::Role role = *pos::getResultRole(function, number);
    if (updates && type != types.get(role))
      return function.emitError("@")
             << function.getSymName() << " makes the state '"
             << role.name.getValue() << "' " << type << ", but it starts as "
             << types.get(role);
    types.add(role.name, type);
  }
  return success();
}

FailureOr<std::vector<FunctionCopy>>
passes::specializeFunctions(pos::EncodingOp definition, StringRef instance,
                            const ModelTensors &tensors,
                            const ExtentValues &extents, Evaluator &evaluator) {
  using pos::ModelFunction;
  ArgumentTypes types(definition, tensors, evaluator);
  std::vector<FunctionCopy> copies;
  for (ModelFunction which :
       {ModelFunction::InitialState, ModelFunction::Produce,
        ModelFunction::AfterAttention, ModelFunction::AfterMlp,
        ModelFunction::AuxiliaryLoss}) {
    func::FuncOp function = pos::getFunction(definition, which);
    if (!function)
      continue;
    SmallVector<Type> arguments;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      pos::Role role = *pos::getArgumentRole(function, i);
      Type type = types.get(role);
      if (!type)
        return function.emitError("@")
               << definition.getSymName() << ": @" << function.getSymName()
               << ": argument " << i << " asks for '" << role.name.getValue()
               << "', which this model lacks";
      arguments.push_back(type);
    }
    auto copy = specializeFunction(
        function, (instance + "." + function.getSymName()).str(), arguments,
        extents);
    if (failed(copy))
      return failure();
    copies.push_back({which, std::move(*copy)});
    if (failed(addResults(copies.back(), types)))
      return failure();
  }
  return copies;
}

//===- PosFunctions.cpp - Verification of an encoding's functions ---------===//
//
// The rules F1 to F6 of `pos.encoding` are verified here, over all functions of
// an encoding together: a role may name what another function gives.
//
//===----------------------------------------------------------------------===//

#include "dialects/Pos/IR/PosFunctions.h"
#include "dialects/Nn/IR/Nn.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::pos;

using Names = llvm::SetVector<StringAttr>;

//===----------------------------------------------------------------------===//
// Questions
//===----------------------------------------------------------------------===//

static StringRef spell(RoleKind kind) {
  return kRoleKinds[static_cast<unsigned>(kind)];
}

static std::optional<Role> readRole(StringAttr role, StringAttr weighted) {
  if (weighted)
    return Role{RoleKind::Weighted, weighted};
  if (!role)
    return std::nullopt;
  for (RoleKind kind : {RoleKind::Positions, RoleKind::Input,
                        RoleKind::Attention, RoleKind::Mlp})
    if (role == spell(kind))
      return Role{kind, role};
  return Role{RoleKind::Named, role};
}

std::optional<Role> pos::getArgumentRole(func::FuncOp function,
                                         unsigned number) {
  if (auto option = function.getArgAttrOfType<StringAttr>(number, kOptionAttr))
    return Role{RoleKind::Named, option};
  return readRole(function.getArgAttrOfType<StringAttr>(number, kRoleAttr),
                  function.getArgAttrOfType<StringAttr>(number, kWeightedAttr));
}

std::optional<Role> pos::getResultRole(func::FuncOp function, unsigned number) {
  return readRole(
      function.getResultAttrOfType<StringAttr>(number, kRoleAttr),
      function.getResultAttrOfType<StringAttr>(number, kWeightedAttr));
}

func::FuncOp pos::getFunction(EncodingOp encoding, ModelFunction which) {
  return encoding.lookupSymbol<func::FuncOp>(
      kModelFunctions[static_cast<unsigned>(which)]);
}

Names pos::getArgumentNames(EncodingOp encoding) {
  Names names;
  for (auto function : encoding.getOps<func::FuncOp>())
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (auto role = getArgumentRole(function, i);
          role && role->hasName() && !function.getArgument(i).use_empty())
        names.insert(role->name);
  return names;
}

Names pos::getResultNames(EncodingOp encoding, ModelFunction which) {
  Names names;
  if (func::FuncOp function = getFunction(encoding, which))
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (auto role = getResultRole(function, i); role && role->hasName())
        names.insert(role->name);
  return names;
}

//===----------------------------------------------------------------------===//
// Roles (F2, F3, F4)
//===----------------------------------------------------------------------===//

/// The kinds of roles that the arguments of a function may have.
static SmallVector<RoleKind> getKinds(ModelFunction which) {
  switch (which) {
  case ModelFunction::Produce:
  case ModelFunction::InitialState:
    return {RoleKind::Positions, RoleKind::Input, RoleKind::Named};
  case ModelFunction::AfterAttention:
    return {RoleKind::Positions, RoleKind::Attention, RoleKind::Weighted,
            RoleKind::Named};
  case ModelFunction::AfterMlp:
    return {RoleKind::Positions, RoleKind::Mlp, RoleKind::Named};
  case ModelFunction::AuxiliaryLoss:
    return {RoleKind::Positions, RoleKind::Named};
  }
  llvm_unreachable("unknown function of a model");
}

namespace {
/// What the roles of an encoding's functions may name.
struct Declared {
  explicit Declared(EncodingOp encoding)
      : states(getResultNames(encoding, ModelFunction::InitialState)),
        produced(getResultNames(encoding, ModelFunction::Produce)) {
    for (Operation &op : encoding.getBody().front())
      if (isa<OptionOp, ParamOp, InputOp>(op))
        ops[op.getAttrOfType<StringAttr>("name")] = &op;
  }

  llvm::DenseMap<StringAttr, Operation *> ops;
  Names states;
  Names produced;
};
} // namespace

/// "@gated: @produce: ", which begins the errors about a function.
static InFlightDiagnostic report(func::FuncOp function) {
  return function.emitError()
         << "@" << cast<EncodingOp>(function->getParentOp()).getSymName()
         << ": @" << function.getSymName() << ": ";
}

/// Whether an argument has the type of what it names; ranks and elements count,
/// sizes follow where the encoding is used.
static LogicalResult verifyType(func::FuncOp function, unsigned number,
                                Operation *named) {
  Type want = named->getResult(0).getType();
  Type got = function.getArgument(number).getType();
  auto shape = dyn_cast<RankedTensorType>(want);
  auto gotShape = dyn_cast<RankedTensorType>(got);
  bool fits = shape && gotShape
                  ? shape.getRank() == gotShape.getRank() &&
                        shape.getElementType() == gotShape.getElementType()
                  : got == want;
  if (fits)
    return success();
  InFlightDiagnostic diag = report(function)
                            << "argument " << number << " must be " << want
                            << ", got " << got << " (F3)";
  diag.attachNote(named->getLoc()) << "declared here";
  return diag;
}

/// F3, of a name that an argument asks for.
static LogicalResult verifyName(func::FuncOp function, unsigned number,
                                Role role, ModelFunction which,
                                const Declared &declared) {
  bool isState = declared.states.contains(role.name);
  if (role.kind == RoleKind::Weighted) {
    if (isState)
      return success();
    return report(function) << "argument " << number << " asks for "
                            << role.name << ", weighted, which is no state "
                            << "that @initial_state gives (F3)";
  }
  if (Operation *named = declared.ops.lookup(role.name))
    return verifyType(function, number, named);
  bool seesStates = which != ModelFunction::InitialState;
  bool seesProduced = seesStates && which != ModelFunction::Produce;
  if ((seesStates && isState) ||
      (seesProduced && declared.produced.contains(role.name)))
    return success();
  return report(function) << "argument " << number << " asks for " << role.name
                          << ", which is no option, parameter or input of "
                          << "the encoding"
                          << (seesStates ? " and no state" : "")
                          << (seesProduced ? " or tensor that it makes" : "")
                          << " (F3)";
}

static LogicalResult verifyArguments(func::FuncOp function, ModelFunction which,
                                     const Declared &declared) {
  SmallVector<RoleKind> kinds = getKinds(which);
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    std::optional<Role> role = getArgumentRole(function, i);
    if (!role)
      return report(function) << "argument " << i << " has no role: give it '"
                              << kRoleAttr << "' (F2)";
    if (!llvm::is_contained(kinds, role->kind)) {
      InFlightDiagnostic diag = report(function)
                                << "argument " << i << " asks for '"
                                << spell(role->kind)
                                << "', which is not known there (F3)";
      llvm::interleaveComma(llvm::map_range(kinds, spell), diag.attachNote()
                                                               << "known are ");
      return diag;
    }
    bool isOption = bool(function.getArgAttr(i, kOptionAttr));
    if (isOption && !isa_and_present<OptionOp>(declared.ops.lookup(role->name)))
      return report(function)
             << "argument " << i << " asks for the option " << role->name
             << ", which the encoding lacks (F3)";
    if (role->hasName() &&
        failed(verifyName(function, i, *role, which, declared)))
      return failure();
  }
  return success();
}

static LogicalResult verifyLossResults(func::FuncOp function) {
  Type type = function.getNumResults() == 1 ? function.getResultTypes().front()
                                            : Type();
  auto scalar = dyn_cast_or_null<RankedTensorType>(type);
  if (scalar && scalar.getRank() == 0 && scalar.getElementType().isF32())
    return success();
  return report(function) << "gives " << function.getResultTypes()
                          << ", but a loss is one tensor<f32>";
}

/// Whether a result may have a name: that of nothing yet, or of a parameter
/// that the caller of attention would give.
static LogicalResult verifyFilled(func::FuncOp function, unsigned number,
                                  StringAttr name, const Declared &declared) {
  Operation *named = declared.ops.lookup(name);
  auto param = dyn_cast_or_null<ParamOp>(named);
  if (!named || (param && !param.getInit() && param.getInitBody().empty()))
    return success();
  InFlightDiagnostic diag = report(function)
                            << "result " << number << " cannot fill " << name
                            << ", which is no parameter without initial value "
                               "(F3)";
  diag.attachNote(named->getLoc()) << "declared here";
  return diag;
}

/// F2 to F4, of the results of a function other than a loss.
static LogicalResult verifyResults(func::FuncOp function, ModelFunction which,
                                   const Declared &declared) {
  bool updates = which == ModelFunction::AfterAttention ||
                 which == ModelFunction::AfterMlp;
  Names filled;
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    std::optional<Role> role = getResultRole(function, i);
    if (!role || role->kind != RoleKind::Named)
      return report(function) << "result " << i << " has no name: give it '"
                              << kRoleAttr << "' (F2)";
    if (updates && !declared.states.contains(role->name))
      return report(function) << "result " << i << " is " << role->name
                              << ", which is no state that @initial_state "
                                 "gives (F3)";
    if (failed(verifyFilled(function, i, role->name, declared)))
      return failure();
    bool isState =
        which == ModelFunction::Produce && declared.states.contains(role->name);
    if (!filled.insert(role->name) || isState)
      return report(function) << "result " << i << " fills " << role->name
                              << " a second time (F4)";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Bodies (F1, F5, F6)
//===----------------------------------------------------------------------===//

static bool isFloatTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && isa<FloatType>(tensor.getElementType());
}

static bool mayStandInFunction(Operation *op) {
  StringRef dialect = op->getName().getDialectNamespace();
  bool isScalar =
      llvm::none_of(op->getResultTypes(), llvm::IsaPred<ShapedType>);
  return llvm::is_contained({"nn", "pos", "arith", "tensor"}, dialect) ||
         (dialect == "math" && isScalar) ||
         isa<func::ReturnOp, func::CallOp, scf::IfOp, scf::ForOp, scf::YieldOp>(
             op);
}

/// Whether gradients pass through an op without a derivative of its own: it is
/// gone before derivatives are made.
static bool isReplaced(Operation *op) {
  return isa<func::CallOp, scf::IfOp, scf::ForOp, scf::YieldOp, DropoutOp>(op);
}

/// F5 and F6, of an op and those in its regions. `active` are values that
/// depend on floats of an argument; those that a loop carries from round to
/// round are taken to.
static LogicalResult verifyOp(func::FuncOp function, Operation &op,
                              llvm::DenseSet<Value> &active) {
  if (!mayStandInFunction(&op)) {
    InFlightDiagnostic diag = report(function)
                              << "'" << op.getName()
                              << "' may not stand in a function of an "
                                 "encoding (F5)";
    diag.attachNote(op.getLoc()) << "it stands here";
    return diag;
  }
  auto addFloats = [&](ValueRange values) {
    for (Value value : values)
      if (isFloatTensor(value.getType()))
        active.insert(value);
  };
  bool hasBody = isa<scf::IfOp, scf::ForOp>(op);
  if (hasBody)
    for (Region &region : op.getRegions())
      for (Block &block : region) {
        addFloats(block.getArguments());
        for (Operation &inner : block)
          if (failed(verifyOp(function, inner, active)))
            return failure();
      }
  bool makesFloats = llvm::any_of(op.getResultTypes(), isFloatTensor);
  bool isActive = hasBody || llvm::any_of(op.getOperands(), [&](Value operand) {
                    return active.contains(operand);
                  });
  if (!makesFloats || !isActive || op.hasTrait<nn::StopsGradients>())
    return success();
  if (!isReplaced(&op) && !isa<DifferentiableOpInterface>(op)) {
    InFlightDiagnostic diag = report(function) << "'" << op.getName()
                                               << "' has no derivative (F6)";
    diag.attachNote(op.getLoc()) << "it stands here";
    return diag;
  }
  addFloats(op.getResults());
  return success();
}

static LogicalResult verifyBody(func::FuncOp function) {
  if (!function.getBody().hasOneBlock())
    return report(function) << "expected a body of one block (F1)";
  llvm::DenseSet<Value> active;
  for (Value argument : function.getArguments())
    if (isFloatTensor(argument.getType()))
      active.insert(argument);
  for (Operation &op : function.front())
    if (failed(verifyOp(function, op, active)))
      return failure();
  return success();
}

/// Follows the calls of helpers from a function; `open` are those that the
/// call is in.
static LogicalResult verifyCalls(func::FuncOp function, EncodingOp encoding,
                                 SmallVectorImpl<func::FuncOp> &open) {
  open.push_back(function);
  WalkResult calls = function.walk([&](func::CallOp call) -> WalkResult {
    auto callee = encoding.lookupSymbol<func::FuncOp>(call.getCallee());
    if (!callee || !callee.isPrivate())
      return report(function) << "calls @" << call.getCallee()
                              << ", which is no helper of the encoding (F5)";
    if (llvm::is_contained(open, callee))
      return report(function)
             << "calls @" << call.getCallee() << ", which calls itself (F5)";
    return verifyCalls(callee, encoding, open);
  });
  open.pop_back();
  return failure(calls.wasInterrupted());
}

static LogicalResult verifyHelper(func::FuncOp function) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (getArgumentRole(function, i))
      return report(function)
             << "argument " << i << " has a role, but this is a helper (F2)";
  return success();
}

/// Names of tensors of the model cannot be given to anything else that a role
/// names.
static LogicalResult verifyNotReserved(EncodingOp encoding) {
  for (Operation &op : encoding.getBody().front())
    if (isa<ParamOp, InputOp>(op)) {
      auto name = op.getAttrOfType<StringAttr>("name");
      if (readRole(name, {})->kind != RoleKind::Named)
        return op.emitOpError("name ")
               << name << " is that of a role of the model's tensors";
    }
  return success();
}

static std::optional<ModelFunction> findModelFunction(func::FuncOp function) {
  const auto *found = llvm::find(kModelFunctions, function.getSymName());
  if (found == std::end(kModelFunctions))
    return std::nullopt;
  return static_cast<ModelFunction>(found - std::begin(kModelFunctions));
}

OpFoldResult DropoutOp::fold(FoldAdaptor adaptor) {
  auto probability = dyn_cast_or_null<FloatAttr>(adaptor.getProbability());
  return probability && probability.getValue().isZero() ? getInput() : Value();
}

LogicalResult pos::verifyFunctions(EncodingOp encoding) {
  if (encoding.getOps<func::FuncOp>().empty())
    return success();
  if (failed(verifyNotReserved(encoding)))
    return failure();
  Declared declared(encoding);
  for (auto function : encoding.getOps<func::FuncOp>()) {
    std::optional<ModelFunction> which = findModelFunction(function);
    if (!which && !function.isPrivate()) {
      InFlightDiagnostic diag =
          report(function) << "is neither one of the functions that a model "
                              "calls nor a private helper (F1)";
      llvm::interleaveComma(kModelFunctions, diag.attachNote()
                                                 << "a model calls ");
      return diag;
    }
    SmallVector<func::FuncOp> open;
    if (failed(verifyBody(function)) ||
        failed(verifyCalls(function, encoding, open)))
      return failure();
    if (!which) {
      if (failed(verifyHelper(function)))
        return failure();
      continue;
    }
    if (failed(verifyArguments(function, *which, declared)))
      return failure();
    if (failed(*which == ModelFunction::AuxiliaryLoss
                   ? verifyLossResults(function)
                   : verifyResults(function, *which, declared)))
      return failure();
  }
  return success();
}

//===- ConvertToExec.cpp - From nn ops to calls of ATen -------------------===//
//
// Ops that are one call of ATen go through their own description. The others
// (a split, a gradient, a check, a norm, the optimizer) stand for a few calls,
// made here.
//
//===----------------------------------------------------------------------===//

#include "dialects/Nn/IR/Nn.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "passes/Schedule/DenseCalls.h"
#include "passes/Schedule/GradientOfTaken.h"
#include "passes/Schedule/Memory.h"
#include "passes/Schedule/NarrowAddends.h"
#include "passes/Schedule/Schedule.h"
#include "passes/Schedule/Updates.h"
#include "llvm/ADT/TypeSwitch.h"

namespace sextant::passes {
#define GEN_PASS_DEF_CONVERTTOEXEC
#include "passes/Schedule/Schedule.h.inc"
} // namespace sextant::passes

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

static Type elementTypeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

//===----------------------------------------------------------------------===//
// Ops that stand for a few calls
//===----------------------------------------------------------------------===//

using Overwritable = llvm::DenseSet<OpOperand *>;

static void lower(nn::SplitOp op, OpBuilder &builder, const Overwritable &) {
  int64_t start = 0;
  for (auto [part, length] : llvm::zip_equal(op.getParts(), op.getLengths())) {
    nn::AtenArguments call(builder);
    call.tensor(op.getInput());
    call.integer(op.getDim());
    call.integer(start);
    call.integer(length);
    part.replaceAllUsesWith(createDenseValue(
        builder, op.getLoc(), "aten::narrow", call.get(), part.getType()));
    start += length;
  }
}

static void lower(nn::ScaleOp op, OpBuilder &builder,
                  const Overwritable &overwritable) {
  Value input = op.getInput();
  nn::AtenArguments call(builder);
  call.tensor(input);
  call.tensor(createScalar(builder, op.getLoc(), elementTypeOf(input),
                           op.getFactor().convertToDouble()));
  bool inPlace = overwritable.contains(&op.getInputMutable());
  if (inPlace)
    createDense(builder, op.getLoc(), "aten::mul_.Tensor", call.get(), {});
  op.getResult().replaceAllUsesWith(
      inPlace ? input
              : createDenseValue(builder, op.getLoc(), "aten::mul.Tensor",
                                 call.get(), op.getType()));
}

static void lower(nn::ClampOp op, OpBuilder &builder,
                  const Overwritable &overwritable) {
  Value input = op.getInput();
  auto bound = [&](std::optional<APFloat> value) {
    return value ? createScalar(builder, op.getLoc(), elementTypeOf(input),
                                value->convertToDouble())
                 : Value();
  };
  nn::AtenArguments call(builder);
  call.tensor(input);
  call.tensor(bound(op.getFloor()));
  call.tensor(bound(op.getCeiling()));
  bool inPlace = overwritable.contains(&op.getInputMutable());
  if (inPlace)
    createDense(builder, op.getLoc(), "aten::clamp_.Tensor", call.get(), {});
  op.getResult().replaceAllUsesWith(
      inPlace ? input
              : createDenseValue(builder, op.getLoc(), "aten::clamp.Tensor",
                                 call.get(), op.getType()));
}

static void lower(nn::IndexSelectBackwardOp op, OpBuilder &builder,
                  const Overwritable &) {
  op.getResult().replaceAllUsesWith(createGradientOfTaken(builder, op));
}

/// ATen has an operator for it on the CPU alone, and its assertions on a GPU
/// end the process. The word that `exec.check_data` looks at says the same
/// anywhere.
static void lower(nn::RequireOp op, OpBuilder &builder, const Overwritable &) {
  Location loc = op.getLoc();
  Type i64 = builder.getI64Type();
  nn::AtenArguments cast(builder);
  cast.tensor(op.getCondition());
  cast.dtype(i64);
  Value word = createDenseValue(builder, loc, "aten::_to_copy", cast.get(),
                                RankedTensorType::get({}, i64));
  nn::AtenArguments unsqueeze(builder);
  unsqueeze.tensor(word);
  unsqueeze.integer(0);
  Value vector =
      createDenseValue(builder, loc, "aten::unsqueeze", unsqueeze.get(),
                       RankedTensorType::get({1}, i64));
  Value holds = arith::ConstantIndexOp::create(builder, loc, 1);
  exec::CheckDataOp::create(builder, loc, vector, 0, exec::Predicate::is, holds,
                            op.getMessage());
  op.getResult().replaceAllUsesWith(op.getInput());
}

/// The mask is multiplied where it was made.
static void lower(nn::DropoutOp op, OpBuilder &builder, const Overwritable &) {
  Location loc = op.getLoc();
  Value input = op.getInput();
  double kept = 1.0 - op.getProbability().convertToDouble();
  auto counter = cast<RankedTensorType>(op.getSeed().getType());
  Value place = arith::ConstantOp::create(
      builder, loc,
      DenseElementsAttr::get(counter, static_cast<int64_t>(op.getPlace())));
  nn::AtenArguments draw(builder);
  draw.tensor(input);
  draw.real(APFloat(kept));
  draw.tensors({op.getSeed(), op.getStep(), place});
  Value mask = createDenseValue(builder, loc, "aten::bernoulli.p", draw.get(),
                                op.getType());
  for (Value factor :
       {input, createScalar(builder, loc, elementTypeOf(input), 1.0 / kept)}) {
    nn::AtenArguments call(builder);
    call.tensor(mask);
    call.tensor(factor);
    createDense(builder, loc, "aten::mul_.Tensor", call.get(), {});
  }
  op.getResult().replaceAllUsesWith(mask);
}

/// Whether a call costs more than the elements of a tensor.
static bool isSmall(Value tensor) {
  constexpr int64_t mostElements = 1 << 14;
  auto type = cast<RankedTensorType>(tensor.getType());
  return type.hasStaticShape() && type.getNumElements() <= mostElements;
}

/// The tensors as vectors: each large one, and what small ones are end to end.
static SmallVector<Value> makeVectors(OpBuilder &builder, Location loc,
                                      ValueRange tensors) {
  SmallVector<Value> large, small;
  for (Value tensor : tensors) {
    nn::AtenArguments flatten(builder);
    flatten.tensor(tensor);
    flatten.integers({-1});
    (isSmall(tensor) ? small : large)
        .push_back(
            createDenseValue(builder, loc, "aten::reshape", flatten.get(),
                             RankedTensorType::get({ShapedType::kDynamic},
                                                   elementTypeOf(tensor))));
  }
  if (small.size() > 1) {
    nn::AtenArguments join(builder);
    join.tensors(small);
    join.integer(0);
    small = {createDenseValue(builder, loc, "aten::cat", join.get(),
                              small.front().getType())};
  }
  large.append(small);
  return large;
}

static void lower(nn::GlobalNormOp op, OpBuilder &builder,
                  const Overwritable &) {
  Location loc = op.getLoc();
  Type scalar = op.getType();
  SmallVector<Value> squares;
  for (Value vector : makeVectors(builder, loc, op.getTensors())) {
    nn::AtenArguments dot(builder);
    dot.tensor(vector);
    dot.tensor(vector);
    squares.push_back(
        createDenseValue(builder, loc, "aten::dot", dot.get(), scalar));
  }
  auto list = RankedTensorType::get({static_cast<int64_t>(squares.size())},
                                    elementTypeOf(op.getResult()));
  nn::AtenArguments stack(builder);
  stack.tensors(squares);
  stack.integer(0);
  Value all = createDenseValue(builder, loc, "aten::stack", stack.get(), list);
  nn::AtenArguments sum(builder);
  sum.tensor(all);
  sum.integers({0});
  sum.boolean(false);
  Value total = createDenseValue(builder, loc, "aten::sum.dim_IntList",
                                 sum.get(), scalar);
  nn::AtenArguments root(builder);
  root.tensor(total);
  op.getResult().replaceAllUsesWith(
      createDenseValue(builder, loc, "aten::sqrt", root.get(), scalar));
}

/// `strided`: gradients that may not lie in memory as the parameters do, which
/// the operator asks for.
static void lower(nn::AdamWOp op, OpBuilder &builder,
                  const Overwritable &overwritable,
                  const llvm::DenseSet<OpOperand *> &strided) {
  size_t count = op.getParams().size();
  // The operands as they are if they may be overwritten, else copies.
  auto owned = [&](MutableOperandRange operands) {
    return llvm::map_to_vector(operands, [&](OpOperand &operand) -> Value {
      Value value = operand.get();
      if (overwritable.contains(&operand))
        return value;
      nn::AtenArguments call(builder);
      call.tensor(value);
      return createDenseValue(builder, op.getLoc(), "aten::clone", call.get(),
                              value.getType());
    });
  };
  SmallVector<Value> params = owned(op.getParamsMutable()),
                     first = owned(op.getFirstMomentsMutable()),
                     second = owned(op.getSecondMomentsMutable());
  // The operator divides gradients by their scale in place.
  SmallVector<Value> gradients(op.getGradients());
  if (op.getGradientScale())
    gradients = owned(op.getGradientsMutable());
  for (auto [gradient, operand] :
       llvm::zip_equal(gradients, op.getGradientsMutable())) {
    if (!strided.contains(&operand))
      continue;
    nn::AtenArguments call(builder);
    call.tensor(gradient);
    gradient = createDenseValue(builder, op.getLoc(), "aten::contiguous",
                                call.get(), gradient.getType());
  }
  nn::AtenArguments call(builder);
  call.tensors(params);
  call.tensors(gradients);
  call.tensors(first);
  call.tensors(second);
  call.tensors({}); // maximal second moments, of amsgrad
  call.tensors(SmallVector<Value>(count, op.getStep()));
  call.tensor(op.getRate());
  for (Attribute beta : op.getBetas())
    call.real(cast<FloatAttr>(beta).getValue());
  call.real(op.getDecay());
  call.real(op.getEpsilon());
  call.boolean(false); // amsgrad
  call.boolean(false); // maximize
  call.tensor(op.getGradientScale());
  call.none(); // found_inf
  createDense(builder, op.getLoc(), "aten::_fused_adamw_.tensor_lr", call.get(),
              {});
  for (auto [results, values] : {std::pair(op.getNewParams(), params),
                                 std::pair(op.getNewFirstMoments(), first),
                                 std::pair(op.getNewSecondMoments(), second)})
    for (auto [result, value] : llvm::zip_equal(results, values))
      result.replaceAllUsesWith(value);
}

/// A tensor filled with a constant; zeros need no call.
static LogicalResult lower(tensor::SplatOp op, OpBuilder &builder) {
  Attribute value;
  if (!matchPattern(op.getInput(), m_Constant(&value)))
    return op.emitOpError("expected a constant");
  auto type = cast<RankedTensorType>(op.getType());
  Location loc = op.getLoc();
  if (matchPattern(value, m_AnyZeroFloat()) || matchPattern(value, m_Zero())) {
    op.getResult().replaceAllUsesWith(exec::AllocOp::create(
        builder, loc, type, op.getDynamicSizes(), /*zero=*/true));
    return success();
  }
  if (type.getRank() == 0) {
    op.getResult().replaceAllUsesWith(arith::ConstantOp::create(
        builder, loc, DenseElementsAttr::get(type, value)));
    return success();
  }
  nn::AtenArguments call(builder);
  call.shape(type, op.getDynamicSizes());
  if (auto integer = dyn_cast<IntegerAttr>(value))
    call.integer(integer.getInt());
  else
    call.real(cast<FloatAttr>(value).getValue());
  call.dtype(type.getElementType());
  op.getResult().replaceAllUsesWith(
      createDenseValue(builder, loc, "aten::full", call.get(), type));
  return success();
}

static void lower(nn::ParameterOp op, OpBuilder &builder) {
  auto init = static_cast<exec::Init>(op.getInit());
  auto parameter = exec::ParameterOp::create(
      builder, op.getLoc(), op.getName(), op.getType(), init,
      op.getInitArgsAttr(), op.getValuesAttr(), op.getFrozen(),
      /*shared=*/false, op.getFloorAttr(), op.getCeilingAttr());
  for (NamedAttribute attribute : op->getDiscardableAttrs())
    parameter->setAttr(attribute.getName(), attribute.getValue());
  if (op.getDecay())
    parameter->setAttr("decay", builder.getI64IntegerAttr(1));
}

/// `aten::narrow` would count a negative start from the end, its derivative
/// would not.
static void checkStart(nn::SliceOp op, OpBuilder &builder) {
  if (!op.getStartValue())
    return;
  Value zero = arith::ConstantIndexOp::create(builder, op.getLoc(), 0);
  exec::CheckOp::create(builder, op.getLoc(), zero, exec::Predicate::at_most,
                        op.getStartValue(), "the start of a slice is negative");
}

/// The gradients of optimizers that may be strided.
static llvm::DenseSet<OpOperand *> findStridedGradients(Block &block) {
  llvm::DenseSet<OpOperand *> strided;
  for (auto optimizer : block.getOps<nn::AdamWOp>())
    for (OpOperand &gradient : optimizer.getGradientsMutable())
      if (mayBeStrided(gradient.get()))
        strided.insert(&gradient);
  return strided;
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
/// Lowers one function after the other.
class ConvertToExec : public passes::impl::ConvertToExecBase<ConvertToExec> {
public:
  using ConvertToExecBase::ConvertToExecBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isExternal() && failed(lowerFunction(function)))
        return signalPassFailure();
    for (auto parameter :
         llvm::make_early_inc_range(module.getOps<nn::ParameterOp>())) {
      OpBuilder builder(parameter);
      lower(parameter, builder);
      parameter.erase();
    }
  }

private:
  LogicalResult lowerFunction(func::FuncOp function) {
    if (!function.getBody().hasOneBlock())
      return function.emitOpError("expected a body of one block");
    readNarrowAddends(function.front());
    Overwritable overwritable =
        findOverwritable(function.front(), findUpdatedArguments(function));
    copySharedValues(function, overwritable);
    SmallVector<Operation *> ops;
    for (Operation &op : function.front())
      ops.push_back(&op);
    strided = findStridedGradients(function.front());
    calls = inPlace = 0;
    for (Operation *op : ops)
      if (failed(lowerOp(op, overwritable)))
        return failure();
    numCalls += calls;
    numInPlace += inPlace;
    remark::passed(
        function.getLoc(),
        remark::RemarkOpts::name("scheduled").category(getArgument()))
        << remark::metric("Ops", calls) << remark::metric("InPlace", inPlace);
    writeUpdatesIntoArguments(function);
    nameMarkedValues(function);
    return success();
  }

  LogicalResult lowerOp(Operation *op, const Overwritable &overwritable) {
    OpBuilder builder(op);
    if (auto aten = dyn_cast<nn::AtenOpInterface>(op)) {
      lowerCall(aten, builder, overwritable);
    } else if (auto splat = dyn_cast<tensor::SplatOp>(op)) {
      if (failed(lower(splat, builder)))
        return failure();
    } else {
      bool known = llvm::TypeSwitch<Operation *, bool>(op)
                       .Case<nn::AdamWOp>([&](auto typed) {
                         lower(typed, builder, overwritable, strided);
                         return true;
                       })
                       .Case<nn::ClampOp, nn::DropoutOp, nn::GlobalNormOp,
                             nn::IndexSelectBackwardOp, nn::RequireOp,
                             nn::ScaleOp, nn::SplitOp>([&](auto typed) {
                         lower(typed, builder, overwritable);
                         return true;
                       })
                       .Default(false);
      if (!known)
        return success();
    }
    ++calls;
    op->erase();
    return success();
  }

  void lowerCall(nn::AtenOpInterface op, OpBuilder &builder,
                 const Overwritable &overwritable) {
    if (auto slice = dyn_cast<nn::SliceOp>(*op))
      checkStart(slice, builder);
    nn::AtenArguments call(builder);
    op.buildAtenArguments(call);
    OpOperand *operand = getOverwritten(op->getResult(0));
    if (operand && overwritable.contains(operand)) {
      nn::InPlaceForm form = op.getInPlaceForm();
      Value target = operand->get();
      if (form.appendsOut)
        call.tensor(target);
      createDense(builder, op.getLoc(), form.name, call.get(), {});
      op->getResult(0).replaceAllUsesWith(target);
      ++inPlace;
      return;
    }
    exec::DenseOp dense = createDense(builder, op.getLoc(), op.getAtenName(),
                                      call.get(), op->getResultTypes());
    op->replaceAllUsesWith(dense);
  }

  /// Of the function at hand.
  llvm::DenseSet<OpOperand *> strided;
  unsigned calls = 0, inPlace = 0;
};
} // namespace

//===- TrainingStep.cpp - Clipping and the optimizer's update -------------===//
//
// Gradients are scaled by min(1, clip / (norm + epsilon)), parameters with and
// without weight decay are updated apart, and bounded parameters are clamped
// last.
//
//===----------------------------------------------------------------------===//

#include "passes/Gradient/TrainingStep.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

/// Keeps the division by the norm finite, as torch.nn.utils.clip_grad_norm_.
static constexpr double kNormEpsilon = 1e-6;

NamedAttribute passes::markOf(StringRef mark, nn::ParameterOp parameter) {
  return NamedAttribute(StringAttr::get(parameter.getContext(), mark),
                        parameter.getNameAttr());
}

void passes::appendResults(func::FuncOp function, ValueRange values,
                           ArrayRef<NamedAttribute> attributes) {
  Operation *terminator = function.front().getTerminator();
  unsigned first = function.getNumResults();
  terminator->insertOperands(first, values);
  SmallVector<unsigned> places(values.size(), first);
  SmallVector<DictionaryAttr> dictionaries =
      llvm::map_to_vector(attributes, [](NamedAttribute attribute) {
        return DictionaryAttr::get(attribute.getName().getContext(), attribute);
      });
  (void)function.insertResults(places, values.getTypes(), dictionaries);
}

static Value addArgument(func::FuncOp function, Type type,
                         NamedAttribute attribute) {
  unsigned number = function.getNumArguments();
  (void)function.insertArgument(
      number, type, DictionaryAttr::get(function.getContext(), attribute),
      function.getLoc());
  return function.getArgument(number);
}

static Value scalar(OpBuilder &builder, Location loc, double value) {
  auto type = RankedTensorType::get({}, builder.getF32Type());
  return arith::ConstantOp::create(
      builder, loc, DenseElementsAttr::get(type, static_cast<float>(value)));
}

/// What gradients are divided by: max((norm + epsilon) / clip, 1).
static Value clippingScale(OpBuilder &builder, Location loc, Value norm,
                           double clip) {
  if (clip <= 0.0)
    return {};
  Value shifted =
      nn::AddOp::create(builder, loc, norm, scalar(builder, loc, kNormEpsilon));
  Value ratio = nn::ScaleOp::create(builder, loc, shifted,
                                    builder.getF64FloatAttr(1.0 / clip));
  return nn::MaximumOp::create(builder, loc, ratio, scalar(builder, loc, 1.0));
}

void passes::appendUpdate(func::FuncOp function, nn::AdamWAttr optimizer,
                          ArrayRef<TrainedParameter> trained, ValueRange params,
                          ValueRange gradients) {
  OpBuilder builder(function.front().getTerminator());
  Location loc = function.getLoc();
  auto f32Scalar = RankedTensorType::get({}, builder.getF32Type());
  auto mark = [&](StringRef name) {
    return builder.getNamedAttr(name, builder.getUnitAttr());
  };

  Value rate = addArgument(function, f32Scalar, mark(nn::kRateAttr));
  Value step = addArgument(function, f32Scalar, mark(nn::kStepAttr));
  SmallVector<Value> first, second;
  for (auto [param, entry] : llvm::zip_equal(params, trained))
    first.push_back(
        addArgument(function, param.getType(),
                    markOf(nn::kFirstMomentAttr, entry.definition)));
  for (auto [param, entry] : llvm::zip_equal(params, trained))
    second.push_back(
        addArgument(function, param.getType(),
                    markOf(nn::kSecondMomentAttr, entry.definition)));

  Value norm = nn::GlobalNormOp::create(builder, loc, f32Scalar, gradients);
  Value scale =
      clippingScale(builder, loc, norm, optimizer.getClip().getValueAsDouble());

  SmallVector<Value> newParams(params.size()), newFirst(params.size()),
      newSecond(params.size());
  for (bool decayed : {true, false}) {
    SmallVector<unsigned> group;
    for (auto [i, entry] : llvm::enumerate(trained))
      if (nn::ParameterOp(entry.definition).getDecay() == decayed)
        group.push_back(i);
    if (group.empty())
      continue;
    auto pick = [&](ValueRange values) {
      return llvm::map_to_vector(
          group, [&](unsigned i) -> Value { return values[i]; });
    };
    auto update = nn::AdamWOp::create(
        builder, loc, pick(params), pick(gradients), pick(first), pick(second),
        step, rate, scale,
        decayed ? optimizer.getDecay() : builder.getF64FloatAttr(0.0),
        builder.getArrayAttr({optimizer.getBeta1(), optimizer.getBeta2()}),
        optimizer.getEpsilon());
    for (auto [i, p, m, v] : llvm::zip_equal(group, update.getNewParams(),
                                             update.getNewFirstMoments(),
                                             update.getNewSecondMoments())) {
      newParams[i] = p;
      newFirst[i] = m;
      newSecond[i] = v;
    }
  }
  for (auto [param, entry] : llvm::zip_equal(newParams, trained)) {
    nn::ParameterOp definition = entry.definition;
    if (definition.getFloor() || definition.getCeiling())
      param =
          nn::ClampOp::create(builder, loc, param, definition.getFloorAttr(),
                              definition.getCeilingAttr());
  }

  Value next = nn::AddOp::create(builder, loc, step, scalar(builder, loc, 1.0));
  SmallVector<Value> values{norm, next};
  SmallVector<NamedAttribute> attributes{
      builder.getNamedAttr(nn::kNormAttr, builder.getUnitAttr()),
      mark(nn::kStepAttr)};
  auto append = [&](StringRef name, ValueRange group) {
    for (auto [value, entry] : llvm::zip_equal(group, trained)) {
      values.push_back(value);
      attributes.push_back(markOf(name, entry.definition));
    }
  };
  append(nn::kParameterAttr, newParams);
  append(nn::kFirstMomentAttr, newFirst);
  append(nn::kSecondMomentAttr, newSecond);
  appendResults(function, values, attributes);
}

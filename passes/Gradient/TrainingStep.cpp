//===- TrainingStep.cpp - Clipping and the optimizer's update -------------===//
//
// Gradients are scaled by min(1, clip / (norm + epsilon)), parameters of
// different settings, and those with and without weight decay, are updated
// apart, and bounded parameters are clamped last.
//
//===----------------------------------------------------------------------===//

#include "passes/Gradient/TrainingStep.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

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

namespace {
/// Parameters that one op updates: numbers among those that are trained.
struct UpdateGroup {
  nn::GroupAttr settings; ///< null: those of the optimizer
  bool isDecayed = false;
  SmallVector<unsigned> members;
};

/// New values of parameters and moments.
struct Updated {
  SmallVector<Value> params, first, second;
};

/// Emits the update of all trained parameters.
class Update {
public:
  Update(OpBuilder &builder, Location loc, nn::AdamWAttr optimizer,
         ArrayRef<TrainedParameter> trained)
      : builder(builder), loc(loc), optimizer(optimizer), trained(trained) {}

  Value step, rate;
  SmallVector<Value> first, second; ///< moments

  /// The norm of what is clipped together by the optimizer's own bound.
  Value emitNorms(ValueRange gradients);
  Updated emit(ValueRange params, ValueRange gradients);

private:
  SmallVector<UpdateGroup> getGroups() const;
  nn::GroupAttr find(nn::ParameterOp parameter) const;
  Value emitNorm(ArrayRef<unsigned> members, ValueRange gradients);
  void emitGroup(const UpdateGroup &group, ValueRange params,
                 ValueRange gradients, Updated &updated);

  OpBuilder &builder;
  Location loc;
  nn::AdamWAttr optimizer;
  ArrayRef<TrainedParameter> trained;
  /// What gradients are divided by, by settings with a bound of their own; null
  /// stands for those of the optimizer.
  llvm::MapVector<nn::GroupAttr, Value> scales;
};
} // namespace

nn::GroupAttr Update::find(nn::ParameterOp parameter) const {
  for (nn::GroupAttr group : optimizer.getGroups())
    if (group.getName() == parameter.getGroupAttr())
      return group;
  return {};
}

SmallVector<UpdateGroup> Update::getGroups() const {
  SmallVector<UpdateGroup> groups;
  for (bool isDecayed : {true, false})
    for (auto [i, entry] : llvm::enumerate(trained)) {
      nn::ParameterOp parameter = entry.definition;
      if (parameter.getDecay() != isDecayed)
        continue;
      nn::GroupAttr settings = find(parameter);
      auto *known = llvm::find_if(groups, [&](const UpdateGroup &group) {
        return group.settings == settings && group.isDecayed == isDecayed;
      });
      if (known == groups.end())
        known = &groups.emplace_back(UpdateGroup{settings, isDecayed, {}});
      known->members.push_back(i);
    }
  return groups;
}

Value Update::emitNorm(ArrayRef<unsigned> members, ValueRange gradients) {
  if (members.empty())
    return scalar(builder, loc, 0.0);
  SmallVector<Value> picked = llvm::map_to_vector(
      members, [&](unsigned i) -> Value { return gradients[i]; });
  auto type = RankedTensorType::get({}, builder.getF32Type());
  return nn::GlobalNormOp::create(builder, loc, type, picked);
}

Value Update::emitNorms(ValueRange gradients) {
  llvm::MapVector<nn::GroupAttr, SmallVector<unsigned>> clipped;
  clipped[{}]; // First, and there if no parameter is of it.
  for (auto [i, entry] : llvm::enumerate(trained)) {
    nn::GroupAttr settings = find(entry.definition);
    clipped[settings && settings.getClip() ? settings : nn::GroupAttr()]
        .push_back(i);
  }
  Value common;
  for (auto &[settings, members] : clipped) {
    Value norm = emitNorm(members, gradients);
    FloatAttr clip = settings ? settings.getClip() : optimizer.getClip();
    scales[settings] =
        clippingScale(builder, loc, norm, clip.getValueAsDouble());
    if (!settings)
      common = norm;
  }
  return common;
}

void Update::emitGroup(const UpdateGroup &group, ValueRange params,
                       ValueRange gradients, Updated &updated) {
  auto pick = [&](ValueRange values) {
    return llvm::map_to_vector(group.members,
                               [&](unsigned i) -> Value { return values[i]; });
  };
  nn::GroupAttr settings = group.settings;
  FloatAttr decay = optimizer.getDecay();
  Value ownRate = rate;
  if (settings) {
    if (settings.getDecay())
      decay = settings.getDecay();
    if (settings.getRate().getValueAsDouble() != 1.0)
      ownRate = nn::ScaleOp::create(builder, loc, rate, settings.getRate());
  }
  Value scale = scales.lookup(settings && settings.getClip() ? settings
                                                             : nn::GroupAttr());
  auto update = nn::AdamWOp::create(
      builder, loc, pick(params), pick(gradients), pick(first), pick(second),
      step, ownRate, scale,
      group.isDecayed ? decay : builder.getF64FloatAttr(0.0),
      builder.getArrayAttr({optimizer.getBeta1(), optimizer.getBeta2()}),
      optimizer.getEpsilon());
  for (auto [i, p, m, v] : llvm::zip_equal(group.members, update.getNewParams(),
                                           update.getNewFirstMoments(),
                                           update.getNewSecondMoments())) {
    updated.params[i] = p;
    updated.first[i] = m;
    updated.second[i] = v;
  }
}

Updated Update::emit(ValueRange params, ValueRange gradients) {
  size_t count = params.size();
  Updated updated{SmallVector<Value>(count), SmallVector<Value>(count),
                  SmallVector<Value>(count)};
  for (const UpdateGroup &group : getGroups())
    emitGroup(group, params, gradients, updated);
  for (auto [param, entry] : llvm::zip_equal(updated.params, trained)) {
    nn::ParameterOp definition = entry.definition;
    if (definition.getFloor() || definition.getCeiling())
      param =
          nn::ClampOp::create(builder, loc, param, definition.getFloorAttr(),
                              definition.getCeilingAttr());
  }
  return updated;
}

LogicalResult passes::verifyGroups(func::FuncOp loss, nn::AdamWAttr optimizer,
                                   ArrayRef<TrainedParameter> trained) {
  llvm::SmallSetVector<StringAttr, 4> names;
  for (nn::GroupAttr group : optimizer.getGroups())
    if (!names.insert(group.getName()))
      return loss.emitError("the optimizer has two groups ") << group.getName();
  for (const TrainedParameter &entry : trained) {
    nn::ParameterOp parameter = entry.definition;
    StringAttr group = parameter.getGroupAttr();
    if (!group || names.contains(group))
      continue;
    InFlightDiagnostic diag =
        parameter.emitOpError("is of group ")
        << group << ", which the optimizer of the loss does not have";
    diag.attachNote(loss.getLoc()) << "the loss";
    return diag;
  }
  return success();
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
  Update update(builder, loc, optimizer, trained);
  update.rate = addArgument(function, f32Scalar, mark(nn::kRateAttr));
  update.step = addArgument(function, f32Scalar, mark(nn::kStepAttr));
  auto addMoments = [&](StringRef name, SmallVector<Value> &moments) {
    for (auto [param, entry] : llvm::zip_equal(params, trained))
      moments.push_back(addArgument(function, param.getType(),
                                    markOf(name, entry.definition)));
  };
  addMoments(nn::kFirstMomentAttr, update.first);
  addMoments(nn::kSecondMomentAttr, update.second);

  Value norm = update.emitNorms(gradients);
  Updated updated = update.emit(params, gradients);
  Value next =
      nn::AddOp::create(builder, loc, update.step, scalar(builder, loc, 1.0));
  SmallVector<Value> values{norm, next};
  SmallVector<NamedAttribute> attributes{mark(nn::kNormAttr),
                                         mark(nn::kStepAttr)};
  auto append = [&](StringRef name, ValueRange group) {
    for (auto [value, entry] : llvm::zip_equal(group, trained)) {
      values.push_back(value);
      attributes.push_back(markOf(name, entry.definition));
    }
  };
  append(nn::kParameterAttr, updated.params);
  append(nn::kFirstMomentAttr, updated.first);
  append(nn::kSecondMomentAttr, updated.second);
  appendResults(function, values, attributes);
}

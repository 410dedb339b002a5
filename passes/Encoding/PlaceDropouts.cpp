//===- PlaceDropouts.cpp - Dropouts of encodings in a model ---------------===//
//
// A function of an encoding says where a training drops; what it is called from
// says whether it does, and with which seed and step. After inlining each call
// has its own dropouts, which are numbered here.
//
//===----------------------------------------------------------------------===//

#include "dialects/Nn/IR/Nn.h"
#include "dialects/Pos/IR/Pos.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "passes/Passes.h"

namespace sextant::passes {
#define GEN_PASS_DEF_PLACEDROPOUTS
#include "passes/Passes.h.inc"
} // namespace sextant::passes

using namespace mlir;
using namespace sextant;

/// The argument that is marked as `which` of the numbers that dropouts draw
/// from, or null.
static Value findArgument(func::FuncOp function, StringRef which) {
  for (BlockArgument argument : function.getArguments()) {
    auto mark = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                      nn::kRandomAttr);
    if (mark && mark.getValue() == which)
      return argument;
  }
  return {};
}

/// The first place behind those that dropouts of the function have.
static int64_t findFreePlace(func::FuncOp function) {
  int64_t free = 0;
  function.walk([&](nn::DropoutOp op) {
    free = std::max(free, static_cast<int64_t>(op.getPlace()) + 1);
  });
  return free;
}

/// The same dropout with a seed, a step and a place.
static FailureOr<Value> draw(pos::DropoutOp dropout, Value seed, Value step,
                             int64_t place) {
  FloatAttr probability;
  if (!matchPattern(dropout.getProbability(), m_Constant(&probability)))
    return dropout.emitOpError("expected a probability that options decide");
  double value = probability.getValueAsDouble();
  if (!(value >= 0.0 && value < 1.0))
    return dropout.emitOpError("expected a probability in [0, 1), got ")
           << value;
  OpBuilder builder(dropout);
  return Value(nn::DropoutOp::create(
      builder, dropout.getLoc(), dropout.getType(), dropout.getInput(), seed,
      step, builder.getF64FloatAttr(value), builder.getI64IntegerAttr(place)));
}

namespace {
/// Closes the dropouts of one function after the other.
struct PlaceDropouts : passes::impl::PlaceDropoutsBase<PlaceDropouts> {
  using PlaceDropoutsBase::PlaceDropoutsBase;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(place(function)))
        return signalPassFailure();
  }

private:
  LogicalResult place(func::FuncOp function) {
    SmallVector<pos::DropoutOp> dropouts;
    function.walk([&](pos::DropoutOp op) { dropouts.push_back(op); });
    if (dropouts.empty())
      return success();
    Value seed = findArgument(function, "seed");
    Value step = findArgument(function, "step");
    int64_t free = findFreePlace(function);
    for (pos::DropoutOp dropout : dropouts) {
      Value result = dropout.getInput();
      if (seed && step) {
        FailureOr<Value> drawn = draw(dropout, seed, step, free++);
        if (failed(drawn))
          return failure();
        result = *drawn;
        ++numPlaced;
      }
      dropout.replaceAllUsesWith(result);
      dropout.erase();
    }
    return success();
  }
};
} // namespace

//===- Requirements.cpp - What an encoding needs of its use ---------------===//
//
// A requirement that options and static extents decide is decided here. Any
// other goes along with the sites: a check of an extent, of the span of
// positions, of the masks.
//
//===----------------------------------------------------------------------===//

#include "passes/Encoding/Requirements.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

static std::optional<int64_t> getKnown(Value value, Evaluator &evaluator) {
  auto known = dyn_cast_or_null<IntegerAttr>(evaluator.evaluate(value));
  return known ? std::optional(known.getInt()) : std::nullopt;
}

LogicalResult passes::verifyRequirements(pos::EncodingOp definition,
                                         Evaluator &evaluator, StringRef use,
                                         Location user) {
  for (auto require : definition.getOps<pos::RequireOp>()) {
    std::optional<int64_t> value = getKnown(require.getValue(), evaluator);
    std::optional<int64_t> limit = getKnown(require.getLimit(), evaluator);
    if (!value || !limit)
      continue;
    bool isUpper = require.getRelation() == pos::Relation::at_most;
    if (isUpper ? *value <= *limit : *value >= *limit)
      continue;
    InFlightDiagnostic diag = emitError(user, "use '")
                              << use << "' of @" << definition.getSymName()
                              << ": " << require.getMessage() << ": got "
                              << *value << ", but must be at "
                              << (isUpper ? "most " : "least ") << *limit;
    diag.attachNote(require.getLoc()) << "required here";
    return diag;
  }
  return success();
}

static LogicalResult spliceRequire(pos::RequireOp require, Evaluator &evaluator,
                                   OpBuilder &builder) {
  std::optional<int64_t> limit = getKnown(require.getLimit(), evaluator);
  if (limit && getKnown(require.getValue(), evaluator))
    return success();
  auto extent = require.getValue().getDefiningOp<pos::ExtentOp>();
  if (!limit || !extent)
    return require.emitOpError("must be known at compile time, but for an "
                               "extent as its value");
  pos::RequireExtentOp::create(
      builder, require.getLoc(), extent.getExtent(), require.getRelation(),
      static_cast<int32_t>(*limit), require.getMessage());
  return success();
}

/// The limit is known where the encoding is used, the span at the call.
static LogicalResult spliceRequireSpan(pos::RequireSpanOp require,
                                       Evaluator &evaluator,
                                       OpBuilder &builder) {
  std::optional<int64_t> limit = getKnown(require.getLimit(), evaluator);
  if (!limit)
    return require.emitOpError("limit must be known at compile time");
  IRMapping mapping;
  mapping.map(require.getLimit(),
              arith::ConstantOp::create(
                  builder, require.getLimit().getLoc(),
                  builder.getI32IntegerAttr(static_cast<int32_t>(*limit))));
  builder.clone(*require, mapping);
  return success();
}

LogicalResult passes::spliceRequirements(pos::EncodingOp definition,
                                         Evaluator &evaluator, Block &block) {
  OpBuilder builder = OpBuilder::atBlockEnd(&block);
  for (auto require : definition.getOps<pos::RequireOp>())
    if (failed(spliceRequire(require, evaluator, builder)))
      return failure();
  for (auto require : definition.getOps<pos::RequireSpanOp>())
    if (failed(spliceRequireSpan(require, evaluator, builder)))
      return failure();
  for (auto require : definition.getOps<pos::RequirePastOp>())
    builder.clone(*require);
  return success();
}

//===- PosAttention.cpp - Verification of attention and its gradient ------===//
//
// Verifiers here check the shapes of attention, of its gradient and of row maps
// against each other, as far as sizes are static.
//
//===----------------------------------------------------------------------===//

#include "dialects/Pos/IR/Pos.h"
#include <cmath>

using namespace mlir;
using namespace sextant::pos;

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

static bool differ(int64_t a, int64_t b) {
  return !ShapedType::isDynamic(a) && !ShapedType::isDynamic(b) && a != b;
}

/// Kernels are written out along the lanes of a row: their code, and the time
/// that it compiles for, grows with these. Attention and its gradient take a
/// minute at this many lanes.
static constexpr int64_t kMostHeadDim = 8192;
/// Rows outside of attention are as wide as a model is, and compile faster.
static constexpr int64_t kMostWidth = 16384;

/// Verifies that the last dim of `rows`, static or not, is at most `most`.
static LogicalResult verifyLanes(Operation *op, StringRef what, int64_t most,
                                 RankedTensorType rows) {
  int64_t lanes = rows.getShape().back();
  if (ShapedType::isDynamic(lanes) || lanes <= most)
    return success();
  return op->emitOpError(what) << " " << lanes << " of " << rows
                               << " is too large: it must be at most " << most;
}

static LogicalResult verifyHeadDim(Operation *op, Value rows) {
  auto type = cast<RankedTensorType>(rows.getType());
  if (!type.isDynamicDim(3))
    return success();
  return op->emitOpError("head dim must be static, got ") << type;
}

/// Verifies query [B, H, Lq, d] against key [B, Hkv, Lk, d] and each value
/// [B, Hkv, Lk, dv].
static LogicalResult verifyRows(Operation *op, Value query, Value key,
                                ValueRange values) {
  auto q = cast<RankedTensorType>(query.getType());
  auto k = cast<RankedTensorType>(key.getType());
  auto same = [&](RankedTensorType a, RankedTensorType b, unsigned dim,
                  StringRef what) -> LogicalResult {
    if (differ(a.getDimSize(dim), b.getDimSize(dim)))
      return op->emitOpError(what) << " differ: " << a.getDimSize(dim)
                                   << " and " << b.getDimSize(dim);
    return success();
  };
  if (values.empty())
    return op->emitOpError("expected at least one value operand");
  if (failed(verifyHeadDim(op, query)))
    return failure();
  if (q.getDimSize(3) == 0)
    return op->emitOpError("head dim must be at least 1, got ") << q;
  if (failed(verifyLanes(op, "head dim", kMostHeadDim, q)) ||
      failed(same(q, k, 0, "batch sizes of query and key")) ||
      failed(same(q, k, 3, "head dims of query and key")))
    return failure();
  if (!q.isDynamicDim(1) && !k.isDynamicDim(1) &&
      (k.getDimSize(1) == 0 || q.getDimSize(1) % k.getDimSize(1) != 0))
    return op->emitOpError("query heads must be a multiple of key heads, got ")
           << q.getDimSize(1) << " and " << k.getDimSize(1);
  for (Value value : values) {
    auto v = cast<RankedTensorType>(value.getType());
    if (failed(verifyHeadDim(op, value)) ||
        failed(verifyLanes(op, "head dim", kMostHeadDim, v)) ||
        failed(same(k, v, 0, "batch sizes of key and value")) ||
        failed(same(k, v, 1, "heads of key and value")) ||
        failed(same(k, v, 2, "lengths of key and value")))
      return failure();
    if (v.getElementType() != q.getElementType())
      return op->emitOpError("query and value must share a dtype (C8), got ")
             << q.getElementType() << " and " << v.getElementType();
  }
  if (k.getElementType() != q.getElementType())
    return op->emitOpError("query and key must share a dtype (C8), got ")
           << q.getElementType() << " and " << k.getElementType();
  return success();
}

/// Verifies that a tensor fits a shape, as far as sizes are known, and has
/// these elements: kernels write it without a look at its own sizes.
static LogicalResult verifyFits(Operation *op, StringRef what, Value tensor,
                                ArrayRef<int64_t> shape, Type element) {
  auto got = cast<RankedTensorType>(tensor.getType());
  if (got.getElementType() == element &&
      succeeded(verifyCompatibleShape(got.getShape(), shape)))
    return success();
  return op->emitOpError(what)
         << " must fit " << RankedTensorType::get(shape, element) << ", got "
         << got;
}

/// Verifies what an attention has for each row of the query: outputs, or their
/// gradients, [B, H, Lq, dv] of the rows' type, the log-sum-exp [B, H, Lq] and,
/// if they are there, statistics [B, H, Lq, 2] of the compute type (C8).
static LogicalResult verifySoftmax(Operation *op, Value query,
                                   ValueRange values, ValueRange outputs,
                                   StringRef output, Value lse,
                                   Value statistics) {
  auto q = cast<RankedTensorType>(query.getType());
  SmallVector<int64_t> shape(q.getShape().drop_back());
  Type rows = q.getElementType();
  Type compute = rows.isF64() ? rows : Float32Type::get(op->getContext());
  if (failed(verifyFits(op, "log-sum-exp", lse, shape, compute)))
    return failure();
  shape.push_back(2);
  if (statistics &&
      (failed(verifyFits(op, "statistics", statistics, shape, compute)) ||
       failed(verifyHeadDim(op, statistics))))
    return failure();
  for (auto [value, tensor] : llvm::zip_equal(values, outputs)) {
    shape.back() = cast<RankedTensorType>(value.getType()).getDimSize(3);
    if (failed(verifyFits(op, output, tensor, shape, rows)) ||
        failed(verifyHeadDim(op, tensor)))
      return failure();
  }
  return success();
}

/// Verifies that a gradient fits what it is the gradient of.
static LogicalResult verifyGradient(Operation *op, const Twine &what,
                                    Value gradient, Value of) {
  auto type = cast<RankedTensorType>(of.getType());
  return verifyFits(op, ("gradient of " + what).str(), gradient,
                    type.getShape(), type.getElementType());
}

/// Verifies that the region, once there, has one argument per parameter.
static LogicalResult verifySitesRegion(SitesOwnerInterface op) {
  Region &region = op.getSitesRegion();
  if (region.empty())
    return success();
  if (ArrayAttr uses = op.getPendingUses(); uses && !uses.empty())
    return op->emitOpError("has uses of encodings and a region of sites: "
                           "inlining makes one of the other");
  if (TypeRange(region.front().getArgumentTypes()) !=
      TypeRange(op.getParamOperands().getTypes()))
    return op->emitOpError("region must take one argument per parameter: "
                           "expected ")
           << op.getParamOperands().size() << " of their types, got "
           << region.front().getNumArguments();
  for (Operation &nested : region.front()) {
    if (isa<SiteOpInterface, HoistOp, HingesOp, RowTermOp, RequireExtentOp,
            RequireSpanOp, RequirePastOp>(nested) ||
        nested.hasTrait<OpTrait::ConstantLike>())
      continue;
    InFlightDiagnostic diag = op->emitOpError(
        "region may only hold sites, hoists, hinges, a row term "
        "and constants");
    diag.attachNote(nested.getLoc()) << "'" << nested.getName() << "' is none";
    return diag;
  }
  return success();
}

static LogicalResult verifyParamGradients(Operation *op, OperandRange params,
                                          ArrayRef<int32_t> numbers,
                                          ResultRange results) {
  if (numbers.size() != results.size())
    return op->emitOpError("expected one result per listed parameter: ")
           << numbers.size() << ", got " << results.size();
  for (auto [number, result] : llvm::zip_equal(numbers, results)) {
    if (number < 0 || number >= static_cast<int32_t>(params.size()))
      return op->emitOpError("has no parameter ") << number;
    if (params[number].getType() != result.getType())
      return op->emitOpError("gradient of parameter ")
             << number << " must have type " << params[number].getType()
             << ", got " << result.getType();
  }
  return success();
}

static std::optional<int64_t> fixed(Value value, unsigned dim) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.isDynamicDim(dim))
    return std::nullopt;
  return type.getDimSize(dim);
}

static std::optional<int64_t> attentionExtent(Extent extent, Value query,
                                              Value key, Value value) {
  switch (extent) {
  case Extent::batch:
    return fixed(query, 0);
  case Extent::heads:
    return fixed(query, 1);
  case Extent::kv_heads:
    return fixed(key, 1);
  case Extent::query:
    return fixed(query, 2);
  case Extent::key:
    return fixed(key, 2);
  case Extent::head_dim:
    return fixed(query, 3);
  case Extent::value_dim:
    return fixed(value, 3);
  case Extent::model: {
    auto heads = fixed(query, 1), dim = fixed(query, 3);
    if (!heads || !dim)
      return std::nullopt;
    return *heads * *dim;
  }
  }
  llvm_unreachable("every extent is listed");
}

static double scaleOr(std::optional<APFloat> scale, Value query) {
  if (scale)
    return scale->convertToDouble();
  return 1.0 / std::sqrt(static_cast<double>(
                   cast<RankedTensorType>(query.getType()).getDimSize(3)));
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

bool AttentionOp::hasPositions() {
  return getQueryPositions() || getKeyPositions();
}
std::optional<int64_t> AttentionOp::getStaticExtent(Extent extent) {
  return attentionExtent(extent, getQuery(), getKey(), getValues().front());
}
bool AttentionOp::hasScores() { return true; }
double AttentionOp::getEffectiveScale() {
  return scaleOr(getScale(), getQuery());
}
LogicalResult AttentionOp::verify() {
  if (getOutputs().size() != getValues().size())
    return emitOpError("expected one output per value: ")
           << getValues().size() << ", got " << getOutputs().size();
  if (failed(verifyRows(*this, getQuery(), getKey(), getValues())))
    return failure();
  return verifySoftmax(*this, getQuery(), getValues(), getOutputs(), "output",
                       getLse(), getStatistics());
}
LogicalResult AttentionOp::verifyRegions() { return verifySitesRegion(*this); }

bool AttentionBackwardOp::hasPositions() {
  return getQueryPositions() || getKeyPositions();
}
std::optional<int64_t> AttentionBackwardOp::getStaticExtent(Extent extent) {
  return attentionExtent(extent, getQuery(), getKey(), getValues().front());
}
bool AttentionBackwardOp::hasScores() { return true; }
double AttentionBackwardOp::getEffectiveScale() {
  return scaleOr(getScale(), getQuery());
}
LogicalResult AttentionBackwardOp::verify() {
  size_t values = getValues().size();
  if (getOutputs().size() != values || getOutputGradients().size() != values ||
      getValueGradients().size() != values)
    return emitOpError("expected as many outputs, output gradients and value "
                       "gradients as values: ")
           << values;
  if (failed(verifyRows(*this, getQuery(), getKey(), getValues())) ||
      failed(verifySoftmax(*this, getQuery(), getValues(), getOutputs(),
                           "output", getLseGradient(), getStatistics())) ||
      failed(verifySoftmax(*this, getQuery(), getValues(), getOutputGradients(),
                           "gradient of output", getLseGradient(), Value())) ||
      failed(verifyGradient(*this, "query", getQueryGradient(), getQuery())) ||
      failed(verifyGradient(*this, "key", getKeyGradient(), getKey())))
    return failure();
  for (auto [value, gradient] :
       llvm::zip_equal(getValues(), getValueGradients()))
    if (failed(verifyGradient(*this, "value", gradient, value)))
      return failure();
  return verifyParamGradients(*this, getParams(), getParamGradients(),
                              getParamGradientResults());
}
LogicalResult AttentionBackwardOp::verifyRegions() {
  return verifySitesRegion(*this);
}

//===----------------------------------------------------------------------===//
// Row maps outside attention
//===----------------------------------------------------------------------===//

/// Verifies `mapped` [B, L, C] against the input, [B, L, C] or the table [V, C]
/// of the indices [B, L].
static LogicalResult verifyMapped(Operation *op, Value input, Value indices,
                                  Value mapped) {
  auto rows = cast<RankedTensorType>(mapped.getType());
  auto source = cast<RankedTensorType>(input.getType());
  auto same = [&](RankedTensorType other, unsigned dim, unsigned otherDim,
                  StringRef what) -> LogicalResult {
    if (differ(rows.getDimSize(dim), other.getDimSize(otherDim)))
      return op->emitOpError(what) << " differ: " << other << " and " << rows;
    return success();
  };
  if (source.getElementType() != rows.getElementType())
    return op->emitOpError("rows and mapped rows must share a dtype, got ")
           << source.getElementType() << " and " << rows.getElementType();
  if (failed(verifyLanes(op, "width", kMostWidth, rows)))
    return failure();
  if (!indices) {
    if (source.getRank() != 3)
      return op->emitOpError("expected rows [B, L, C], or indices into the "
                             "table, got ")
             << source;
    for (unsigned dim : {0, 1, 2})
      if (failed(same(source, dim, dim, "shapes of rows and mapped rows")))
        return failure();
    return success();
  }
  if (source.getRank() != 2)
    return op->emitOpError("expected a table [V, C] of the rows that indices "
                           "take, got ")
           << source;
  auto taken = cast<RankedTensorType>(indices.getType());
  if (failed(same(source, 2, 1, "widths of table and mapped rows")) ||
      failed(same(taken, 0, 0, "batch sizes of indices and mapped rows")) ||
      failed(same(taken, 1, 1, "lengths of indices and mapped rows")))
    return failure();
  return success();
}

static std::optional<int64_t> rowsExtent(Extent extent, Value rows) {
  switch (extent) {
  case Extent::batch:
    return fixed(rows, 0);
  case Extent::heads:
  case Extent::kv_heads:
    return 1;
  case Extent::query:
  case Extent::key:
    return fixed(rows, 1);
  case Extent::head_dim:
  case Extent::value_dim:
  case Extent::model:
    return fixed(rows, 2);
  }
  llvm_unreachable("every extent is listed");
}

bool MapRowsOp::hasPositions() { return static_cast<bool>(getPositions()); }
std::optional<int64_t> MapRowsOp::getStaticExtent(Extent extent) {
  return rowsExtent(extent, getResult());
}
LogicalResult MapRowsOp::verify() {
  return verifyMapped(*this, getInput(), getIndices(), getResult());
}
double MapRowsOp::getEffectiveScale() { return 1.0; }
LogicalResult MapRowsOp::verifyRegions() { return verifySitesRegion(*this); }

bool MapRowsBackwardOp::hasPositions() {
  return static_cast<bool>(getPositions());
}
std::optional<int64_t> MapRowsBackwardOp::getStaticExtent(Extent extent) {
  return rowsExtent(extent, getResultGradient());
}
LogicalResult MapRowsBackwardOp::verify() {
  if (failed(
          verifyMapped(*this, getInput(), getIndices(), getResultGradient())))
    return failure();
  return verifyMapped(*this, getInputGradient(), Value(), getResultGradient());
}
double MapRowsBackwardOp::getEffectiveScale() { return 1.0; }
LogicalResult MapRowsBackwardOp::verifyRegions() {
  if (failed(verifyParamGradients(*this, getParams(), getParamGradients(),
                                  getParamGradientResults())))
    return failure();
  return verifySitesRegion(*this);
}

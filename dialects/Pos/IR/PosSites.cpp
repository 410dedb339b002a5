//===- PosSites.cpp - Verification of sites and their payloads ------------===//
//
// Verifiers here check payloads: their ops, what they ask for, what they yield.
//
//===----------------------------------------------------------------------===//

#include "dialects/Pos/IR/Dependence.h"
#include "dialects/Pos/IR/RowLanes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace sextant::pos;

//===----------------------------------------------------------------------===//
// Payloads
//===----------------------------------------------------------------------===//

bool sextant::pos::combinesOperands(Operation *op) {
  if (op->hasTrait<OpTrait::ConstantLike>() || isa<tensor::SplatOp>(op))
    return true;
  // Not only what arith lets one speculate: here a quotient by 0 has a value.
  return OpTrait::hasElementwiseMappableTraits(op) &&
         op->getNumRegions() == 0 && isMemoryEffectFree(op);
}

static bool isOfOneHead(Operation *op) {
  auto payloadOp = dyn_cast<PayloadOpInterface>(op);
  return payloadOp && payloadOp.isOfOneHead();
}

static LogicalResult verifyPayloadOps(Operation *site, Block &block,
                                      bool hasVectors) {
  for (Operation &op : block.without_terminator()) {
    auto refuse = [&](const Twine &why) -> LogicalResult {
      InFlightDiagnostic diag =
          site->emitOpError("payload may only compute with scalars");
      if (hasVectors)
        diag << " and vectors";
      diag.attachNote(op.getLoc()) << "'" << op.getName() << "' " << why;
      return diag;
    };
    if (!isa<ContextOpInterface, PayloadOpInterface>(op) &&
        !combinesOperands(&op))
      return refuse("is neither elementwise, a context op nor a read");
    for (Type type : op.getResultTypes()) {
      auto shaped = dyn_cast<ShapedType>(type);
      if (shaped && !hasVectors)
        return refuse("computes with vectors");
      if (shaped && (!isa<RankedTensorType>(type) || shaped.getRank() != 1))
        return refuse("is no vector of one dimension");
      if (getElementTypeOrSelf(type).isF64() ||
          getElementTypeOrSelf(type).isF16() ||
          getElementTypeOrSelf(type).isBF16()) {
        InFlightDiagnostic diag = site->emitOpError(
            "payload must compute in f32, the compute type (C1)");
        diag.attachNote(op.getLoc()) << "this value is " << type;
        return diag;
      }
    }
    for (Region &region : op.getRegions())
      for (Block &nested : region)
        if (failed(verifyPayloadOps(site, nested, /*hasVectors=*/false)))
          return failure();
  }
  return success();
}

/// A context op must ask about something that there is at the site.
static LogicalResult verifyContextOps(SiteOpInterface site) {
  WalkResult sums = site->walk([&](RunningSumOp op) {
    Axis side = op.getSide() == Side::query ? Axis::query : Axis::key;
    if (site.getPointAxes().contains(side))
      return WalkResult::advance();
    op.emitOpError("needs a place that has queries and keys");
    return WalkResult::interrupt();
  });
  if (sums.wasInterrupted())
    return failure();
  WalkResult result = site->walk([&](ContextOpInterface op) {
    AxisSet here = site.getPointAxes();
    if (op->getParentOfType<ForHeadsOp>())
      here |= Axis::head;
    if (here.contains(op.getDependence(/*hasPositions=*/false)))
      return WalkResult::advance();
    InFlightDiagnostic diag = site->emitOpError("payload asks for what there "
                                                "is not at this place");
    bool isHead = isa<HeadOp>(op) && isa<ScoreOp>(*site);
    diag.attachNote(op.getLoc())
        << "'" << op->getName()
        << (isHead ? "' outside 'pos.for_heads'" : "' of another side");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

static bool takesVector(Block &payload) {
  return llvm::any_of(payload.getArgumentTypes(),
                      [](Type type) { return isa<RankedTensorType>(type); });
}

/// What scans keys or reads a row belongs to one head.
static LogicalResult verifyAllHeads(ScoreOp site) {
  WalkResult result = site.walk([&](Operation *op) {
    if (!isOfOneHead(op))
      return WalkResult::advance();
    InFlightDiagnostic diag = site.emitOpError(
        "payload of all heads can neither scan nor read a row");
    diag.attachNote(op->getLoc()) << "'" << op->getName() << "' is of one head";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

LogicalResult sextant::pos::detail::verifySite(Operation *op) {
  auto site = cast<SiteOpInterface>(op);
  Block &payload = site.getPayload();
  auto yield = payload.empty() ? YieldOp() : dyn_cast<YieldOp>(payload.back());
  if (!yield)
    return op->emitOpError("payload must end in 'pos.yield'");
  // What other sites are given they check themselves.
  if (isa<MaskOp, ColumnsOp, WeightedRowsOp>(op) && payload.getNumArguments())
    return op->emitOpError("payload must take no values but takes ")
           << payload.getNumArguments();
  SmallVector<Type> want = site.getYieldTypes();
  if (yield.getOperandTypes() != TypeRange(want)) {
    InFlightDiagnostic diag = op->emitOpError("payload must yield (");
    llvm::interleaveComma(want, diag);
    diag << ") but yields (";
    llvm::interleaveComma(yield.getOperandTypes(), diag);
    return diag << ")";
  }
  bool hasVectors = takesVector(payload);
  if (failed(verifyPayloadOps(op, payload, hasVectors)))
    return failure();
  if (auto score = dyn_cast<ScoreOp>(op);
      score && hasVectors && failed(verifyAllHeads(score)))
    return failure();
  if (!isa<ScoreOp>(op)) {
    WalkResult misplaced = op->walk([&](RowDotOpInterface dot) {
      dot->emitOpError("stands in a score payload only");
      return WalkResult::interrupt();
    });
    if (misplaced.wasInterrupted())
      return failure();
  }
  return verifyContextOps(site);
}

//===----------------------------------------------------------------------===//
// Operands that options choose
//===----------------------------------------------------------------------===//

static FailureOr<int64_t> constantOperand(Operation *site, Value value) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return constant.getSExtValue();
  return site->emitOpError("operand must be known at compile time: an option, "
                           "a constant or an extent that is static");
}

LogicalResult sextant::pos::detail::verifyOperandsConstant(Operation *site) {
  for (Value operand : site->getOperands())
    if (operand.getType().isInteger(32) &&
        failed(constantOperand(site, operand)))
      return failure();
  return success();
}

/// Lanes of the operand of `owner` that a row map works on, where known.
static std::optional<int64_t> rowWidth(SitesOwnerInterface owner,
                                       RowOperand operand) {
  return owner.getStaticExtent(operand == RowOperand::value ? Extent::value_dim
                                                            : Extent::head_dim);
}

LogicalResult RowsOp::resolveOperands() {
  if (Value option = getGroupingOption()) {
    FailureOr<int64_t> value = constantOperand(*this, option);
    if (failed(value))
      return failure();
    auto grouping = symbolizeGrouping(static_cast<uint32_t>(*value));
    if (grouping != Grouping::half && grouping != Grouping::interleaved)
      return emitOpError("an option chooses among half (0) and interleaved (1) "
                         "(C6), got ")
             << *value;
    setGrouping(grouping);
    getGroupingOptionMutable().clear();
  }
  if (getBegin()) {
    FailureOr<int64_t> begin = constantOperand(*this, getBegin());
    FailureOr<int64_t> end = constantOperand(*this, getEnd());
    if (failed(begin) || failed(end))
      return failure();
    if (*begin == 0 && *end == 0) {
      getBeginMutable().clear();
      getEndMutable().clear();
    }
  }
  auto owner = dyn_cast<SitesOwnerInterface>((*this)->getParentOp());
  for (auto operand : getOf().getAsRange<RowOperandAttr>()) {
    std::optional<int64_t> width =
        owner ? rowWidth(owner, operand.getValue()) : std::nullopt;
    if (width && failed(checkLanes(*this, *width)))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Sites
//===----------------------------------------------------------------------===//

SmallVector<Type> RowsOp::getYieldTypes() {
  return llvm::to_vector(getBody().front().getArgumentTypes());
}
SmallVector<Type> ScoreOp::getYieldTypes() {
  return llvm::to_vector(getBody().front().getArgumentTypes());
}
SmallVector<Type> MaskOp::getYieldTypes() {
  return {IntegerType::get(getContext(), 1)};
}
SmallVector<Type> ColumnsOp::getYieldTypes() {
  Type f32 = Float32Type::get(getContext());
  return {f32, f32};
}
SmallVector<Type> TurnRowsOp::getYieldTypes() {
  return {Float32Type::get(getContext())};
}
SmallVector<Type> WeightedRowsOp::getYieldTypes() {
  return {IntegerType::get(getContext(), 32)};
}

AxisSet RowsOp::getArgumentAxes() { return Axis::row; }
AxisSet RowsOp::getPointAxes() {
  return {Axis::batch, Axis::head, Axis::self, Axis::lane};
}
AxisSet TurnRowsOp::getArgumentAxes() { return Axis::lane; }
AxisSet TurnRowsOp::getPointAxes() {
  return {Axis::batch, Axis::head, Axis::self};
}
bool TurnRowsOp::isOutsideTiles() { return true; }
/// All heads at once stand at no head.
AxisSet ScoreOp::getPointAxes() {
  AxisSet pair{Axis::batch, Axis::query, Axis::key, Axis::offset};
  return takesVector(getBody().front()) ? pair : pair | Axis::head;
}
AxisSet ColumnsOp::getPointAxes() {
  return {Axis::batch, Axis::head, Axis::query, Axis::key, Axis::lane};
}

LogicalResult ColumnsOp::verifyRegions() {
  Dependence dependence(/*hasPositions=*/true);
  // The interface has verified that there are two of them.
  Operation *yield = getBody().front().getTerminator();
  for (bool isQuery : {true, false}) {
    Value value = yield->getOperand(isQuery ? 0 : 1);
    auto varies = [&](Value part) {
      return dependence.of(part).contains(isQuery ? Axis::key : Axis::query);
    };
    if (!varies(value))
      continue;
    InFlightDiagnostic diag = emitOpError("the ")
                              << (isQuery ? "query" : "key")
                              << "'s column must not vary with the "
                              << (isQuery ? "key" : "query");
    diag.attachNote(findCause(value, varies)->getLoc())
        << "it does so by this value";
    return diag;
  }
  return success();
}

LogicalResult RowsOp::verify() {
  if (getGrouping().has_value() == static_cast<bool>(getGroupingOption()))
    return emitOpError("expected either a grouping or an option for it (C6)");
  if (static_cast<bool>(getBegin()) != static_cast<bool>(getEnd()))
    return emitOpError("expected both ends of a range of lanes (C6)");
  Block &payload = getBody().front();
  unsigned got = payload.getNumArguments();
  unsigned want =
      getGrouping() == Grouping::single || getGrouping() == Grouping::whole ? 1
                                                                            : 2;
  if (got != want)
    return emitOpError("payload must take ")
           << want << " value(s) of a group (C6) but takes " << got;
  for (Type type : payload.getArgumentTypes()) {
    bool whole = getGrouping() == Grouping::whole;
    if (whole ? !isa<RankedTensorType>(type) : !type.isF32())
      return emitOpError("payload argument must be ")
             << (whole ? "tensor<?xf32>" : "f32") << " (C1) but is " << type;
  }
  return success();
}

LogicalResult TurnRowsOp::verify() {
  for (auto operand : getOf().getAsRange<RowOperandAttr>())
    if (operand.getValue() != RowOperand::query &&
        operand.getValue() != RowOperand::key)
      return emitOpError("turns rows of query and key, not of ")
             << stringifyRowOperand(operand.getValue()) << " (T1)";
  TypeRange arguments = getBody().front().getArgumentTypes();
  if (arguments.size() != 3 ||
      llvm::any_of(arguments, [](Type type) { return !type.isInteger(32); }))
    return emitOpError("payload must take block, row and column (i32, i32, "
                       "i32) of the matrix's element");
  return success();
}

LogicalResult ScoreOp::verify() {
  Block &payload = getBody().front();
  if (payload.getNumArguments() != 1)
    return emitOpError("payload must take 1 value, the score, but takes ")
           << payload.getNumArguments();
  Type type = payload.getArgument(0).getType();
  auto tensor = dyn_cast<RankedTensorType>(type);
  bool allHeads =
      tensor && tensor.getRank() == 1 && tensor.getElementType().isF32();
  if (!type.isF32() && !allHeads)
    return emitOpError("payload argument must be f32 or tensor<?xf32> (C1) "
                       "but is ")
           << type;
  return success();
}

AxisSet ScanOp::getOwnAxes() { return {Axis::score, Axis::row}; }
bool ScanOp::isOfOneHead() { return true; }

HoistOp RowTermOp::getHoist() { return getTerm().getDefiningOp<HoistOp>(); }

LogicalResult RowTermOp::verify() {
  HoistOp hoist = getHoist();
  if (!hoist)
    return emitOpError("expected the value of a 'pos.hoist'");
  AxisSet axes = hoist.getAxisSet();
  if (axes.contains(Axis::query) &&
      AxisSet{Axis::batch, Axis::head, Axis::query}.contains(axes))
    return success();
  InFlightDiagnostic diag = emitOpError(
      "expected a hoist over the query and, at most, batch and head");
  diag.attachNote(hoist.getLoc()) << "this one is over other axes";
  return diag;
}

AxisSet HoistOp::getAxisSet() {
  AxisSet axes;
  for (auto axis : getAxes().getAsRange<AxisAttr>())
    axes |= axis.getValue();
  return axes;
}

LogicalResult HoistOp::verifyRegions() {
  Block &block = getBody().front();
  auto yield = block.empty() ? YieldOp() : dyn_cast<YieldOp>(block.back());
  if (!yield || yield.getNumOperands() != 1 ||
      yield.getOperand(0).getType() != getType())
    return emitOpError("body must yield (") << getType() << ")";
  return verifyPayloadOps(*this, block, /*hasVectors=*/true);
}

/// The body says f32 where kernels compute in f64, as all payloads do (C1).
LogicalResult HingesOp::verifyRegions() {
  Block &block = getBody().front();
  if (block.getNumArguments() != 1 ||
      !block.getArgument(0).getType().isInteger(32))
    return emitOpError("expected one block argument of type i32");
  auto yield = block.empty() ? YieldOp() : dyn_cast<YieldOp>(block.back());
  if (!yield || yield.getNumOperands() != 5 ||
      !llvm::all_of(yield.getOperandTypes(),
                    [](Type type) { return type.isF32(); }))
    return emitOpError("body must yield five coefficients (f32)");
  if (getType().isDynamicDim(0) || getType().getDimSize(0) < 1 ||
      getType().getDimSize(1) != 5)
    return emitOpError("expected a result of five coefficients of one unit or "
                       "more, got ")
           << getType();
  Dependence dependence(/*hasPositions=*/true);
  auto varies = [&](Value value) {
    return !AxisSet{Axis::batch, Axis::head}.contains(dependence.of(value));
  };
  if (varies(getResult())) {
    InFlightDiagnostic diag =
        emitOpError("may vary with the unit, the batch and the head only (H1)");
    diag.attachNote(findCause(getResult(), varies)->getLoc())
        << "this varies with more";
    return diag;
  }
  return verifyPayloadOps(*this, block, /*hasVectors=*/false);
}

HingesOp HingeSumOp::getUnits() {
  return getHinges().getDefiningOp<HingesOp>();
}

LogicalResult HingeSumOp::verify() {
  if (!getUnits())
    return emitOpError("expected the units of a 'pos.hinges'");
  Block &payload = *(*this)->getBlock();
  Operation *parent = payload.getParentOp();
  if (!isa<ScoreOp>(isa<ForHeadsOp>(parent) ? parent->getParentOp() : parent) ||
      (isa<ScoreOp>(parent) && takesVector(payload)))
    return emitOpError("expected a score of one head, or 'pos.for_heads' in a "
                       "score of all heads (H3)");
  Dependence dependence(/*hasPositions=*/true);
  auto needsRow = [&](Value value) {
    return dependence.of(value).intersects({Axis::score, Axis::row}) ||
           dependence.isMadeOf(value, payload.getArguments());
  };
  if (!needsRow(getValue()))
    return success();
  InFlightDiagnostic diag =
      emitOpError("argument must not need the score or the row (H2)");
  Operation *use = getValue().getDefiningOp() ? findCause(getValue(), needsRow)
                                              : getOperation();
  diag.attachNote(use->getLoc()) << "'" << use->getName() << "' does";
  return diag;
}

//===----------------------------------------------------------------------===//
// Products with one row per offset
//===----------------------------------------------------------------------===//

AxisSet OffsetDotOp::getOwnAxes() { return {Axis::score, Axis::row}; }
bool OffsetDotOp::isOfOneHead() { return true; }
SmallVector<TableRead> OffsetDotOp::getTableReads() {
  if (!getIndex())
    return {};
  return {{getTable(), getColumns() ? 1u : 0u, getIndex()}};
}

Value OffsetDotOp::getFactor() {
  return getIndex() ? Value()
                    : getBody().front().getTerminator()->getOperand(0);
}

BlockArgument OffsetDotOp::getColumn() {
  return getIndex() ? BlockArgument() : getBody().front().getArgument(0);
}

static bool yieldsFactor(Region &body) {
  if (!body.hasOneBlock() || body.front().getNumArguments() != 1 ||
      !body.front().getArgument(0).getType().isInteger(32) ||
      body.front().empty())
    return false;
  auto yield = dyn_cast<YieldOp>(body.front().back());
  return yield && yield.getNumOperands() == 1 &&
         yield.getOperand(0).getType().isF32();
}

LogicalResult OffsetDotOp::verifyRegions() {
  bool isTaken = static_cast<bool>(getIndex());
  if (isTaken ? getCount() || !getBody().empty()
              : !getCount() || !yieldsFactor(getBody()) || !getColumns())
    return emitOpError("expected either an index or a number of columns and a "
                       "body (i32) -> f32 (O1)");
  if (!isTaken && failed(verifyPayloadOps(*this, getBody().front(),
                                          /*hasVectors=*/false)))
    return failure();
  Dependence dependence(/*hasPositions=*/true);
  auto owner = (*this)->getParentOfType<SitesOwnerInterface>();
  if (owner && owner.hasPositions())
    return emitOpError("has a row per offset, but positions are given (O3)");
  auto verify = [&](Value value, AxisSet axes,
                    StringRef what) -> LogicalResult {
    auto exceeds = [&](Value part) {
      return !axes.contains(dependence.of(part));
    };
    bool reads = owner && dependence.isMadeOf(
                              value, owner.getSitesRegion().getArguments());
    if (!exceeds(value) && !reads)
      return success();
    InFlightDiagnostic diag = emitOpError("the ")
                              << what << " may vary with "
                              << (axes.empty() ? "nothing" : "the offset only")
                              << " (O2)";
    if (exceeds(value) && value.getDefiningOp())
      diag.attachNote(findCause(value, exceeds)->getLoc())
          << "this varies with more";
    else if (reads)
      diag.attachNote(value.getLoc()) << "a parameter stands behind this";
    return diag;
  };
  if (isTaken)
    return verify(getIndex(), Axis::offset, "index");
  if (failed(verify(getCount(), {}, "number of columns")))
    return failure();
  return verify(getFactor(), Axis::offset, "factor");
}

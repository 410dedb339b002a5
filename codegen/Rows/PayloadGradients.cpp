//===- PayloadGradients.cpp - Gradients of what payloads read -------------===//

#include "codegen/Rows/PayloadGradients.h"
#include "codegen/Plan/RowLaneTables.h"
#include "codegen/Rows/Finish.h"
#include "codegen/Tables/PiecewiseLinearTable.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Whether the gradient of a value is a part of that of rows.
bool PayloadGradients::isOfColumns(const Hoisted &hoisted) const {
  bool haveColumns =
      hoisted.operand == pos::RowOperand::query ||
      (hoisted.operand == pos::RowOperand::key && shape.keysHaveColumns);
  return haveColumns && plan.countColumns(hoisted.op) > 0;
}

PartialSum codegen::makePartialSum(const Lowering &lowering, Value parts,
                                   Value heads, ArrayRef<Value> sizes,
                                   Type element, bool zero, int64_t last) {
  Value query = getOwnerOperands(lowering.plan.owner).query;
  SmallVector<Value> all{parts, lowering.getDim(query, 0), heads};
  llvm::append_range(all, sizes);
  SmallVector<int64_t> shape;
  for (Value size : all)
    shape.push_back(size ? ShapedType::kDynamic : last);
  return {lowering.allocate(RankedTensorType::get(shape, element), all, zero)};
}

/// Of chunks, times the warps of each.
Value PayloadGradients::countWarpParts() const {
  return sizes.mul(shape.chunks, sizes.constant(shape.warps));
}

/// Makes the sum of the gradient of a hoisted value; columns whose gradients
/// are parts of those of rows have none. The row term's has one part more,
/// which takes the gradient of the log-sum-exp.
PartialSum PayloadGradients::makeHoistSum(const Hoisted &hoisted) {
  if (!hoisted.wantsGradient || isOfColumns(hoisted))
    return {};
  HoistGradientShape gradient =
      getHoistGradientShape(lowering, hoisted, tables.options);
  Type element = f32;
  Value parts = shape.chunks, entries;
  if (&hoisted == plan.findRowTerm())
    parts = sizes.create<arith::AddIOp>(shape.chunks, sizes.constant(1));
  if (plan.hasPositions && (hoisted.form == HoistForm::OffsetTable ||
                            hoisted.form == HoistForm::HeadScalar))
    parts = countWarpParts();
  Value heads =
      hoisted.extent ? gradient.sizes[1] : lowering.getDim(op.getQuery(), 1);
  switch (hoisted.form) {
  case HoistForm::HeadScalar:
    entries = sizes.constant(1);
    element = f64;
    break;
  case HoistForm::OffsetTable:
    entries = gradient.sizes[2];
    break;
  case HoistForm::QueryVector:
    entries = sizes.roundUp(gradient.sizes[2], shape.queries);
    break;
  case HoistForm::KeyVector:
    // A key belongs to one chunk.
    parts = shape.parts ? shape.parts : sizes.constant(1);
    entries = sizes.roundUp(gradient.sizes[2], shape.keys);
    break;
  case HoistForm::RowLaneTable:
    // So does a row; heads are those of the operand.
    return makeRowSum(hoisted, gradient.sizes[2]);
  }
  return makePartialSum(lowering, parts, heads, entries, element,
                        /*zero=*/true);
}

/// Whether the parameter is read by row and lane only, element by element: few
/// terms come together in its gradient.
static bool isReadByRow(const KernelPlan &plan, BlockArgument param) {
  return llvm::all_of(param.getUsers(), [&](Operation *user) {
    auto read = dyn_cast<pos::ReadOp>(user);
    auto hoist = user->getParentOfType<pos::HoistOp>();
    if (!read || !hoist)
      return false;
    auto isLane = [](Value index) {
      return static_cast<bool>(index.getDefiningOp<pos::LaneOp>());
    };
    return llvm::any_of(read.getIndices(), isOfRow) &&
           llvm::any_of(read.getIndices(), isLane);
  });
}

/// Zeros for the gradient of a parameter that is read by row, null for others.
Value PayloadGradients::getRowParamGradient(unsigned number) {
  if (!plan.paramWantsGradient[number] ||
      !isReadByRow(plan, op.getBody().getArgument(number)))
    return {};
  if (!params.hasSum(number)) {
    Value param = op.getParams()[number];
    params.setSum(number,
                  lowering.allocateLike(
                      param, cast<RankedTensorType>(param.getType()).clone(f32),
                      /*zero=*/true));
  }
  return params.getSum(number);
}

/// What leads from the number of a query to its index.
Value PayloadGradients::getQueryShift() {
  Value shift = sizes.create<arith::SubIOp>(lowering.getDim(op.getKey(), 2),
                                            lowering.getDim(op.getQuery(), 2));
  if (Value tail = op.getQueryTail())
    shift = sizes.create<arith::SubIOp>(shift, lowering.getDim(tail, 0));
  return shift;
}

/// Makes the sum of the gradient of a table over rows and lanes: heads are
/// those of the operand. A parameter that is the table takes the gradients
/// itself: of keys where it has as many elements as the batch, of queries
/// unless those before the first key share its first row.
PartialSum PayloadGradients::makeRowSum(const Hoisted &hoisted, Value rows) {
  bool isQuery = hoisted.operand == pos::RowOperand::query;
  Value batch = lowering.getDim(op.getQuery(), 0), whole;
  if (hoisted.param && hoisted.perBatch && hoisted.perHead)
    whole = getRowParamGradient(*hoisted.param);
  if (whole) {
    Value shares = sizes.constant(0);
    if (!isQuery)
      shares = sizes.create<arith::SubIOp>(batch, lowering.getDim(whole, 0));
    else if (hoisted.isAtIndex)
      shares = sizes.create<arith::SubIOp>(shares, getQueryShift());
    shares = sizes.max(sizes.min(shares, sizes.constant(1)), sizes.constant(0));
    batch = sizes.mul(batch, shares);
  }
  SmallVector<int64_t> shape(4, ShapedType::kDynamic);
  shape.push_back(countTableColumns(plan, hoisted));
  Value heads = lowering.getDim(isQuery ? op.getQuery() : op.getKey(), 1);
  PartialSum sum(lowering.allocate(
      RankedTensorType::get(shape, f32),
      {sizes.constant(1), batch, heads, rows, Value()}, /*zero=*/true));
  sum.whole = whole;
  return sum;
}

/// Makes the sum of the gradient of what tiles read of a parameter themselves
/// (`getReadSums` finds an item's part). Items whose reads are of separate
/// elements share one: a bias per pair would else be there for each of them.
PartialSum PayloadGradients::makeReadSum(unsigned number, Value param) {
  const TileReads &reads = plan.tileReads[number];
  if (!plan.paramWantsGradient[number] || reads.when == TileReads::never)
    return {};
  // Scores of all heads never use tables under given positions.
  bool isRare = reads.when == TileReads::rarely && !shape.ofAllHeads;
  Value entries = sizes.constant(1);
  for (int64_t dim = 0,
               rank = cast<RankedTensorType>(param.getType()).getRank();
       dim < rank; ++dim)
    entries = sizes.mul(entries, lowering.getDim(param, dim));
  if (isRare)
    rareReads.push_back(number);
  Value one = sizes.constant(1), batch = lowering.getDim(op.getQuery(), 0);
  if (shape.ofAllHeads)
    return makePartialSum(lowering, shape.chunks, one, entries, f64,
                          /*zero=*/true);
  // Elements of the batch that share one of the parameter have separate parts.
  if (TileReads::Dim dim = reads.batchDim)
    batch = sizes.ceilDiv(batch, sizes.max(lowering.getDim(param, *dim), one));
  Value parts = isRare ? countWarpParts() : shape.chunks;
  SmallVector<Value> all{reads.areOfPairs() ? one : parts, batch,
                         reads.headDim ? one : lowering.getDim(op.getKey(), 1),
                         entries};
  SmallVector<int64_t> dynamic(all.size(), ShapedType::kDynamic);
  return {lowering.allocate(RankedTensorType::get(dynamic, f64), all,
                            /*zero=*/!isRare)};
}

/// Moments of functions of hinges, summed over the chunks.
SmallVector<Value> PayloadGradients::sumHingeMoments() {
  SmallVector<Value> moments;
  for (auto [number, sum] : llvm::enumerate(sums.hingeMoments)) {
    moments.emplace_back();
    if (!sum)
      continue;
    auto type = cast<RankedTensorType>(sum.tensor.getType());
    moments.back() =
        lowering.allocate(RankedTensorType::get(type.getShape().drop_front(),
                                                type.getElementType()),
                          {lowering.getDim(op.getQuery(), 0),
                           lowering.getDim(op.getQuery(), 1), Value()});
    launchSum(lowering, ("sum_hinges_" + Twine(number)).str(), sum.tensor,
              moments.back());
  }
  return moments;
}

/// What adds up to the gradient of a table over rows and lanes: columns of the
/// gradients of rows, or what row maps and columns of keys gave each row.
TableRowSums PayloadGradients::getRowSums(size_t number, Value rows,
                                          Value gradientOfRows,
                                          const RowParts &headParts) const {
  const Hoisted &hoisted = plan.hoisted[number];
  if (!isOfColumns(hoisted))
    return {sums.tableGradients[number].tensor,
            rows,
            {{countTableColumns(plan, hoisted), /*first=*/0}}};
  bool isQuery = hoisted.operand == pos::RowOperand::query;
  TableRowSums rowSums{gradientOfRows, rows, {}, isQuery ? plan.scale : 1.0};
  for (auto [part, columns] :
       llvm::zip_equal(headParts.get().drop_front(), plan.columns))
    if (columns.get(hoisted.operand) == hoisted.op)
      rowSums.parts.push_back(part);
  return rowSums;
}

void PayloadGradients::addReadSums() {
  for (auto [number, sum] : llvm::enumerate(sums.readGradients)) {
    if (!getRowParamGradient(number) && sum)
      params.add(number, sum.tensor,
                 llvm::is_contained(rareReads, number) ? tables.offsets.range
                                                       : Value());
  }
}

void PayloadGradients::launchPullbacks(Value queryGradient,
                                       const RowParts &headParts,
                                       Value keyGradient) {
  SmallVector<Value> gradients;
  for (auto [number, hoisted] : llvm::enumerate(plan.hoisted)) {
    Value &gradient = gradients.emplace_back();
    if (!hoisted.wantsGradient)
      continue;
    HoistGradientShape gradientShape =
        getHoistGradientShape(lowering, hoisted, tables.options);
    std::string suffix = ("sum_" + Twine(number)).str();
    if (hoisted.form != HoistForm::RowLaneTable) {
      gradient = lowering.allocate(gradientShape.type, gradientShape.sizes);
      launchSum(lowering, suffix, sums.tableGradients[number].tensor, gradient);
      continue;
    }
    bool isQuery = hoisted.operand == pos::RowOperand::query;
    TableRowSums rowSums =
        getRowSums(number, gradientShape.sizes[2],
                   isQuery ? queryGradient : keyGradient, headParts);
    // A parameter that is the table takes the sums itself.
    Value target;
    if (hoisted.param)
      target = getRowParamGradient(*hoisted.param);
    rowSums.adds = target != nullptr;
    if (!rowSums.adds)
      target = gradient =
          lowering.allocate(gradientShape.type, gradientShape.sizes);
    else if (hoisted.isAtIndex && hoisted.operand == pos::RowOperand::query)
      rowSums.shift = getQueryShift();
    launchTableRowSums(lowering, suffix, hoisted, rowSums, target);
  }
  launchHoistPullbacks(lowering, tables, gradients, params);
  launchPiecewiseLinearPullbacks(lowering, tables.bounds, sumHingeMoments(),
                                 params);
}

void PayloadGradients::makeHoistSums(const HoistTables &hoists,
                                     const SumShape &sumShape) {
  tables = hoists;
  shape = sumShape;
  for (const Hoisted &hoisted : plan.hoisted)
    sums.tableGradients.push_back(makeHoistSum(hoisted));
}

Value PayloadGradients::getTermPartials() const {
  const Hoisted *term = plan.findRowTerm();
  return term ? sums.tableGradients[term - plan.hoisted.data()].tensor
              : Value();
}

void PayloadGradients::makeSums() {
  for (const PiecewiseLinearFunction &function : plan.hinges) {
    sums.hingeMoments.emplace_back();
    if (function.wantsGradient)
      sums.hingeMoments.back() = makePartialSum(
          lowering, countWarpParts(), lowering.getDim(op.getQuery(), 1),
          Value(), f64, /*zero=*/true,
          PiecewiseLinearLayout(function.op, shape.width).countMoments());
  }
  for (auto [number, param] : llvm::enumerate(op.getParams()))
    sums.readGradients.push_back(makeReadSum(number, param));
}

void PayloadGradients::addTo(LaunchOperands &operands) {
  for (SmallVector<PartialSum> *all :
       {&sums.tableGradients, &sums.hingeMoments, &sums.readGradients})
    for (PartialSum &sum : *all)
      sum.addTo(operands);
  for (unsigned number : rareReads)
    sums.inPlaceGradients.push_back(*sums.readGradients[number]);
}

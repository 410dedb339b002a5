//===- BackwardLowering.cpp - The launches of the backward ----------------===//

#include "codegen/CPU/BackwardLowering.h"
#include "codegen/CPU/AllHeads/AllHeadsBackwardLoopNest.h"
#include "codegen/CPU/Backward/BackwardLoopNest.h"
#include "codegen/CPU/ForwardLowering.h"
#include "codegen/Plan/RowLaneTables.h"
#include "codegen/Rows/AttentionLaunch.h"
#include "codegen/Rows/Columns.h"
#include "codegen/Rows/Delta.h"
#include "codegen/Rows/Finish.h"
#include "codegen/Rows/RowGradients.h"
#include "codegen/Rows/RowProducts.h"
#include "codegen/Rows/TableRowSums.h"
#include "codegen/Tables/PiecewiseLinearTable.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Work items that a launch should have where its shape allows: enough for the
/// threads of a large machine, while each chunk costs a copy of dQ.
static constexpr int64_t wantedItems = 32;
/// Copies of dQ are this many (query heads times chunks) at most, for grouped
/// queries.
static constexpr int64_t mostCopies = 64;

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

namespace {
/// Arithmetic on values of type index.
struct Sizes {
  const Lowering &lowering;

  Value constant(int64_t value) const {
    return arith::ConstantIndexOp::create(lowering.builder, lowering.getLoc(),
                                          value);
  }
  template <typename OpTy> Value create(Value a, Value b) const {
    return OpTy::create(lowering.builder, lowering.getLoc(), a, b);
  }
  Value mul(Value a, Value b) const { return create<arith::MulIOp>(a, b); }
  Value ceilDiv(Value a, Value b) const {
    return create<arith::CeilDivSIOp>(a, b);
  }
  Value min(Value a, Value b) const { return create<arith::MinSIOp>(a, b); }
  Value max(Value a, Value b) const { return create<arith::MaxSIOp>(a, b); }
  Value roundUp(Value a, int64_t multiple) const {
    Value unit = constant(multiple);
    return mul(ceilDiv(a, unit), unit);
  }
};
} // namespace

/// Chunks of key tiles per (batch, head of the keys), from the shape only. With
/// scores of all heads, items are of all heads.
static Value getChunks(const Sizes &sizes, const BackwardShape &shape,
                       pos::AttentionBackwardOp op, bool ofAllHeads) {
  const Lowering &lowering = sizes.lowering;
  Value one = sizes.constant(1);
  // Scans go from tile to tile.
  if (!lowering.plan.scans.empty())
    return one;
  Value batch = lowering.getDim(op.getQuery(), 0);
  Value heads = lowering.getDim(op.getQuery(), 1);
  Value keyHeads = lowering.getDim(op.getKey(), 1);
  Value tiles = sizes.ceilDiv(lowering.getDim(op.getKey(), 2),
                              sizes.constant(shape.keys));
  auto quotient = [&](int64_t total, Value by) {
    return sizes.ceilDiv(sizes.constant(total), sizes.max(by, one));
  };
  // A copy of dQ is as wide as rows with their columns are: fewer of them.
  int64_t items = wantedItems * shape.headParts.get().front().dim /
                  std::max<int64_t>(shape.headDim, 1);
  Value wanted = quotient(std::max<int64_t>(items, 1),
                          ofAllHeads ? batch : sizes.mul(batch, keyHeads));
  Value most = quotient(mostCopies, sizes.mul(batch, heads));
  return sizes.max(one, sizes.min(tiles, sizes.min(wanted, most)));
}

//===----------------------------------------------------------------------===//
// Partial sums of gradients
//===----------------------------------------------------------------------===//

namespace {
/// The launches of one backward, in the order in which they run.
class BackwardLowering {
public:
  BackwardLowering(const Lowering &lowering)
      : lowering(lowering), sizes{lowering},
        op(cast<pos::AttentionBackwardOp>(lowering.plan.owner)),
        target(getTarget(lowering)),
        launch(lowering.plan, target, op.getQuery().getType().getElementType(),
               getHeadParts(lowering.plan, op.getQuery()),
               getHeadDims(op.getValues())),
        params(lowering) {
    if (!lowering.plan.scoreHeads)
      return;
    weights.emplace(lowering.plan, lowering.plan.scoreHeads);
    launch.weights = &*weights;
    launch.shape.useOnePanel();
  }

  FailureOr<SmallVector<Value>> run();

private:
  /// Of bf16 scores of all heads compute everything in f32.
  static VectorTarget getTarget(const Lowering &lowering) {
    VectorTarget target = lowering.target;
    if (lowering.plan.scoreHeads)
      target.bf16Dot = nullptr;
    return target;
  }

  LogicalResult verify();
  bool isOfQueryColumns(const Hoisted &hoisted) const;
  TableRowSums getRowSums(size_t number, Value rows) const;
  RowStatistics launchStatistics();
  void addReads(const RowStatistics &statistics);
  /// Partial sums [parts, B, heads, sizes...]; a null size is static, `last`.
  PartialSum makeSum(Value parts, Value heads, ArrayRef<Value> sizes,
                     Type element, bool zero, int64_t last = 0);
  PartialSum makeHoistSum(const Hoisted &hoisted);
  Value getQueryShift();
  PartialSum makeRowSum(const Hoisted &hoisted, Value rows);
  Value getRowParamGradient(unsigned number);
  PartialSum makeKeyProductSum(const RowProducts &products);
  PartialSum makeReadSum(unsigned number, Value param);
  void makeOffsetSums(const OffsetProduct &product);
  void makeSums();
  void addWrites();
  void launchMain();
  void addReadSums();
  SmallVector<Value> launchRowProductPullbacks(pos::Side side);
  Value launchOffsetPullbacks(size_t number);
  SmallVector<Value> launchProductPullbacks();
  void launchAddendGradient(const RowTable &table, StringRef suffix,
                            Value rows);
  SmallVector<Value> sumHingeMoments();
  void launchHoistGradients();

  const Lowering &lowering;
  const KernelPlan &plan = lowering.plan;
  Type f32 = lowering.builder.getF32Type(), f64 = lowering.builder.getF64Type();
  Sizes sizes;
  pos::AttentionBackwardOp op;
  VectorTarget target;
  std::optional<AllHeadsWeights> weights;
  BackwardLaunch launch;
  LaunchOperands operands;
  HoistTables tables;
  Value chunks, paddedQueries;
  ParamSums params;
  /// Parameters that are read where tables do not hold the offsets in use.
  SmallVector<unsigned> rareReads;
  Value keyGradient;
  SmallVector<Value> valueGradients;
  /// Per table of products of query or key, per weighted rows.
  SmallVector<RowProducts> rowProducts, outputProducts;
  /// Per product with rows of offsets.
  SmallVector<OffsetRows> offsetRows;
};
} // namespace

static unsigned getTable(pos::WeightedRowsOp rows) {
  return cast<BlockArgument>(rows.getTable()).getArgNumber();
}

LogicalResult BackwardLowering::verify() {
  if (failed(verifyCPUOperands(plan)))
    return failure();
  return verifyRowGradients(plan);
}

/// Whether the gradient of a value is a part of that of the query's rows.
bool BackwardLowering::isOfQueryColumns(const Hoisted &hoisted) const {
  return hoisted.operand == pos::RowOperand::query &&
         plan.countColumns(hoisted.op) > 0;
}

PartialSum BackwardLowering::makeSum(Value parts, Value heads,
                                     ArrayRef<Value> sizes, Type element,
                                     bool zero, int64_t last) {
  SmallVector<Value> all{parts, lowering.getDim(op.getQuery(), 0), heads};
  llvm::append_range(all, sizes);
  SmallVector<int64_t> shape;
  for (Value size : all)
    shape.push_back(size ? ShapedType::kDynamic : last);
  return {lowering.allocate(RankedTensorType::get(shape, element), all, zero)};
}

/// Of the gradient of a hoisted value, but for those of columns of the query.
/// The row term's have one part more, which takes the gradient of the
/// log-sum-exp.
PartialSum BackwardLowering::makeHoistSum(const Hoisted &hoisted) {
  if (!hoisted.wantsGradient || isOfQueryColumns(hoisted))
    return {};
  HoistGradientShape gradient =
      getHoistGradientShape(lowering, hoisted, tables.options);
  Type element = f32;
  Value parts = chunks, entries;
  if (&hoisted == plan.findRowTerm())
    parts = sizes.create<arith::AddIOp>(chunks, sizes.constant(1));
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
    entries = sizes.roundUp(gradient.sizes[2], launch.shape.queries);
    break;
  case HoistForm::KeyVector:
    // A key belongs to one chunk.
    parts = sizes.constant(1);
    entries = sizes.roundUp(gradient.sizes[2], launch.shape.keys);
    break;
  case HoistForm::RowLaneTable:
    // So does a row; heads are those of the operand.
    return makeRowSum(hoisted, gradient.sizes[2]);
  }
  return makeSum(parts, heads, entries, element, /*zero=*/true);
}

/// Whether the parameter is read by row and lane only, element by element: few
/// terms come together in its gradient.
static bool isReadByRow(const KernelPlan &plan, BlockArgument param) {
  return llvm::all_of(param.getUsers(), [&](Operation *user) {
    auto read = dyn_cast<pos::ReadOp>(user);
    auto hoist = user->getParentOfType<pos::HoistOp>();
    if (!read || !hoist)
      return false;
    auto isIndexedBy = [&](auto isIndex) {
      return llvm::any_of(read.getIndices(), [&](Value index) {
        return index.getDefiningOp() && isIndex(index);
      });
    };
    return isIndexedBy([](Value index) {
             return isa<pos::IndexOp, pos::TensorRowOp>(
                        index.getDefiningOp()) ||
                    isIndexOfRow(index);
           }) &&
           isIndexedBy([](Value index) {
             return isa<pos::LaneOp>(index.getDefiningOp());
           });
  });
}

/// Zeros for the gradient of a parameter that is read by row, null for others.
Value BackwardLowering::getRowParamGradient(unsigned number) {
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

/// From the number of a query to its index.
Value BackwardLowering::getQueryShift() {
  Value shift = sizes.create<arith::SubIOp>(lowering.getDim(op.getKey(), 2),
                                            lowering.getDim(op.getQuery(), 2));
  if (Value tail = op.getQueryTail())
    shift = sizes.create<arith::SubIOp>(shift, lowering.getDim(tail, 0));
  return shift;
}

/// Of the gradient of a table over rows and lanes: heads are those of the
/// operand. A parameter that is the table takes the gradients itself: of keys
/// where it has as many elements as the batch, of queries unless those before
/// the first key share its first row.
PartialSum BackwardLowering::makeRowSum(const Hoisted &hoisted, Value rows) {
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

RowStatistics BackwardLowering::launchStatistics() {
  Value termPartials;
  if (const Hoisted *term = plan.findRowTerm())
    termPartials = launch.tableGradients[term - plan.hoisted.data()].tensor;
  return launchDelta(lowering, launch.shape, paddedQueries, termPartials);
}

/// Lanes are keys.
static ProductLayout getProductLayout(const RowTable &table) {
  return table.side == pos::Side::key ? ProductLayout::Lanes
                                      : ProductLayout::Rows;
}

void BackwardLowering::addReads(const RowStatistics &statistics) {
  launch.sites.query = operands.read(op.getQuery());
  launch.sites.key = operands.read(op.getKey());
  for (Value value : op.getValues())
    launch.sites.values.push_back(operands.read(value));
  for (Value gradient : op.getOutputGradients())
    launch.outputGradients.push_back(operands.read(gradient));
  launch.negativeShift = operands.read(statistics.negativeShift);
  launch.inverseSum = operands.read(statistics.inverseSum);
  launch.negativeDelta = operands.read(statistics.negativeDelta);
  launch.sites.append(plan, tables, operands.layout, operands.reads);
  if (weights)
    launch.packed = operands.read(tables.packed);
  for (auto [number, table] : llvm::enumerate(plan.rowTables)) {
    rowProducts.emplace_back(table, op.getQuery(), op.getKey(), op.getParams());
    rowProducts.back().used =
        launchUsedEntries(lowering, tables, number, rowProducts.back());
    launch.sites.rowProducts.push_back(operands.read(
        launchRowProducts(lowering, ("products_" + Twine(number)).str(),
                          rowProducts.back(), getProductLayout(table))));
  }
  for (auto [number, rows] : llvm::enumerate(plan.weightedRows)) {
    outputProducts.push_back(RowProducts(op.getOutputGradients().front(),
                                         op.getParams()[getTable(rows)]));
    launch.sites.outputProducts.push_back(operands.read(
        launchRowProducts(lowering, ("output_products_" + Twine(number)).str(),
                          outputProducts.back(), ProductLayout::Rows)));
  }
  for (size_t number = 0; number < plan.offsetProducts.size(); ++number) {
    bool transposes =
        plan.offsetProducts[number].table.side == pos::Side::query;
    OffsetRows rows = launchOffsetRows(lowering, tables, number, transposes);
    offsetRows.push_back(rows);
    launch.offsetRows.push_back(operands.read(rows.rows));
    launch.offsetSeen.push_back(operands.read(rows.seen));
    launch.offsetColumns.emplace_back();
    if (transposes)
      launch.offsetColumns.back() = operands.read(rows.transposed);
    launch.offsetEnds.emplace_back();
    if (rows.ends)
      launch.offsetEnds.back() = operands.read(rows.ends);
  }
}

/// Gradients of products of keys, one per lane.
PartialSum BackwardLowering::makeKeyProductSum(const RowProducts &products) {
  return makeSum(
      sizes.constant(1), lowering.getDim(op.getKey(), 1),
      {sizes.ceilDiv(products.padRows(lowering), sizes.constant(target.width)),
       products.padTableRows(lowering), Value()},
      f32, /*zero=*/true, target.width);
}

/// Of the gradient of what tiles read of a parameter themselves.
PartialSum BackwardLowering::makeReadSum(unsigned number, Value param) {
  TileReads reads = plan.tileReads[number];
  if (!plan.paramWantsGradient[number] || reads == TileReads::Never)
    return {};
  // Scores of all heads never use tables under given positions.
  bool isRare = reads == TileReads::Rarely && !weights;
  Value entries = sizes.constant(1);
  for (int64_t dim = 0,
               rank = cast<RankedTensorType>(param.getType()).getRank();
       dim < rank; ++dim)
    entries = sizes.mul(entries, lowering.getDim(param, dim));
  if (isRare)
    rareReads.push_back(number);
  return makeSum(chunks, lowering.getDim(op.getKey(), 1), entries, f64,
                 /*zero=*/!isRare);
}

/// Partial sums of all but hoisted values.
void BackwardLowering::makeSums() {
  Value heads = lowering.getDim(op.getQuery(), 1);
  auto ofRows = [&](Value rows, Value row, int64_t last = 0) {
    return makeSum(chunks, heads, {rows, row}, f32, /*zero=*/false, last);
  };
  launch.queryGradient = ofRows(paddedQueries, {}, launch.shape.headRow);
  for (const PiecewiseLinearFunction &function : plan.hinges) {
    launch.hingeMoments.emplace_back();
    if (function.wantsGradient)
      launch.hingeMoments.back() = makeSum(
          chunks, heads, Value(), f64, /*zero=*/true,
          PiecewiseLinearLayout(function.op, target.width).countMoments());
  }
  // The gradients of products, and what scans keep.
  for (auto [products, table] : llvm::zip_equal(rowProducts, plan.rowTables))
    launch.rowProductGradients.push_back(
        table.side == pos::Side::query
            ? ofRows(paddedQueries, products.padTableRows(lowering))
            : makeKeyProductSum(products));
  for (auto [products, rows] : llvm::zip(outputProducts, plan.weightedRows)) {
    launch.bucketGradients.emplace_back();
    if (plan.paramWantsGradient[getTable(rows)])
      launch.bucketGradients.back() =
          ofRows(paddedQueries, products.padTableRows(lowering));
  }
  for (const OffsetProduct &product : plan.offsetProducts)
    makeOffsetSums(product);
  for (auto [number, param] : llvm::enumerate(op.getParams()))
    launch.readGradients.push_back(makeReadSum(number, param));
}

/// Of the gradients of a product with rows of offsets. A key belongs to one
/// chunk.
void BackwardLowering::makeOffsetSums(const OffsetProduct &product) {
  int64_t row = launch.offsetShape.row;
  pos::Side side = product.table.side;
  auto ofSide = [&](Value parts, Value rows) {
    return makeSum(parts, countHeads(lowering, product), {rows, Value()}, f32,
                   /*zero=*/false, row);
  };
  launch.offsetSideGradients.push_back(
      side == pos::Side::query
          ? ofSide(chunks, paddedQueries)
          : ofSide(sizes.constant(1),
                   sizes.roundUp(lowering.getDim(op.getKey(), 2),
                                 launch.shape.panel)));
  launch.offsetRowGradients.emplace_back();
  if (plan.paramWantsGradient[product.table.param])
    launch.offsetRowGradients.back() =
        ofSide(chunks, launch.offsetShape.countEntries(lowering, side));
}

void BackwardLowering::addWrites() {
  makeSums();
  launch.queryGradient.addTo(operands);
  // What is added to it later is rounded with it, once.
  auto keyType = cast<RankedTensorType>(op.getKeyGradient().getType());
  if (plan.multipliesKeys())
    keyType = RankedTensorType::get(keyType.getShape(), f32);
  keyGradient = lowering.allocateLike(op.getKey(), keyType);
  launch.keyGradient = operands.write(keyGradient);
  for (auto [value, gradient] :
       llvm::zip_equal(op.getValues(), op.getValueGradients())) {
    valueGradients.push_back(lowering.allocateLike(value, gradient.getType()));
    launch.valueGradients.push_back(operands.write(valueGradients.back()));
  }
  auto addAll = [&](MutableArrayRef<PartialSum> sums) {
    for (PartialSum &sum : sums)
      sum.addTo(operands);
  };
  addAll(launch.tableGradients);
  addAll(launch.hingeMoments);
  addAll(launch.rowProductGradients);
  addAll(launch.bucketGradients);
  for (size_t number = 0; number < offsetRows.size(); ++number) {
    launch.offsetSideGradients[number].addTo(operands);
    launch.offsetRowGradients[number].addTo(operands);
  }
  if (size_t scans = plan.scans.size())
    launch.scanState = operands.write(
        makeSum(sizes.constant(3 * scans), lowering.getDim(op.getQuery(), 1),
                paddedQueries, f32, /*zero=*/false)
            .tensor);
  addAll(launch.readGradients);
  for (unsigned number : rareReads)
    launch.inPlaceGradients.push_back(*launch.readGradients[number]);
}

void BackwardLowering::launchMain() {
  launch.operands = operands.layout;
  auto create = weights ? createAllHeadsBackwardKernel : createBackwardKernel;
  create(lowering, "main", launch, target);
  // Five products of 2 * d FLOP per score.
  return launchAttention(
      lowering, operands, "main", launch.sites,
      2 * (3 * launch.shape.headDim + 2 * launch.shape.valueDim));
}

/// Moments of functions of hinges, summed over the chunks.
SmallVector<Value> BackwardLowering::sumHingeMoments() {
  SmallVector<Value> moments;
  for (auto [number, sum] : llvm::enumerate(launch.hingeMoments)) {
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

/// What adds up to the gradient of a table over rows and lanes: the columns of
/// the query's rows, or what row maps and columns of keys gave each row.
TableRowSums BackwardLowering::getRowSums(size_t number, Value rows) const {
  const Hoisted &hoisted = plan.hoisted[number];
  if (!isOfQueryColumns(hoisted))
    return {launch.tableGradients[number].tensor,
            rows,
            {{countTableColumns(plan, hoisted), /*first=*/0}}};
  TableRowSums sums{launch.queryGradient.tensor, rows, {}, plan.scale};
  for (auto [part, columns] :
       llvm::zip_equal(launch.shape.headParts.get().drop_front(), plan.columns))
    if (columns.query == hoisted.op)
      sums.parts.push_back(part);
  return sums;
}

/// Begins the gradients of parameters, which are f64 (each may be one number
/// from all scores) or f32 (few terms, of rows), by the sums of what tiles read
/// themselves.
void BackwardLowering::addReadSums() {
  for (auto [number, sum] : llvm::enumerate(launch.readGradients)) {
    if (!getRowParamGradient(number) && sum)
      params.add(number, sum.tensor,
                 llvm::is_contained(rareReads, number) ? tables.offsets.range
                                                       : Value());
  }
}

/// What is added to query rows has the sum of their gradients.
void BackwardLowering::launchAddendGradient(const RowTable &table,
                                            StringRef suffix, Value rows) {
  if (table.addend && params.isWanted(*table.addend))
    launchRowSum(lowering, suffix, rows, params, *table.addend);
}

/// Adds the gradients of tables to those of the parameters; gives the gradients
/// of the rows of a side as they entered, sums of several.
SmallVector<Value> BackwardLowering::launchRowProductPullbacks(pos::Side side) {
  auto allocateRows = [&](const RowProducts &products) {
    SmallVector<int64_t> shape(4, ShapedType::kDynamic);
    shape.push_back(products.getRowWidth(lowering));
    return lowering.allocate(
        RankedTensorType::get(shape, f32),
        {sizes.constant(1), lowering.getDim(products.rows, 0),
         lowering.getDim(products.rows, 1),
         side == pos::Side::query ? paddedQueries : products.padRows(lowering),
         Value()},
        /*zero=*/true);
  };
  SmallVector<Value> all;
  Value common; // of tables to whose rows nothing is added
  for (auto [number, products] : llvm::enumerate(rowProducts)) {
    const RowTable &table = plan.rowTables[number];
    if (table.side != side)
      continue;
    Value rows = table.addend ? Value() : common;
    if (!rows) {
      rows = allocateRows(products);
      all.push_back(rows);
      if (!table.addend)
        common = rows;
    }
    std::string suffix = ("products_pull_" + Twine(number)).str();
    launchRowProductsPullback(lowering, suffix, products,
                              getProductLayout(table),
                              launch.rowProductGradients[number].tensor, rows,
                              params.getSum(table.param));
    launchAddendGradient(table, suffix + "_addend", rows);
  }
  return all;
}

/// Likewise of a product with rows of offsets.
Value BackwardLowering::launchOffsetPullbacks(size_t number) {
  const RowTable &table = plan.offsetProducts[number].table;
  if (launch.offsetRowGradients[number])
    launchOffsetPullback(lowering, number, offsetRows[number],
                         launch.offsetRowGradients[number].tensor, params);
  Value rows = launch.offsetSideGradients[number].tensor;
  launchAddendGradient(table, ("offset_addend_" + Twine(number)).str(), rows);
  return rows;
}

/// Likewise of all products; gives the gradients of the query rows and adds
/// those of the key rows to the gradient of the key.
SmallVector<Value> BackwardLowering::launchProductPullbacks() {
  auto launchAll = [&](pos::Side side) {
    SmallVector<Value> rows = launchRowProductPullbacks(side);
    for (auto [number, product] : llvm::enumerate(plan.offsetProducts))
      if (product.table.side == side)
        rows.push_back(launchOffsetPullbacks(number));
    return rows;
  };
  SmallVector<Value> queryRows = launchAll(pos::Side::query);
  if (plan.multipliesKeys())
    keyGradient = launchAddRows(
        lowering, "finish_key", keyGradient, launchAll(pos::Side::key),
        cast<RankedTensorType>(op.getKeyGradient().getType()));
  for (auto [number, site] : llvm::enumerate(plan.weightedRows))
    if (launch.bucketGradients[number])
      launchRowProductsPullback(lowering,
                                ("buckets_pull_" + Twine(number)).str(),
                                outputProducts[number], ProductLayout::Rows,
                                launch.bucketGradients[number].tensor, Value(),
                                params.getSum(getTable(site)));
  return queryRows;
}

/// Gradients of hoisted values, from their partial sums, and of the parameters
/// behind them.
void BackwardLowering::launchHoistGradients() {
  SmallVector<Value> gradients;
  for (auto [number, hoisted] : llvm::enumerate(plan.hoisted)) {
    Value &gradient = gradients.emplace_back();
    if (!hoisted.wantsGradient)
      continue;
    HoistGradientShape shape =
        getHoistGradientShape(lowering, hoisted, tables.options);
    std::string suffix = ("sum_" + Twine(number)).str();
    if (hoisted.form != HoistForm::RowLaneTable) {
      gradient = lowering.allocate(shape.type, shape.sizes);
      launchSum(lowering, suffix, launch.tableGradients[number].tensor,
                gradient);
      continue;
    }
    TableRowSums sums = getRowSums(number, shape.sizes[2]);
    // A parameter that is the table takes the sums itself.
    Value target;
    if (hoisted.param)
      target = getRowParamGradient(*hoisted.param);
    sums.adds = target != nullptr;
    if (!sums.adds)
      target = gradient = lowering.allocate(shape.type, shape.sizes);
    else if (hoisted.isAtIndex && hoisted.operand == pos::RowOperand::query)
      sums.shift = getQueryShift();
    launchTableRowSums(lowering, suffix, hoisted, sums, target);
  }
  launchHoistPullbacks(lowering, tables, gradients, params);
}

FailureOr<SmallVector<Value>> BackwardLowering::run() {
  if (failed(verify()))
    return failure();
  tables = launchHoists(
      lowering, {OffsetOrder::Ascending, launch.tablePadding()}, launch.weights,
      weights ? weights->launch(lowering) : Value());
  paddedQueries =
      sizes.roundUp(lowering.getDim(op.getQuery(), 2), launch.shape.queries);
  chunks = getChunks(sizes, launch.shape, op, weights.has_value());
  for (const Hoisted &hoisted : plan.hoisted)
    launch.tableGradients.push_back(makeHoistSum(hoisted));
  addReads(launchStatistics());
  addWrites();
  launchMain();
  addReadSums();
  SmallVector<Value> unmapped = launchProductPullbacks();
  // Rows have their gradients when they are pulled back through their maps,
  // which gives the tables behind the maps theirs.
  Value queryGradient =
      launchFinish(lowering, launch.shape, tables, launch.queryGradient.tensor,
                   unmapped, launch.tableGradients);
  launchHoistGradients();
  launchPiecewiseLinearPullbacks(lowering, tables.bounds, sumHingeMoments(),
                                 params);
  SmallVector<Value> results{queryGradient, keyGradient};
  llvm::append_range(results, valueGradients);
  for (int32_t number : op.getParamGradients())
    results.push_back(params.finish(number, f32));
  return results;
}

FailureOr<SmallVector<Value>>
sextant::codegen::lowerBackward(const Lowering &lowering) {
  return BackwardLowering(lowering).run();
}

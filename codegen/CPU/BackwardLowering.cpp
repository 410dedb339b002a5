//===- BackwardLowering.cpp - The launches of the backward ----------------===//

#include "codegen/CPU/BackwardLowering.h"
#include "codegen/CPU/AllHeads/AllHeadsBackwardLoopNest.h"
#include "codegen/CPU/AllHeads/AllHeadsUnitProducts.h"
#include "codegen/CPU/Backward/BackwardLoopNest.h"
#include "codegen/CPU/BackwardCuts.h"
#include "codegen/CPU/ForwardLowering.h"
#include "codegen/Plan/RowLaneTables.h"
#include "codegen/Rows/AttentionLaunch.h"
#include "codegen/Rows/Columns.h"
#include "codegen/Rows/Delta.h"
#include "codegen/Rows/Finish.h"
#include "codegen/Rows/RowGradients.h"
#include "codegen/Rows/RowProducts.h"
#include "codegen/Rows/RowsApart.h"
#include "codegen/Tables/PiecewiseLinearTable.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

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
        gradients(lowering, launch) {
    if (!plan.scans.empty())
      launch.shape.keepKeysOfScans();
    if (!plan.scoreHeads)
      return;
    weights.emplace(plan, plan.scoreHeads);
    launch.weights = &*weights;
    launch.shape.keepTilesOfAllHeads(weights->getHeads());
  }

  FailureOr<SmallVector<Value>> run();

private:
  /// What a kernel of all heads keeps is mostly too large for near memory; with
  /// what it has there, rows of queries and statistics, eight items fit where
  /// four of other kernels do.
  static VectorTarget getTarget(const Lowering &lowering) {
    if (!lowering.plan.scoreHeads)
      return lowering.target;
    auto op = cast<pos::AttentionBackwardOp>(lowering.plan.owner);
    VectorTarget target = getTargetOfAllHeads(
        lowering.target, op.getQuery().getType().getElementType());
    constexpr int64_t ofRows = int64_t(27) << 10;
    target.near.bytes = std::min(target.near.bytes, ofRows);
    return target;
  }

  LogicalResult verify();
  RowStatistics launchStatistics();
  void addReads(const RowStatistics &statistics);
  PartialSum makeKeyProductSum(const RowProducts &products);
  void addRowsApart();
  void makeOffsetSums(const OffsetProduct &product);
  void makeSums();
  void addOrder();
  void addWrites();
  PartialSum makePartOfRows(Value rows, int64_t row);
  void addKeyAndValueWrites();
  void launchMain();
  Value finish(pos::RowOperand operand, Value rows, Type type, Value partials,
               ArrayRef<Value> unmapped, const Twine &suffix);
  SmallVector<Value> launchRowProductPullbacks(pos::Side side);
  Value launchOffsetPullbacks(size_t number);
  SmallVector<Value> launchProductPullbacks();
  void launchAddendGradient(const RowTable &table, StringRef suffix,
                            Value rows);

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
  BackwardCuts cuts;
  Value paddedQueries;
  PayloadGradients gradients;
  bool cutsQueries = lowering.target.granularity.cutsQueries;
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

RowStatistics BackwardLowering::launchStatistics() {
  return launchDelta(lowering, launch.shape.paddedRows, paddedQueries,
                     gradients.getTermPartials());
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
  if (weights) {
    launch.packed = operands.read(tables.packed);
    addRowsApart();
  }
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

/// Copies rows that the main kernel would read in place, if heads share sets of
/// a cache.
void BackwardLowering::addRowsApart() {
  const BackwardShape &shape = launch.shape;
  if (shape.isNear || !launch.element.isF32())
    return;
  auto copy = [&](StringRef suffix, unsigned operand, Value rows, int64_t row) {
    int64_t ofQuery = shape.headDim + shape.valueDim + shape.headRow;
    Value copied = launchRowsApart(lowering, suffix, rows, paddedQueries,
                                   shape.paddedRows, row, ofQuery);
    return RowsApart{operand, operands.read(copied)};
  };
  if (weights->getHeads() <= RowsApart::mostInPlace)
    return;
  if (plan.queryRows.empty() && shape.readsInPlace(shape.headParts))
    launch.queriesApart =
        copy("queries_apart", launch.sites.query, op.getQuery(), shape.headRow);
  if (shape.readsInPlace(shape.valueParts))
    launch.outputGradientsApart =
        copy("output_gradients_apart", launch.outputGradients.front(),
             op.getOutputGradients().front(), shape.valueRow);
}

/// Gradients of products of keys, one per lane of each part.
PartialSum BackwardLowering::makeKeyProductSum(const RowProducts &products) {
  return makePartialSum(
      lowering, cuts.parts, lowering.getDim(op.getKey(), 1),
      {sizes.ceilDiv(products.padRows(lowering), sizes.constant(target.width)),
       products.padTableRows(lowering), Value()},
      f32, /*zero=*/true, target.width);
}

/// Partial sums of all but hoisted values.
void BackwardLowering::makeSums() {
  Value heads = lowering.getDim(op.getQuery(), 1);
  auto ofRows = [&](Value rows, Value row, int64_t last = 0) {
    return makePartialSum(lowering, cuts.chunks, heads, {rows, row}, f32,
                          /*zero=*/false, last);
  };
  launch.queryGradient = ofRows(
      weights ? padApart(lowering, paddedQueries, launch.shape.paddedRows)
              : paddedQueries,
      {}, launch.shape.headRow);
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
  gradients.makeSums();
}

/// Makes the sums of the gradients of a product with rows of offsets. A key
/// belongs to one chunk, a query to one part.
void BackwardLowering::makeOffsetSums(const OffsetProduct &product) {
  int64_t row = launch.offsetShape.row;
  pos::Side side = product.table.side;
  auto ofSide = [&](Value parts, Value rows) {
    return makePartialSum(lowering, parts, countHeads(lowering, product),
                          {rows, Value()}, f32,
                          /*zero=*/false, row);
  };
  launch.offsetSideGradients.push_back(
      side == pos::Side::query
          ? ofSide(cuts.chunks, paddedQueries)
          : ofSide(cuts.parts, sizes.roundUp(lowering.getDim(op.getKey(), 2),
                                             launch.shape.panel)));
  launch.offsetRowGradients.emplace_back();
  if (plan.paramWantsGradient[product.table.param])
    launch.offsetRowGradients.back() =
        ofSide(cuts.sums, launch.offsetShape.countEntries(lowering, side));
}

/// Sums of the gradients of rows of keys or values over a part of the queries.
PartialSum BackwardLowering::makePartOfRows(Value rows, int64_t row) {
  PartialSum sum = makePartialSum(
      lowering, cuts.parts, lowering.getDim(op.getKey(), 1),
      {sizes.roundUp(lowering.getDim(rows, 2), launch.shape.keys), Value()},
      f32, /*zero=*/false, llvm::alignTo(row, target.width));
  sum.addTo(operands);
  return sum;
}

void BackwardLowering::addKeyAndValueWrites() {
  if (cutsQueries) {
    launch.keyRows = makePartOfRows(op.getKey(), launch.shape.headRow);
    for (auto [value, part] :
         llvm::zip_equal(op.getValues(), launch.shape.valueParts.get()))
      launch.valueRows.push_back(makePartOfRows(value, part.dim));
    return;
  }
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
}

void BackwardLowering::addOrder() {
  if (!cuts.items)
    return;
  Value batch = lowering.getDim(op.getQuery(), 0);
  Type i64 = lowering.builder.getI64Type();
  auto add = [&](ArrayRef<int64_t> shape, ValueRange sizes) {
    return operands.write(lowering.allocate(RankedTensorType::get(shape, i64),
                                            sizes, /*zero=*/true));
  };
  launch.order = {
      add(1, Value()),
      add({ShapedType::kDynamic, ShapedType::kDynamic}, {batch, cuts.items})};
}

void BackwardLowering::addWrites() {
  makeSums();
  addOrder();
  launch.queryGradient.addTo(operands);
  addKeyAndValueWrites();
  auto addAll = [&](MutableArrayRef<PartialSum> sums) {
    for (PartialSum &sum : sums)
      sum.addTo(operands);
  };
  gradients.addTo(operands);
  addAll(launch.rowProductGradients);
  addAll(launch.bucketGradients);
  for (size_t number = 0; number < offsetRows.size(); ++number) {
    launch.offsetSideGradients[number].addTo(operands);
    launch.offsetRowGradients[number].addTo(operands);
  }
  if (size_t scans = plan.scans.size())
    launch.scanState =
        operands.write(makePartialSum(lowering, sizes.constant(3 * scans),
                                      lowering.getDim(op.getQuery(), 1),
                                      paddedQueries, f32, /*zero=*/false)
                           .tensor);
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

/// The gradient of rows from sums of mapped ones, and of those that entered.
Value BackwardLowering::finish(pos::RowOperand operand, Value rows, Type type,
                               Value partials, ArrayRef<Value> unmapped,
                               const Twine &suffix) {
  return launchFinish(
      lowering, suffix.str(), tables,
      {operand, rows, cast<RankedTensorType>(type), partials, unmapped},
      launch.tableGradients);
}

/// What is added to query rows has the sum of their gradients.
void BackwardLowering::launchAddendGradient(const RowTable &table,
                                            StringRef suffix, Value rows) {
  if (table.addend && gradients.params.isWanted(*table.addend))
    launchRowSum(lowering, suffix, rows, gradients.params, *table.addend);
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
                              gradients.params.getSum(table.param));
    launchAddendGradient(table, suffix + "_addend", rows);
  }
  return all;
}

/// Launches the pullback of a product with rows of offsets; gives the gradient
/// of the rows that were multiplied.
Value BackwardLowering::launchOffsetPullbacks(size_t number) {
  const RowTable &table = plan.offsetProducts[number].table;
  if (launch.offsetRowGradients[number])
    launchOffsetPullback(lowering, number, offsetRows[number],
                         launch.offsetRowGradients[number].tensor,
                         gradients.params);
  Value rows = launch.offsetSideGradients[number].tensor;
  launchAddendGradient(table, ("offset_addend_" + Twine(number)).str(), rows);
  return rows;
}

/// Launches the pullbacks of all products; gives the gradients of the query
/// rows and adds those of the key rows to the gradient of the key.
SmallVector<Value> BackwardLowering::launchProductPullbacks() {
  auto launchAll = [&](pos::Side side) {
    SmallVector<Value> rows = launchRowProductPullbacks(side);
    for (auto [number, product] : llvm::enumerate(plan.offsetProducts))
      if (product.table.side == side)
        rows.push_back(launchOffsetPullbacks(number));
    return rows;
  };
  SmallVector<Value> queryRows = launchAll(pos::Side::query);
  if (cutsQueries) {
    keyGradient =
        finish(pos::RowOperand::key, op.getKey(), op.getKeyGradient().getType(),
               launch.keyRows.tensor, launchAll(pos::Side::key), "finish_key");
    for (auto [number, rows] : llvm::enumerate(launch.valueRows))
      valueGradients.push_back(
          finish(pos::RowOperand::value, op.getValues()[number],
                 op.getValueGradients()[number].getType(), rows.tensor, {},
                 "finish_value" + Twine(number)));
  } else if (plan.multipliesKeys()) {
    keyGradient = launchAddRows(
        lowering, "finish_key", keyGradient, launchAll(pos::Side::key),
        cast<RankedTensorType>(op.getKeyGradient().getType()));
  }
  for (auto [number, site] : llvm::enumerate(plan.weightedRows))
    if (launch.bucketGradients[number])
      launchRowProductsPullback(lowering,
                                ("buckets_pull_" + Twine(number)).str(),
                                outputProducts[number], ProductLayout::Rows,
                                launch.bucketGradients[number].tensor, Value(),
                                gradients.params.getSum(getTable(site)));
  return queryRows;
}

FailureOr<SmallVector<Value>> BackwardLowering::run() {
  if (failed(verify()))
    return failure();
  tables = launchHoists(
      lowering, {OffsetOrder::Ascending, launch.tablePadding()}, launch.weights,
      weights ? weights->launch(lowering) : Value());
  paddedQueries =
      sizes.roundUp(lowering.getDim(op.getQuery(), 2), launch.shape.paddedRows);
  cuts = cutBackward(lowering, launch.shape, weights.has_value());
  gradients.makeHoistSums(tables,
                          {cuts.sums, launch.shape.paddedRows,
                           launch.shape.keys, target.width,
                           /*ofAllHeads=*/weights.has_value(),
                           /*warps=*/1,
                           /*keysHaveColumns=*/cutsQueries, cuts.parts});
  addReads(launchStatistics());
  addWrites();
  launchMain();
  gradients.addReadSums();
  SmallVector<Value> unmapped = launchProductPullbacks();
  // Rows have their gradients when they are pulled back through their maps,
  // which gives the tables behind the maps theirs.
  Value queryGradient = finish(pos::RowOperand::query, op.getQuery(),
                               op.getQueryGradient().getType(),
                               launch.queryGradient.tensor, unmapped, "finish");
  gradients.launchPullbacks(launch.queryGradient.tensor, launch.shape.headParts,
                            launch.keyRows.tensor);
  SmallVector<Value> results{queryGradient, keyGradient};
  llvm::append_range(results, valueGradients);
  for (int32_t number : op.getParamGradients())
    results.push_back(gradients.params.finish(number, f32));
  return results;
}

FailureOr<SmallVector<Value>>
sextant::codegen::lowerBackward(const Lowering &lowering) {
  return BackwardLowering(lowering).run();
}

//===- BackwardProducts.cpp - Products of rows in the backward ------------===//

#include "codegen/CPU/Backward/BackwardProducts.h"
#include "codegen/Tiles/TableRows.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

Value BackwardProducts::readQueryProducts(unsigned products, Index rows,
                                          Value index, bool runs) {
  return readProducts(at.place, products, at.place.head, at.getQuery(), rows,
                      index, runs);
}

void BackwardProducts::addToQueryProducts(unsigned sums, Index rows,
                                          Value index, Value addend,
                                          bool runs) {
  const HeadPlace &place = at.place;
  Value base = place.arguments.getAddress(
      sums, {at.chunk, place.batch, place.head, at.getQuery()});
  TableEntry entry = toEntry(kernel, index, rows);
  auto addOne = [&](Value row, Value value) {
    Value at = kernel.advance(base, {kernel.fromI32(row)});
    kernel.store(kernel.addF(kernel.loadF32(at), value), at);
  };
  addend = kernel.broadcast(addend);
  if (!isa<VectorType>(index.getType()))
    return addOne(entry.row, kernel.sumLanes(addend));
  auto [firstRow, isSame] = findSame(kernel, entry.row);
  Value first = firstRow;
  auto addLanes = [&] {
    kernel.store(entry.row, lanesMemory);
    kernel.storeVector(addend, lanesMemory, {kernel.width()});
    kernel.loop(0, kernel.width(), 1, [&](Value lane) {
      addOne(kernel.load(kernel.i32,
                         kernel.advance(lanesMemory, {lane}, kernel.i32)),
             kernel.loadF32(lanesMemory, {lane, kernel.width()}));
    });
  };
  auto addRun = [&] {
    LaneRun run(kernel, entry.row);
    kernel.when(run.holds, [&] { run.add(base, addend); }, addLanes);
  };
  kernel.when(
      isSame, [&] { addOne(first, kernel.sumLanes(addend)); },
      [&] { runs ? addRun() : addLanes(); });
}

/// Each lane has a key, and so sums, of its own.
void BackwardProducts::addToKeyProducts(unsigned sums, Index rows, Value index,
                                        Value addend) {
  const HeadPlace &place = at.place;
  Index group = getLaneGroup(place, sums, 3, at.getKey());
  Value base = place.arguments.getAddress(
      sums, {at.part, place.batch, at.kvHead, group});
  TableEntry entry = toEntry(kernel, index, rows);
  addend = kernel.broadcast(addend);
  auto addVector = [&](Value row) {
    Value at =
        kernel.advance(base, {kernel.mul(kernel.fromI32(row), kernel.width())});
    kernel.storeVector(kernel.addF(kernel.loadVector(at), addend), at);
  };
  if (!isa<VectorType>(index.getType()))
    return addVector(entry.row);
  auto addApart = [&] {
    Value places = getLanePlaces(kernel, entry.row);
    Value sum = kernel.gather(kernel.f32, base, places);
    kernel.scatter(kernel.addF(sum, addend), base, places);
  };
  if (kernel.target.lanesHaveAddresses)
    return addApart();
  auto [firstRow, isSame] = findSame(kernel, entry.row);
  Value first = firstRow;
  kernel.when(isSame, [&] { addVector(first); }, addApart);
}

Value BackwardProducts::rowDot(pos::RowDotOpInterface op, Value index) {
  if (auto product = dyn_cast<pos::OffsetDotOp>(*op))
    return offsetDot(product, index);
  unsigned table = at.launch.plan.findTable(op);
  unsigned products = at.launch.sites.rowProducts[table];
  Index rows = countTableRows(at.place, op);
  bool runs = !at.launch.plan.offsetIndices[table].empty();
  if (op.getSide() == pos::Side::query)
    return readQueryProducts(products, rows, index, runs);
  return readLaneProducts(at.place, products, at.kvHead, at.getKey(), rows,
                          index);
}

void BackwardProducts::addToRowDot(pos::RowDotOpInterface op, Value index,
                                   Value cotangent) {
  const BackwardLaunch &launch = at.launch;
  if (auto product = dyn_cast<pos::OffsetDotOp>(*op))
    return kernel.storeVector(
        kernel.broadcast(cotangent),
        bandCells[launch.plan.findOffsetProduct(product)].gradients,
        {kernel.mul(at.row, launch.shape.stride), at.getLane()});
  unsigned table = launch.plan.findTable(op);
  unsigned sums = *launch.rowProductGradients[table];
  Index rows = countTableRows(at.place, op);
  bool runs = !launch.plan.offsetIndices[table].empty();
  if (op.getSide() == pos::Side::query)
    addToQueryProducts(sums, rows, index, cotangent, runs);
  else
    addToKeyProducts(sums, rows, index, cotangent);
}

/// The product with the row of the cell's offset.
Value BackwardProducts::offsetDot(pos::OffsetDotOp op, Value index) {
  const BandCell &cell = bandCells[at.launch.plan.findOffsetProduct(op)];
  Value product = kernel.loadVector(
      cell.products, {kernel.mul(at.row, cell.stride), at.getLane()});
  if (!index)
    return product;
  return orNaN(
      kernel, product,
      toEntry(kernel, kernel.broadcast(index), countTableRows(at.place, op)));
}

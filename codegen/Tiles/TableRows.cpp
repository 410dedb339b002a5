//===- TableRows.cpp - Rows of tables that payloads name ------------------===//

#include "codegen/Tiles/TableRows.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <cmath>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

TableEntry codegen::toEntry(KernelBuilder &kernel, Value row, Index rows) {
  Value limit = kernel.toI32(rows), zero = kernel.constantI32(0);
  if (isa<VectorType>(row.getType())) {
    limit = kernel.broadcast(limit);
    zero = kernel.splatI32(0);
  }
  Value exists = arith::CmpIOp::create(kernel.builder, kernel.loc,
                                       arith::CmpIPredicate::ult, row, limit);
  return {kernel.selectF(exists, row, zero), exists};
}

Value codegen::orNaN(KernelBuilder &kernel, Value value,
                     const TableEntry &entry) {
  double nan = std::nan("");
  bool isVector = isa<VectorType>(value.getType());
  return kernel.selectF(entry.exists, value,
                        isVector ? kernel.splatF32(nan)
                                 : kernel.constantF32(nan));
}

Value codegen::holdsInAll(KernelBuilder &kernel, Value lanes) {
  return vector::ReductionOp::create(kernel.builder, kernel.loc,
                                     vector::CombiningKind::AND, lanes);
}

std::pair<Value, Value> codegen::findSame(KernelBuilder &kernel, Value lanes) {
  Value first = LLVM::ExtractElementOp::create(kernel.builder, kernel.loc,
                                               lanes, kernel.constantI32(0));
  Value same = arith::CmpIOp::create(kernel.builder, kernel.loc,
                                     arith::CmpIPredicate::eq, lanes,
                                     kernel.broadcast(first));
  return {first, holdsInAll(kernel, same)};
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

LaneRun::LaneRun(KernelBuilder &kernel, Value lanes) : kernel(kernel) {
  auto extract = [&](int32_t lane) -> Value {
    return LLVM::ExtractElementOp::create(kernel.builder, kernel.loc, lanes,
                                          kernel.constantI32(lane));
  };
  first = extract(0);
  Index step = kernel.sub(kernel.fromI32(extract(1)), kernel.fromI32(first));
  isDown = kernel.equal(step, -1);
  Value isUp = kernel.equal(step, 1);
  Value distance =
      arith::MulIOp::create(kernel.builder, kernel.loc, kernel.lanes(0),
                            kernel.broadcast(kernel.toI32(step)));
  Value expected = arith::AddIOp::create(kernel.builder, kernel.loc, distance,
                                         kernel.broadcast(first));
  Value same = arith::CmpIOp::create(kernel.builder, kernel.loc,
                                     arith::CmpIPredicate::eq, lanes, expected);
  holds = kernel.both(kernel.either(isUp, isDown), holdsInAll(kernel, same));
}

Value LaneRun::getStart(Value base) const {
  Index low = kernel.select(isDown, 1 - kernel.width(), 0);
  return kernel.advance(base, {kernel.fromI32(first), low});
}

Value LaneRun::turn(Value vector) const {
  SmallVector<int64_t> reverse;
  for (int64_t lane = kernel.width(); lane-- > 0;)
    reverse.push_back(lane);
  return kernel.selectF(isDown, kernel.shuffle(vector, vector, reverse),
                        vector);
}

Value LaneRun::load(Value base) const {
  return turn(kernel.loadVector(getStart(base)));
}

void LaneRun::add(Value base, Value addend) const {
  Value at = getStart(base);
  kernel.storeVector(kernel.addF(kernel.loadVector(at), turn(addend)), at);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// What a table has for row `index`, or NaN where it has no such row: one
/// `load` where all lanes ask for the same row (i32), else a `gather`.
static Value lookUp(KernelBuilder &kernel, Value index, Index rows,
                    function_ref<Value(Value)> load,
                    function_ref<Value(Value)> gather) {
  using Values = KernelBuilder::Values;
  TableEntry entry = toEntry(kernel, index, rows);
  if (!isa<VectorType>(index.getType()))
    return orNaN(kernel, load(entry.row),
                 {entry.row, kernel.broadcast(entry.exists)});
  if (kernel.target.lanesHaveAddresses)
    return orNaN(kernel, gather(entry.row), entry);
  auto [first, isSame] = findSame(kernel, entry.row);
  Value row = first; // a structured binding cannot be captured
  Values found = kernel.choose(
      isSame, {kernel.vf32}, [&]() -> Values { return {load(row)}; },
      [&]() -> Values { return {gather(entry.row)}; });
  return orNaN(kernel, found.front(), entry);
}

Value codegen::readProducts(const HeadPlace &place, unsigned products,
                            Index head, Index row, Index tableRows, Value index,
                            bool runs) {
  using Values = KernelBuilder::Values;
  KernelBuilder &kernel = place.kernel;
  Value base = place.arguments.getAddress(products, {place.batch, head, row});
  auto gather = [&](Value each) {
    return kernel.gather(kernel.f32, base, each);
  };
  auto loadRun = [&](Value each) {
    LaneRun run(kernel, each);
    return kernel
        .choose(
            run.holds, {kernel.vf32},
            [&]() -> Values { return {run.load(base)}; },
            [&]() -> Values { return {gather(each)}; })
        .front();
  };
  return lookUp(
      kernel, index, tableRows,
      [&](Value entry) {
        return kernel.loadBroadcast(base, {kernel.fromI32(entry)});
      },
      [&](Value each) {
        bool asksForRuns = runs && !kernel.target.lanesHaveAddresses;
        return asksForRuns ? loadRun(each) : gather(each);
      });
}

Index codegen::getLaneGroup(const HeadPlace &place, unsigned tensor,
                            unsigned dim, Index first) {
  KernelBuilder &kernel = place.kernel;
  Index last = kernel.sub(place.arguments.getSize(tensor, dim), 1);
  return kernel.min(kernel.div(first, kernel.width()), last);
}

Value codegen::getLanePlaces(KernelBuilder &kernel, Value entries) {
  Value places = arith::MulIOp::create(kernel.builder, kernel.loc, entries,
                                       kernel.splatI32(kernel.width()));
  return arith::AddIOp::create(kernel.builder, kernel.loc, places,
                               kernel.lanes(0));
}

Value codegen::readLaneProducts(const HeadPlace &place, unsigned products,
                                Index head, Index first, Index tableRows,
                                Value index) {
  KernelBuilder &kernel = place.kernel;
  Index group = getLaneGroup(place, products, 2, first);
  Value base = place.arguments.getAddress(products, {place.batch, head, group});
  return lookUp(
      kernel, index, tableRows,
      [&](Value entry) {
        return kernel.loadVector(
            base, {kernel.mul(kernel.fromI32(entry), kernel.width())});
      },
      [&](Value each) {
        return kernel.gather(kernel.f32, base, getLanePlaces(kernel, each));
      });
}

Index codegen::countTableRows(const HeadPlace &place,
                              pos::RowDotOpInterface op) {
  auto table = cast<BlockArgument>(op.getTable());
  unsigned tensor = *place.operands.params[table.getArgNumber()];
  return place.arguments.getSize(tensor, op.getColumns() ? 1 : 0);
}

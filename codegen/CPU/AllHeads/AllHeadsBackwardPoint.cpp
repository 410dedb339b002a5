//===- AllHeadsBackwardPoint.cpp - Gradients of payloads of all heads -----===//

#include "codegen/CPU/AllHeads/AllHeadsBackwardPoint.h"
#include "codegen/Payload/Payload.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

Value AllHeadsBackwardPoint::getMemory(Places &places, Value owner,
                                       int64_t words) {
  auto [place, isNew] = places.try_emplace(owner, 0);
  if (isNew)
    place->second = scratch.layout.reserve(words);
  return scratch.at(kernel, place->second);
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

void AllHeadsBackwardPoint::addToHoisted(OpBuilder &, pos::HoistOp hoist,
                                         Value cotangent) {
  const Hoisted *hoisted = plan.find(hoist);
  if (!hoisted || !hoisted->wantsGradient)
    return;
  Value lanes = kernel.broadcast(cotangent);
  if (!isAmongHeads || hoisted->perHead)
    return addToTable(hoist, lanes);
  Value &sum = shared[hoist];
  sum = sum ? kernel.addF(sum, lanes) : lanes;
}

void AllHeadsBackwardPoint::endHeads() {
  isAmongHeads = false;
  auto sums = shared.takeVector();
  for (auto [hoist, sum] : sums)
    addToTable(cast<pos::HoistOp>(hoist), sum);
}

void AllHeadsBackwardPoint::addToTable(pos::HoistOp hoist, Value lanes) {
  const Hoisted *hoisted = plan.find(hoist);
  Index row = hoisted->perHead ? headPlace.head : Index(0);
  unsigned tensor = *launch.tableGradients[hoisted - plan.hoisted.data()];
  auto addVector = [&](Value at) {
    kernel.storeVector(kernel.addF(kernel.loadVector(at), lanes), at);
  };
  switch (hoisted->form) {
  case HoistForm::OffsetTable:
    if (gradients.holds(hoist))
      addVector(gradients.getEntry(hoist, row, entry));
    else
      kernel.check(
          pullbackHoist(kernel.builder, hoist, lanes,
                        *this)); // computed in place, under given positions
    return;
  case HoistForm::HeadScalar:
    addVector(kernel.advance(getSums(hoist.getResult()),
                             {kernel.mul(row, kernel.width())}));
    return;
  case HoistForm::QueryVector: {
    Value at = arguments.getAddress(
        tensor, {getSum(), headPlace.batch, row, getQuery()});
    kernel.store(kernel.addF(kernel.loadF32(at), kernel.sumLanes(lanes)), at);
    return;
  }
  case HoistForm::KeyVector:
    addVector(arguments.getAddress(
        tensor, {getPart(), headPlace.batch, row, getKey()}));
    return;
  case HoistForm::RowLaneTable:
    break;
  }
  llvm_unreachable("a score payload uses no table of a row map");
}

void AllHeadsBackwardPoint::addToElements(pos::HoistOp hoist, Index first,
                                          ValueRange cotangents) {
  for (auto [number, cotangent] : llvm::enumerate(cotangents)) {
    Index row = kernel.add(first, number);
    Value at = gradients.getEntry(hoist, row, entry);
    kernel.storeVector(kernel.addF(kernel.loadVector(at), cotangent), at);
  }
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

void AllHeadsBackwardPoint::addToElements(pos::ElementsOp param, Index first,
                                          ValueRange cotangents) {
  Value to = kernel.advance(getSums(param.getResult()),
                            {kernel.mul(first, kernel.width())});
  for (auto [number, cotangent] : llvm::enumerate(cotangents)) {
    int64_t place = static_cast<int64_t>(number) * kernel.width();
    kernel.storeVector(kernel.addF(kernel.loadVector(to, {place}), cotangent),
                       to, {place});
  }
}

void AllHeadsBackwardPoint::keep(Value to, Index first, ValueRange values) {
  Value at = kernel.advance(to, {kernel.mul(first, getStepStride()), step});
  for (auto [number, value] : llvm::enumerate(values))
    kernel.storeVector(value, at,
                       {static_cast<int64_t>(number) * getStepStride()});
}

void AllHeadsBackwardPoint::recordResult(pos::ContractOp contract, Index first,
                                         ValueRange cotangents) {
  Value result = contract.getResult();
  keep(getMemory(results, result, getVectorExtent(result) * getStepStride()),
       first, cotangents);
}

void AllHeadsBackwardPoint::recordOperand(pos::ContractOp contract, Index first,
                                          ValueRange values) {
  int64_t words = getVectorExtent(contract.getVector()) * getStepStride();
  keep(getMemory(elements, contract.getResult(), words), first, values);
}

SmallVector<pos::ContractOp> AllHeadsBackwardPoint::getContracts() {
  SmallVector<pos::ContractOp> wanted;
  pos::ScoreOp score = plan.score;
  score.getBody().walk([&](pos::ContractOp op) {
    if (wantsGradient(cast<BlockArgument>(op.getMatrix())))
      wanted.push_back(op);
  });
  return wanted;
}

/// Products sum_t x[r][t] y[c][t] for a tile of rows and columns, lane by lane.
void AllHeadsBackwardPoint::addTile(Value x, Value y, Value to, int64_t columns,
                                    Index lanes, int64_t tileRows,
                                    int64_t tileColumns) {
  int64_t width = kernel.width(), stride = getStepStride();
  Values initial;
  for (int64_t r = 0; r < tileRows; ++r)
    for (int64_t c = 0; c < tileColumns; ++c)
      initial.push_back(kernel.loadVector(to, {(r * columns + c) * width}));
  Values sums = kernel.loop(
      0, lanes, width, initial, [&](Value lane, ValueRange carried) {
        Values next(carried), left;
        for (int64_t r = 0; r < tileRows; ++r)
          left.push_back(kernel.loadVector(x, {lane, r * stride}));
        // One column at a time: all of them would not fit.
        for (int64_t c = 0; c < tileColumns; ++c) {
          Value right = kernel.loadVector(y, {lane, c * stride});
          for (int64_t r = 0; r < tileRows; ++r) {
            Value &sum = next[r * tileColumns + c];
            sum = kernel.fma(left[r], right, sum);
          }
        }
        return next;
      });
  for (int64_t r = 0; r < tileRows; ++r)
    for (int64_t c = 0; c < tileColumns; ++c)
      kernel.storeVector(sums[r * tileColumns + c], to,
                         {(r * columns + c) * width});
}

void AllHeadsBackwardPoint::addProducts(Index lanes) {
  bool isWide = kernel.target.hasManyRegisters();
  int64_t mostRows = isWide ? 4 : 2, mostColumns = isWide ? 6 : 4;
  if (launch.shape.isNear) { // threads have registers for more
    mostRows = 4;
    mostColumns = 8;
  }
  int64_t width = kernel.width(), stride = getStepStride();
  for (pos::ContractOp op : getContracts()) {
    int64_t rowCount = getVectorExtent(op.getResult());
    int64_t columnCount = getVectorExtent(op.getVector());
    Value x = getMemory(results, op.getResult(), rowCount * stride);
    Value y = getMemory(elements, op.getResult(), columnCount * stride);
    Value to = getSums(op.getResult());
    auto columnsOf = [&](Index row, int64_t tileRows) {
      Value xs = kernel.advance(x, {kernel.mul(row, stride)});
      Value out = kernel.advance(to, {kernel.mul(row, columnCount * width)});
      auto tile = [&](Index column, int64_t tileColumns) {
        addTile(xs, kernel.advance(y, {kernel.mul(column, stride)}),
                kernel.advance(out, {kernel.mul(column, width)}), columnCount,
                lanes, tileRows, tileColumns);
      };
      int64_t whole = columnCount / mostColumns * mostColumns;
      if (whole)
        kernel.loop(0, whole, mostColumns,
                    [&](Value column) { tile(column, mostColumns); });
      if (whole != columnCount)
        tile(whole, columnCount - whole);
    };
    int64_t whole = rowCount / mostRows * mostRows;
    if (whole)
      kernel.loop(0, whole, mostRows,
                  [&](Value row) { columnsOf(row, mostRows); });
    if (whole != rowCount)
      columnsOf(whole, rowCount - whole);
  }
}

//===----------------------------------------------------------------------===//
// Sums per lane
//===----------------------------------------------------------------------===//

SmallVector<AllHeadsBackwardPoint::Sums> AllHeadsBackwardPoint::getAllSums() {
  SmallVector<Sums> all;
  for (pos::ContractOp op : getContracts())
    all.push_back({op.getResult(), getVectorExtent(op.getResult()) *
                                       getVectorExtent(op.getVector())});
  pos::ScoreOp score = plan.score;
  score.getBody().walk([&](pos::ElementsOp op) {
    if (wantsGradient(cast<BlockArgument>(op.getParam())))
      all.push_back({op.getResult(), getVectorExtent(op.getResult())});
  });
  for (const Hoisted &hoisted : plan.hoisted)
    if (hoisted.form == HoistForm::HeadScalar && hoisted.wantsGradient)
      all.push_back({hoisted.op->getResult(0),
                     countRowsOfPoint(hoisted, weights.getHeads())});
  return all;
}

Value AllHeadsBackwardPoint::getSums(Value owner) {
  for (const Sums &entry : getAllSums())
    if (entry.owner == owner)
      return getMemory(sums, owner, entry.elements * kernel.width());
  llvm_unreachable("a gradient that nobody wants");
}

void AllHeadsBackwardPoint::clearSums() {
  for (const Sums &entry : getAllSums()) {
    Value to = getSums(entry.owner);
    kernel.loop(0, entry.elements * kernel.width(), kernel.width(),
                [&](Value word) {
                  kernel.storeVector(kernel.splatF32(0), to, {word});
                });
  }
}

void AllHeadsBackwardPoint::storeSums() {
  // The sums of all heads are those of the first head of the keys.
  auto chunkSums = [&](Value param) {
    unsigned number = cast<BlockArgument>(param).getArgNumber();
    return arguments.getAddress(*launch.readGradients[number],
                                {getSum(), headPlace.batch, 0});
  };
  for (const Sums &entry : getAllSums()) {
    Value from = getSums(entry.owner);
    auto addEach = [&](function_ref<Value(Index element)> getSum) {
      kernel.loop(0, entry.elements, 1, [&](Value element) {
        Index first = kernel.mul(element, kernel.width());
        Value addend = kernel.sumLanes(kernel.loadVector(from, {first}));
        kernel.addToF64(getSum(element), addend);
      });
    };
    Operation *op = entry.owner.getDefiningOp();
    if (auto contract = dyn_cast<pos::ContractOp>(op)) {
      int64_t columns = getVectorExtent(contract.getVector());
      auto matrix = cast<BlockArgument>(contract.getMatrix());
      unsigned tensor = *launch.sites.params[matrix.getArgNumber()];
      Value to = chunkSums(matrix);
      addEach([&](Index element) {
        Index place = kernel.add(
            kernel.mul(kernel.div(element, columns),
                       arguments.getSize(tensor, 1)),
            kernel.add(kernel.rem(element, columns), getFirstColumn(contract)));
        return kernel.advance(to, {place}, kernel.f64);
      });
    } else if (auto param = dyn_cast<pos::ElementsOp>(op)) {
      Value to = chunkSums(param.getParam());
      addEach([&](Index element) {
        return kernel.advance(to, {element}, kernel.f64);
      });
    } else {
      const Hoisted *hoisted = plan.find(cast<pos::HoistOp>(op));
      unsigned tensor = *launch.tableGradients[hoisted - plan.hoisted.data()];
      addEach([&](Index row) {
        return arguments.getAddress(tensor, {getSum(), headPlace.batch, row});
      });
    }
  }
}

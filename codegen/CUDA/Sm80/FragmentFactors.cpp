//===- FragmentFactors.cpp - The factors of a hinge product ---------------===//

#include "codegen/CUDA/Sm80/FragmentFactors.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using arith::CmpFPredicate;
using Values = KernelBuilder::Values;

static constexpr double infinity = std::numeric_limits<double>::infinity();

/// Each is read once.
FragmentFactors::Elements FragmentFactors::load() {
  Elements factors;
  llvm::DenseMap<std::pair<const Hoisted *, int64_t>, Value> known;
  bool rowsAreKeys = tile.rowSide == pos::Side::key;
  auto load = [&](const Hoisted *hoisted, int64_t entry) {
    Value &value = known[{hoisted, entry}];
    if (!value)
      value = point.hoisted(kernel.builder, hoisted->op);
    return value;
  };
  for (const FragmentElement &element : tile.getElements()) {
    point.setElement(element);
    factors.ofOffsets.push_back(
        load(get().ofOffsets, element.column - element.row));
    factors.ofQueries.push_back(
        load(get().ofQueries, rowsAreKeys ? element.column : element.row));
  }
  return factors;
}

/// Factors that are no finite numbers are those of hidden scores, whose
/// cotangents are 0, or of scores that are none, either: 0 in place of them
/// leaves both as they are.
FragmentFactors::Elements FragmentFactors::loadFinite() {
  Elements factors = load();
  Value zero = kernel.constantF32(0), none = kernel.constantF32(infinity);
  llvm::DenseMap<Value, Value> known;
  for (Values *values : {&factors.ofOffsets, &factors.ofQueries})
    for (Value &value : *values) {
      Value &own = known[value];
      if (!own) {
        Value size = math::AbsFOp::create(kernel.builder, kernel.loc, value);
        own = kernel.selectF(kernel.compareF(CmpFPredicate::OLT, size, none),
                             value, zero);
      }
      value = own;
    }
  return factors;
}

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

/// Those of the warp's part of the tile, shared out among its lanes. They are
/// one fewer than rows and columns; the one behind the last is in the window,
/// too.
Values FragmentFactors::loadOffsets() {
  int64_t count = tile.countWarpRows() + tile.countWarpColumns();
  Values offsets;
  for (int64_t first = 0; first < count; first += warpLanes) {
    Value entry = thread.add(thread.lane, first);
    if (first + warpLanes > count)
      entry = thread.min(entry, thread.constant(count - 1));
    offsets.push_back(point.getWindows().loadOfWarp(*get().ofOffsets, entry));
  }
  return offsets;
}

/// A product is between those with the least and the greatest factor. Where a
/// factor is no finite number, one of these is none, either.
NumberRange FragmentFactors::findRange(NumberRange queries) {
  NumberRange range;
  for (Value offset : loadOffsets())
    for (Value query : {queries.first, queries.second}) {
      Value argument = kernel.mulF(offset, query);
      range = range.first ? NumberRange(thread.least(range.first, argument),
                                        thread.most(range.second, argument))
                          : NumberRange(argument, argument);
    }
  return range;
}

NumberRange FragmentFactors::findQueryRange() {
  Values all;
  if (tile.rowSide == pos::Side::query) {
    for (int64_t row = 0; row < tile.countThreadRows(); ++row) {
      point.setElement(FragmentElement::get(row / 2, 0, 2 * (row % 2)));
      all.push_back(point.hoisted(kernel.builder, get().ofQueries->op));
    }
  } else {
    assert(tile.countWarpColumns() % warpLanes == 0 &&
           "lanes have as many columns each");
    for (int64_t first = 0; first < tile.countWarpColumns(); first += warpLanes)
      all.push_back(point.getWindows().loadOfWarp(
          *get().ofQueries, thread.add(thread.lane, first)));
  }
  NumberRange range{all.front(), all.front()};
  for (Value value : ArrayRef(all).drop_front())
    range = {thread.least(range.first, value),
             thread.most(range.second, value)};
  return acrossWarp(range);
}

/// Of the bits of an f32 a number that is as far up among integers as it is
/// among numbers, and the other way round. NaN is beyond all others.
static Value turnNegatives(ThreadBuilder &thread, Value bits) {
  OpBuilder &builder = thread.kernel.builder;
  Location loc = thread.kernel.loc;
  Value sign = arith::ShRSIOp::create(builder, loc, bits, thread.constant(31));
  Value mask =
      arith::AndIOp::create(builder, loc, sign, thread.constant(INT32_MAX));
  return arith::XOrIOp::create(builder, loc, bits, mask);
}

/// GPUs join integers of all lanes in one instruction.
NumberRange FragmentFactors::acrossWarp(NumberRange range) {
  constexpr int64_t allThreads = -1;
  auto join = [&](Value number, StringRef intrinsic) -> Value {
    OpBuilder &builder = kernel.builder;
    Value bits =
        arith::BitcastOp::create(builder, kernel.loc, kernel.i32, number);
    Value joined =
        LLVM::CallIntrinsicOp::create(builder, kernel.loc, kernel.i32,
                                      builder.getStringAttr(intrinsic),
                                      ValueRange{turnNegatives(thread, bits),
                                                 thread.constant(allThreads)})
            .getResult(0);
    return arith::BitcastOp::create(builder, kernel.loc, kernel.f32,
                                    turnNegatives(thread, joined));
  };
  return {join(range.first, "llvm.nvvm.redux.sync.min"),
          join(range.second, "llvm.nvvm.redux.sync.max")};
}

//===- MaskFunctions.cpp - A mask as functions that a test calls ----------===//
//
// A mask is emitted twice, at a point and over a tile, into two functions that
// are compiled in the test's process.
//
//===----------------------------------------------------------------------===//

#include "MaskFunctions.h"
#include "codegen/Payload/MaskTiles.h"
#include "codegen/Payload/Payload.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::test;

static bool isOfKeys(pos::HoistOp hoist) {
  return cast<pos::AxisAttr>(hoist.getAxes()[0]).getValue() == pos::Axis::key;
}

namespace {
/// One pair of rows; everything else is as it would be in the first head.
class PairPoint : public codegen::PayloadPoint {
public:
  PairPoint(Location loc, ValueRange pair, ArrayRef<Value> rowValues)
      : loc(loc), query(pair[0]), key(pair[1]), rowValues(rowValues) {}
  FloatType getComputeType() override {
    return Float32Type::get(loc.getContext());
  }
  int64_t getLanes() override { return 1; }
  Value index(OpBuilder &, pos::Side side) override {
    return side == pos::Side::query ? query : key;
  }
  Value tensorRow(OpBuilder &b, pos::Side side) override {
    return index(b, side);
  }
  Value coord(OpBuilder &b, pos::Side side, int64_t) override {
    return index(b, side);
  }
  Value offset(OpBuilder &b, int64_t) override {
    return arith::SubIOp::create(b, loc, key, query);
  }
  Value head(OpBuilder &b) override { return zero(b); }
  Value batch(OpBuilder &b) override { return zero(b); }
  Value lane(OpBuilder &) override { return {}; }
  Value extent(OpBuilder &b, pos::Extent) override { return zero(b); }
  Value bound(OpBuilder &, pos::Bound, pos::Side, int64_t) override {
    return {};
  }
  Value scale(OpBuilder &) override { return {}; }
  Value hoisted(OpBuilder &, pos::HoistOp hoist) override {
    return rowValues[isOfKeys(hoist)];
  }
  Value read(OpBuilder &, BlockArgument, ValueRange) override { return {}; }
  void addToHoisted(OpBuilder &, pos::HoistOp, Value) override {}
  void addToRead(OpBuilder &, BlockArgument, ValueRange, Value) override {}
  bool wantsGradient(pos::HoistOp) override { return false; }
  bool wantsGradient(BlockArgument) override { return false; }

private:
  Value zero(OpBuilder &b) {
    return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0));
  }
  Location loc;
  Value query, key;
  ArrayRef<Value> rowValues;
};

/// A tile of pairs of rows, whose bounds are arguments of a function.
class SquareTile : public pos::TileBounds {
public:
  explicit SquareTile(ValueRange bounds) : bounds(bounds) {}
  pos::ValueRange32 index(OpBuilder &, pos::Side side) override {
    return side == pos::Side::query ? pos::ValueRange32{bounds[0], bounds[1]}
                                    : pos::ValueRange32{bounds[2], bounds[3]};
  }
  pos::ValueRange32 coord(OpBuilder &b, pos::Side side, int64_t) override {
    return index(b, side);
  }
  Value head(OpBuilder &b) override { return zero(b); }
  Value batch(OpBuilder &b) override { return zero(b); }
  Value extent(OpBuilder &b, pos::Extent) override { return zero(b); }

private:
  Value zero(OpBuilder &b) {
    return arith::ConstantOp::create(b, bounds[0].getLoc(),
                                     b.getI32IntegerAttr(0));
  }
  ValueRange bounds;
};
} // namespace

static std::string moduleOf(const std::string &body, const std::string &type) {
  std::string zero = type == "f32" ? "0.0" : "0";
  std::string row = " {\n  %z = arith.constant " + zero + " : " + type +
                    "\n  pos.yield %z : " + type + "\n  } : " + type + "\n";
  std::string rows = "tensor<?x?x?x4xf32>", lse = "tensor<?x?x?xf32>";
  return "func.func @main(%q: " + rows +
         ") {\n  %0:2 = pos.attention %q, %q, "
         "(%q) : " +
         rows + ", " + rows + ", (" + rows + ") -> (" + rows + "), " + lse +
         " {\n  %x = pos.hoist [query]" + row + "  %y = pos.hoist [key]" + row +
         "  pos.mask {\n  %i = pos.index query\n  %j = pos.index key\n"
         "  %o = pos.offset\n  %one = arith.constant 1.0 : f32\n  %c0 = "
         "arith.constant 0 : i32\n"
         "  %c2 = arith.constant 2 : i32\n  %c3 = arith.constant 3 : i32\n" +
         body + "\n  pos.yield %v : i1\n  }\n}\n  return\n}\n";
}

/// Creates @point and @tile.
static LogicalResult createFunctions(ModuleOp module) {
  pos::MaskOp mask;
  module.walk([&](pos::MaskOp found) { mask = found; });
  Type rowType;
  module.walk([&](pos::HoistOp hoist) { rowType = hoist.getType(); });
  Location loc = module.getLoc();
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  ModuleOp kernels = ModuleOp::create(builder, loc, "kernels");
  Type i32 = builder.getI32Type();
  auto create = [&](StringRef name, unsigned arguments) {
    builder.setInsertionPointToEnd(kernels.getBody());
    auto function = func::FuncOp::create(
        builder, loc, name,
        builder.getFunctionType(SmallVector<Type>(arguments, i32), i32));
    builder.setInsertionPointToStart(function.addEntryBlock());
    return function;
  };
  auto rowValue = [&](Value bits) -> Value {
    if (rowType == i32)
      return bits;
    return arith::BitcastOp::create(builder, loc, rowType, bits);
  };
  auto widen = [&](Value value, bool otherwise) -> Value {
    if (!value)
      value = arith::ConstantOp::create(builder, loc,
                                        builder.getBoolAttr(otherwise));
    return arith::ExtUIOp::create(builder, loc, i32, value);
  };
  func::FuncOp point = create("point", 4);
  Value values[] = {rowValue(point.getArgument(2)),
                    rowValue(point.getArgument(3))};
  PairPoint pair(loc, point.getArguments(), values);
  FailureOr<SmallVector<Value>> visible =
      codegen::emitPayload(builder, mask.getBody().front(), {}, pair);
  if (failed(visible))
    return failure();
  func::ReturnOp::create(builder, loc, widen(visible->front(), false));
  func::FuncOp tile = create("tile", 8);
  SquareTile bounds(tile.getArguments());
  codegen::TileClass found = codegen::emitTileClass(
      builder, mask, bounds, [&](OpBuilder &, pos::HoistOp hoist) {
        unsigned first = isOfKeys(hoist) ? 6 : 4;
        return pos::ValueRange32{rowValue(tile.getArgument(first)),
                                 rowValue(tile.getArgument(first + 1))};
      });
  Value certain = widen(found.certain, false);
  Value possible = widen(found.possible, true);
  Value twice = arith::AddIOp::create(builder, loc, possible, possible);
  func::ReturnOp::create(
      builder, loc,
      arith::AddIOp::create(builder, loc, certain, twice).getResult());
  return success();
}

MaskFunctions test::compileMask(const std::string &body,
                                const std::string &type) {
  MaskFunctions functions;
  functions.program = Program::compile(moduleOf(body, type), "reference",
                                       nullptr, "", createFunctions);
  if (!functions.program)
    return functions;
  auto get = [&](auto &function, const char *name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(
        functions.program->symbol(name));
  };
  get(functions.point, "point");
  get(functions.tile, "tile");
  return functions;
}

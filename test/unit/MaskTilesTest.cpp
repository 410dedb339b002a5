//===- MaskTilesTest.cpp - Classes of tiles against every point
//-------------===//
//
// A tile called empty must hold no visible pair, a tile called full no hidden
// one, for every tile of a small square. How often a class is decided is
// checked as well, since "unknown" is never wrong.
//
//===----------------------------------------------------------------------===//

#include "codegen/MaskTiles.h"
#include "ProgramRunner.h"
#include "codegen/Payload.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::test;

namespace {
struct Case {
  const char *name;
  const char *body; ///< of %i, %j, %o, to %v
  bool exact;       ///< every empty and every full tile is recognised
};

/// One pair of rows; everything else is as it would be in the first head.
class PairPoint : public codegen::SiteContext {
public:
  PairPoint(Location loc, Value query, Value key)
      : loc(loc), query(query), key(key) {}
  FloatType getComputeType() override {
    return Float32Type::get(loc.getContext());
  }
  int64_t getLanes() override { return 1; }
  Value index(OpBuilder &, pos::Side side) override {
    return side == pos::Side::query ? query : key;
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
  Value scale(OpBuilder &) override { return {}; }
  Value hoisted(OpBuilder &, pos::HoistOp) override { return {}; }
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
};

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

static const Case cases[] = {
    {"causal", "%v = arith.cmpi sle, %j, %i : i32", true},
    {"strict", "%v = arith.cmpi sgt, %i, %j : i32", true},
    {"all", "%v = arith.constant true", true},
    {"none", "%v = arith.constant false", true},
    {"window",
     "%a = arith.cmpi sle, %o, %c0 : i32\n%n = arith.subi %c0, %o : i32\n"
     "%b = arith.cmpi slt, %n, %c3 : i32\n%v = arith.andi %a, %b : i1",
     false},
    {"two_sided", "%n = math.absi %o : i32\n%v = arith.cmpi slt, %n, %c3 : i32",
     true},
    {"prefix",
     "%a = arith.cmpi slt, %j, %c3 : i32\n%b = arith.cmpi sle, %j, %i : i32\n"
     "%v = arith.ori %a, %b : i1",
     false},
    {"diagonal", "%v = arith.cmpi eq, %i, %j : i32", true},
    {"off_diagonal", "%v = arith.cmpi ne, %i, %j : i32", true},
    {"blocks",
     "%a = arith.divsi %i, %c3 : i32\n%b = arith.divsi %j, %c3 : i32\n"
     "%v = arith.cmpi eq, %a, %b : i32",
     true},
    {"dilated",
     "%r = arith.remsi %o, %c2 : i32\n%v = arith.cmpi eq, %r, %c0 : i32",
     false},
    {"negated",
     "%true = arith.constant true\n%a = arith.cmpi sle, %j, %i : i32\n"
     "%v = arith.xori %a, %true : i1",
     true},
    {"either_one",
     "%a = arith.cmpi slt, %j, %c3 : i32\n%b = arith.cmpi slt, %i, %c2 : i32\n"
     "%v = arith.xori %a, %b : i1",
     false},
    {"selected",
     "%a = arith.cmpi slt, %i, %c3 : i32\n%b = arith.cmpi sle, %j, %i : i32\n"
     "%d = arith.cmpi slt, %j, %c2 : i32\n"
     "%v = arith.select %a, %b, %d : i1",
     false},
    {"selected_bound",
     "%a = arith.cmpi slt, %i, %c3 : i32\n"
     "%b = arith.select %a, %c2, %i : i32\n"
     "%v = arith.cmpi sle, %j, %b : i32",
     false},
    {"unsigned", "%v = arith.cmpi ult, %o, %c3 : i32", false},
    {"bounds",
     "%a = arith.minsi %i, %c3 : i32\n%b = arith.maxsi %j, %c2 : i32\n"
     "%v = arith.cmpi slt, %a, %b : i32",
     true},
    {"product",
     "%a = arith.muli %o, %i : i32\n%v = arith.cmpi slt, %a, %c3 : i32", false},
    {"unknown_op",
     "%a = arith.andi %i, %j : i32\n%v = arith.cmpi eq, %a, %c0 : i32", false},
    {"unknown_and_causal",
     "%a = arith.andi %i, %j : i32\n%b = arith.cmpi eq, %a, %c0 : i32\n"
     "%d = arith.cmpi sle, %j, %i : i32\n%v = arith.andi %b, %d : i1",
     false},
};

static std::string moduleOf(const Case &test) {
  std::string rows = "tensor<?x?x?x4xf32>", lse = "tensor<?x?x?xf32>";
  return "func.func @main(%q: " + rows +
         ") {\n  %0:2 = pos.attention %q, %q, "
         "(%q) : " +
         rows + ", " + rows + ", (" + rows + ") -> (" + rows + "), " + lse +
         " {\n  pos.mask {\n  %i = pos.index query\n  %j = pos.index key\n"
         "  %o = pos.offset\n  %c0 = arith.constant 0 : i32\n"
         "  %c2 = arith.constant 2 : i32\n  %c3 = arith.constant 3 : i32\n" +
         test.body + "\n  pos.yield %v : i1\n  }\n}\n  return\n}\n";
}

/// Creates @point(i, j) and @tile(i0, i1, j0, j1): bit 0 certain, bit 1
/// possible.
static LogicalResult createFunctions(ModuleOp module) {
  pos::MaskOp mask;
  module.walk([&](pos::MaskOp found) { mask = found; });
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
  auto widen = [&](Value value, bool otherwise) -> Value {
    if (!value)
      value = arith::ConstantOp::create(builder, loc,
                                        builder.getBoolAttr(otherwise));
    return arith::ExtUIOp::create(builder, loc, i32, value);
  };
  func::FuncOp point = create("point", 2);
  PairPoint pair(loc, point.getArgument(0), point.getArgument(1));
  FailureOr<SmallVector<Value>> visible =
      codegen::emitPayload(builder, mask.getBody().front(), {}, pair);
  if (failed(visible))
    return failure();
  func::ReturnOp::create(builder, loc, widen(visible->front(), false));
  func::FuncOp tile = create("tile", 4);
  SquareTile bounds(tile.getArguments());
  codegen::TileClass found = codegen::emitTileClass(
      builder, mask, bounds,
      [](OpBuilder &, pos::HoistOp) { return pos::ValueRange32(); });
  Value certain = widen(found.certain, false);
  Value possible = widen(found.possible, true);
  Value twice = arith::AddIOp::create(builder, loc, possible, possible);
  func::ReturnOp::create(
      builder, loc,
      arith::AddIOp::create(builder, loc, certain, twice).getResult());
  return success();
}

class MaskTiles : public testing::TestWithParam<Case> {};

TEST_P(MaskTiles, AgreesWithEveryPoint) {
  const Case &test = GetParam();
  auto program = Program::compile(moduleOf(test), "reference", nullptr, "",
                                  createFunctions);
  ASSERT_TRUE(program);
  auto point = reinterpret_cast<int (*)(int, int)>(program->symbol("point"));
  auto tile =
      reinterpret_cast<int (*)(int, int, int, int)>(program->symbol("tile"));
  ASSERT_TRUE(point && tile);
  constexpr int low = -2, high = 8; // fewer keys than queries: below 0
  int missed = 0;
  for (int i0 = low; i0 < high; ++i0)
    for (int i1 = i0; i1 < high; ++i1)
      for (int j0 = 0; j0 < high; ++j0)
        for (int j1 = j0; j1 < high; ++j1) {
          bool all = true, any = false;
          for (int i = i0; i <= i1; ++i)
            for (int j = j0; j <= j1; ++j) {
              bool visible = point(i, j);
              all &= visible;
              any |= visible;
            }
          int got = tile(i0, i1, j0, j1);
          bool certain = got & 1, possible = got & 2;
          EXPECT_TRUE(all || !certain)
              << "full: " << i0 << " " << i1 << " " << j0 << " " << j1;
          EXPECT_TRUE(!any || possible)
              << "empty: " << i0 << " " << i1 << " " << j0 << " " << j1;
          missed += certain != all || possible != any;
        }
  if (test.exact)
    EXPECT_EQ(missed, 0);
}

INSTANTIATE_TEST_SUITE_P(Masks, MaskTiles, testing::ValuesIn(cases),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

//===- OffsetTile.cpp - Values of offsets of a register tile --------------===//

#include "codegen/Tiles/OffsetTile.h"
#include "codegen/Tables/OffsetRange.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

SmallVector<const Hoisted *> codegen::getCellHoists(const KernelPlan &plan) {
  llvm::SmallSetVector<const Hoisted *, 4> hoists;
  if (!plan.hasPositions)
    return {};
  auto addUsed = [&](Operation *point) {
    point->walk([&](Operation *op) {
      for (Value operand : op->getOperands()) {
        auto hoist = operand.getDefiningOp<pos::HoistOp>();
        const Hoisted *hoisted = hoist ? plan.find(hoist) : nullptr;
        if (hoisted && hoisted->form == HoistForm::OffsetTable)
          hoists.insert(hoisted);
      }
    });
  };
  if (plan.score)
    addUsed(plan.score);
  if (plan.mask)
    addUsed(plan.mask);
  return hoists.takeVector();
}

OffsetTile::OffsetTile(KernelBuilder &kernel, ArgumentBlock &arguments,
                       const KernelPlan &plan, const SiteOperands &operands,
                       Value memory, int64_t rows, int64_t vectors)
    : kernel(kernel), arguments(arguments), operands(operands),
      hoists(getCellHoists(plan)), memory(memory), rows(rows),
      vectors(vectors) {}

void OffsetTile::fillFrom(TilePoint &point, TilePoint::Offsets source,
                          function_ref<void(Index row, Index vector)> moveTo) {
  point.setOffsets(source);
  int64_t panel = vectors * kernel.width();
  auto fillRow = [&](Value row, Value vector) {
    moveTo(row, vector);
    for (auto [number, hoisted] : llvm::enumerate(hoists)) {
      Value value = point.hoisted(kernel.builder, hoisted->op);
      if (!value)
        return kernel.check(failure());
      value = kernel.broadcast(value);
      if (value.getType() == kernel.vi1)
        value = arith::ExtUIOp::create(kernel.builder, kernel.loc, kernel.vi32,
                                       value);
      kernel.store(value,
                   kernel.advance(memory, {kernel.mul(row, panel),
                                           kernel.mul(vector, kernel.width()),
                                           number * rows * panel}));
    }
  };
  kernel.loop(0, vectors, 1, [&](Value vector) {
    auto fillRows = [&](Value) {
      kernel.loop(0, rows, 1, [&](Value row) { fillRow(row, vector); });
    };
    if (source != TilePoint::Offsets::Tables)
      return fillRows({});
    moveTo(0, vector);
    point.tables.forCodes(point.getLaneCodes(), fillRows);
  });
  point.setOffsets(TilePoint::Offsets::Cells);
}

void OffsetTile::fill(TilePoint &point,
                      function_ref<void(Index row, Index vector)> moveTo) {
  if (hoists.empty())
    return;
  kernel.when(
      OffsetRange(kernel, arguments, *operands.offsetRange).emitHasTables(),
      [&] { fillFrom(point, TilePoint::Offsets::Tables, moveTo); },
      [&] { fillFrom(point, TilePoint::Offsets::InPlace, moveTo); });
}

Value OffsetTile::load(pos::HoistOp hoist, Index place) const {
  auto found = llvm::find_if(
      hoists, [&](const Hoisted *known) { return known->op == hoist; });
  assert(found != hoists.end() && "a payload uses a value without a cell");
  int64_t first = (found - hoists.begin()) * rows * vectors * kernel.width();
  Value address = kernel.advance(memory, {place, first});
  Type type = hoist.getType();
  bool isCondition = type.isInteger(1);
  Value value = kernel.load(
      VectorType::get(kernel.width(), isCondition ? kernel.i32 : type),
      address);
  if (!isCondition)
    return value;
  return arith::CmpIOp::create(kernel.builder, kernel.loc,
                               arith::CmpIPredicate::ne, value,
                               kernel.splatI32(0));
}

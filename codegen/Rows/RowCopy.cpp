//===- RowCopy.cpp - Rows of an operand, copied and mapped ----------------===//

#include "codegen/Rows/RowCopy.h"
#include "codegen/Plan/RowLaneTables.h"
#include "codegen/Rows/RowGroups.h"
#include "codegen/Tables/PayloadCall.h"
#include "codegen/Tables/RowIndices.h"
#include "codegen/Tiles/CacheTraffic.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

//===----------------------------------------------------------------------===//
// RowPoint
//===----------------------------------------------------------------------===//

Value RowPoint::index(OpBuilder &, pos::Side) {
  return kernel.toI32(headPlace.toIndex(getSide(), row));
}

Value RowPoint::tensorRow(OpBuilder &, pos::Side) { return kernel.toI32(row); }

Value RowPoint::coord(OpBuilder &, pos::Side, int64_t axis) {
  return headPlace.getCoord(getSide(), row, axis);
}

Value RowPoint::lane(OpBuilder &) { return kernel.lanes(group); }

Index RowPoint::getTableRow(const Hoisted &hoisted) const {
  if (!hoisted.isAtIndex)
    return row;
  return kernel.max(headPlace.toIndex(getSide(), row), 0);
}

Value RowPoint::loadHoisted(const Hoisted &hoisted, unsigned table,
                            Value headStart) {
  Type type = tables.getStoredType(hoisted);
  if (hoisted.form == HoistForm::QueryVector ||
      hoisted.form == HoistForm::KeyVector)
    return tables.load(hoisted, kernel.advance(headStart, {row}, type),
                       std::nullopt);
  assert(hoisted.form == HoistForm::RowLaneTable &&
         "a row map uses no value of this form");
  Value start = kernel.advance(
      headStart,
      {kernel.mul(getTableRow(hoisted), arguments.getStride(table, 2))}, type);
  if (!hoisted.axes.contains(pos::Axis::lane))
    return tables.load(hoisted, start, std::nullopt);
  int64_t count =
      std::min(countTableColumns(plan, hoisted) - group, kernel.width());
  Value first = kernel.advance(start, {group}, type);
  if (!hoisted.param)
    return tables.load(hoisted, first, Index(count));
  return loadInPlace(start, arguments.getStride(table, 3), count);
}

/// Lanes of a row of a parameter, which may be anyhow in memory.
Value RowPoint::loadInPlace(Value start, Index step, int64_t count) {
  auto load = [&]() -> KernelBuilder::Values {
    return {kernel.loadPart(kernel.vf32, kernel.advance(start, {group}),
                            Index(count))};
  };
  auto gather = [&]() -> KernelBuilder::Values {
    Value last = kernel.splatI32(group + count - 1);
    Value lanes = arith::MinSIOp::create(kernel.builder, kernel.loc,
                                         kernel.lanes(group), last);
    Value places = arith::MulIOp::create(kernel.builder, kernel.loc, lanes,
                                         kernel.broadcast(kernel.toI32(step)));
    return {kernel.gather(kernel.f32, start, places)};
  };
  return kernel.choose(kernel.equal(step, 1), kernel.vf32, load, gather)[0];
}

//===----------------------------------------------------------------------===//
// Row maps
//===----------------------------------------------------------------------===//

/// One vector of groups of a row map.
static void emitGroups(KernelBuilder &kernel, const RowMap &map,
                       RowPoint &point, int64_t group, Value memory) {
  RowGroups groups(kernel, map, group);
  pos::RowsOp op = map.op;
  SmallVector<Value> mapped =
      callPayload(kernel, op.getBody().front(), groups.load(memory), point);
  for (Value &value : mapped)
    value = kernel.broadcast(value);
  groups.store(mapped, memory);
}

void sextant::codegen::emitRowMaps(KernelBuilder &kernel, ArrayRef<RowMap> maps,
                                   RowPoint &point, Index row, Value memory) {
  for (const RowMap &map : maps) {
    if (map.grouping == pos::Grouping::whole) {
      auto op = map.op;
      return kernel.check(
          op.emitOpError("maps of whole rows have no CPU kernel"));
    }
    for (int64_t group = 0; group < map.getNumGroups();
         group += kernel.width()) {
      point.setPoint(row, group);
      emitGroups(kernel, map, point, group, memory);
    }
  }
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

int64_t sextant::codegen::getCopiedRowWords(const VectorTarget &target,
                                            int64_t dim, bool pairs) {
  return llvm::alignTo(pairs ? llvm::divideCeil(dim, 2) : dim, target.width);
}

/// An element of a row, or several, as they are stored.
static Value convert(KernelBuilder &kernel, const RowCopy &copy, Value value,
                     Type stored, double factor) {
  if (getElementTypeOrSelf(value.getType()) != stored)
    value = kernel.extend(value);
  if (copy.clearsNaN) {
    Value zero = kernel.zero(value.getType());
    value = kernel.selectF(
        kernel.compareF(arith::CmpFPredicate::ORD, value, value), value, zero);
  }
  if (factor == 1.0)
    return value;
  return kernel.mulF(value, isa<VectorType>(value.getType())
                                ? kernel.splatF32(factor)
                                : kernel.constantF32(factor));
}

/// Copies `dim` elements of a row as they are, or as f32, and fills the last
/// vector with zeros.
static void copyRow(KernelBuilder &kernel, Value from, Index step, Type element,
                    const RowCopy &copy, Type stored, double factor, Value to) {
  int64_t dim = copy.dim;
  int64_t lanes = kernel.width() * 32 / stored.getIntOrFloatBitWidth();
  auto contiguous = [&] {
    for (int64_t lane = 0; lane < dim; lane += lanes) {
      auto type = VectorType::get(lanes, element);
      Value values =
          kernel.loadPart(type, kernel.advance(from, {lane}, element),
                          std::min(lanes, dim - lane));
      kernel.store(convert(kernel, copy, values, stored, factor),
                   kernel.advance(to, {lane}, stored));
    }
  };
  auto strided = [&] {
    auto type = VectorType::get(lanes, stored);
    Value zero = kernel.zero(type);
    int64_t lastVector = (dim - 1) / lanes * lanes;
    kernel.store(zero, kernel.advance(to, {lastVector}, stored));
    kernel.loop(0, dim, 1, [&](Value lane) {
      Value value = kernel.load(
          element, kernel.advance(from, {kernel.mul(lane, step)}, element));
      kernel.store(convert(kernel, copy, value, stored, factor),
                   kernel.advance(to, {lane}, stored));
    });
  };
  kernel.when(kernel.equal(step, 1), contiguous, strided);
}

/// Copies rows as f32, as many at once as registers hold, and then maps them.
static void copyRowsAtOnce(KernelBuilder &kernel, ArgumentBlock &arguments,
                           const RowCopy &copy, Type element, Index last) {
  constexpr int64_t mostVectors = 32;
  int64_t width = kernel.width();
  int64_t vectors = llvm::divideCeil(copy.dim, width);
  int64_t atOnce = copy.atOnce;
  while (atOnce > 1 && atOnce * vectors > mostVectors)
    atOnce /= 2;
  Index step = arguments.getStride(copy.tensor, 3);
  double factor = copy.maps.empty() ? copy.factor : 1.0;
  auto getFrom = [&](Index number) {
    Index row = kernel.min(kernel.add(copy.first, number), last);
    return arguments.getAddress(copy.tensor, {copy.batch, copy.head, row});
  };
  auto getTo = [&](Index number) {
    return kernel.advance(copy.to, {kernel.mul(number, copy.rowWords)});
  };
  auto contiguous = [&] {
    kernel.loop(0, copy.count, atOnce, [&](Value number) {
      KernelBuilder::Values loaded;
      for (int64_t r = 0; r < atOnce; ++r) {
        Value from = getFrom(kernel.add(number, r));
        for (int64_t lane = 0; lane < copy.dim; lane += width)
          loaded.push_back(
              kernel.loadPart(VectorType::get(width, element),
                              kernel.advance(from, {lane}, element),
                              std::min(width, copy.dim - lane)));
      }
      for (Value &value : loaded)
        value = convert(kernel, copy, value, kernel.f32, factor);
      for (auto [place, value] : llvm::enumerate(loaded)) {
        int64_t r = static_cast<int64_t>(place) / vectors;
        int64_t v = static_cast<int64_t>(place) % vectors;
        kernel.storeVector(value, getTo(kernel.add(number, r)), {v * width});
      }
    });
  };
  auto strided = [&] {
    kernel.loop(0, copy.count, 1, [&](Value number) {
      copyRow(kernel, getFrom(number), step, element, copy, kernel.f32, factor,
              getTo(number));
    });
  };
  kernel.when(kernel.equal(step, 1), contiguous, strided);
  if (copy.maps.empty())
    return;
  kernel.loop(0, copy.count, 1, [&](Value number) {
    Index row = kernel.min(kernel.add(copy.first, number), last);
    Value to = getTo(number);
    emitRowMaps(kernel, copy.maps, *copy.point, row, to);
    for (int64_t lane = 0; copy.factor != 1.0 && lane < copy.dim; lane += width)
      kernel.storeVector(kernel.mulF(kernel.loadVector(to, {lane}),
                                     kernel.splatF32(copy.factor)),
                         to, {lane});
  });
}

void sextant::codegen::emitRowCopy(KernelBuilder &kernel,
                                   ArgumentBlock &arguments,
                                   const RowCopy &copy, Type element) {
  Index length = copy.indices ? arguments.getSize(*copy.indices, 1)
                              : arguments.getSize(copy.tensor, 2);
  Index last = kernel.sub(length, 1);
  Index rows = arguments.getSize(copy.tensor, 2);
  if (copy.atOnce > 1 && !copy.pairs && !copy.indices)
    return copyRowsAtOnce(kernel, arguments, copy, element, last);
  Index step = arguments.getStride(copy.tensor, 3);
  // Pairs are made of f32 where rows are mapped, or are f32 themselves.
  bool isMapped = !copy.maps.empty() || (copy.pairs && element.isF32());
  kernel.loop(0, copy.count, 1, [&](Value number) {
    Index row = kernel.min(kernel.add(copy.first, number), last);
    Value from =
        copy.indices
            ? arguments.getAddress(
                  copy.tensor, {0, 0,
                                loadRowIndex(kernel, arguments, *copy.indices,
                                             copy.batch, row, rows)})
            : arguments.getAddress(copy.tensor, {copy.batch, copy.head, row});
    Value to = kernel.advance(copy.to, {kernel.mul(number, copy.rowWords)});
    if (!isMapped)
      return copyRow(kernel, from, step, element, copy,
                     copy.pairs ? kernel.bf16 : kernel.f32, copy.factor, to);
    Value mapped = copy.pairs ? copy.mappedRow : to;
    copyRow(kernel, from, step, element, copy, kernel.f32, /*factor=*/1.0,
            mapped);
    if (!copy.maps.empty())
      emitRowMaps(kernel, copy.maps, *copy.point, row, mapped);
    int64_t width = kernel.width();
    if (!copy.pairs) {
      for (int64_t lane = 0; copy.factor != 1.0 && lane < copy.dim;
           lane += width)
        kernel.storeVector(kernel.mulF(kernel.loadVector(mapped, {lane}),
                                       kernel.splatF32(copy.factor)),
                           mapped, {lane});
      return;
    }
    int64_t words = getCopiedRowWords(kernel.target, copy.dim, true);
    for (int64_t word = 0; word < words; word += width) {
      bool hasSecond = 2 * word + width < copy.dim;
      Value low = kernel.loadVector(mapped, {2 * word});
      Value high = hasSecond ? kernel.loadVector(mapped, {2 * word + width})
                             : kernel.splatF32(0);
      kernel.store(kernel.truncatePair(low, high), kernel.advance(to, {word}));
    }
  });
}

//===----------------------------------------------------------------------===//
// Rows of later blocks
//===----------------------------------------------------------------------===//

void sextant::codegen::prefetchRows(KernelBuilder &kernel,
                                    ArgumentBlock &arguments,
                                    const RowPrefetch &rows) {
  int64_t perWord =
      32 / arguments.getElementType(rows.tensor).getIntOrFloatBitWidth();
  int64_t words = llvm::divideCeil(rows.dim, perWord);
  Index share = kernel.ceilDiv(rows.count, rows.parts);
  Index begin = kernel.mul(rows.part, share);
  Index end = kernel.min(kernel.add(begin, share), rows.count);
  Index stride = arguments.getStride(rows.tensor, rows.outer.size());
  Value base = arguments.getAddress(rows.tensor, rows.outer);
  kernel.loop(begin, end, 1, [&](Value number) {
    Index row = kernel.add(rows.first, number);
    kernel.prefetch(base, {kernel.div(kernel.mul(row, stride), perWord)}, words,
                    CacheLevel::Second);
  });
}

Value sextant::codegen::areBeyondSecondCache(KernelBuilder &kernel, Index rows,
                                             int64_t bytes) {
  return kernel.less(secondCache / 2 / bytes, rows);
}

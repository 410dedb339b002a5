//===- KernelSite.cpp - What payloads see inside CPU kernels --------------===//

#include "codegen/Tiles/KernelSite.h"
#include "codegen/Payload/Payload.h"
#include "codegen/Tables/PositionBounds.h"
#include "codegen/Tiles/HingeCells.h"
#include "codegen/Tiles/OffsetCells.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include <cmath>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

void SiteOperands::append(const KernelPlan &plan, const HoistTables &hoists,
                          KernelOperands &kernelOperands,
                          SmallVectorImpl<Value> &reads) {
  auto add = [&](Value tensor) -> Number {
    if (!tensor)
      return std::nullopt;
    reads.push_back(tensor);
    return kernelOperands.add(tensor.getType());
  };
  OwnerOperands owner = getOwnerOperands(plan.owner);
  queryPositions = add(owner.queryPositions);
  keyPositions = add(owner.keyPositions);
  queryTail = add(owner.queryTail);
  offsetRange = add(hoists.offsets.range);
  queryCodes = add(hoists.offsets.queryCodes);
  keyCodes = add(hoists.offsets.keyCodes);
  bounds = add(hoists.bounds);
  for (Value table : hoists.buffers)
    tables.push_back(add(table));
  for (Value range : hoists.rowRanges)
    ranges.push_back(add(range));
  for (Value table : hoists.hinges)
    hinges.push_back(*add(table));
  pos::SitesOwnerInterface op = plan.owner;
  Region &sites = op.getSitesRegion();
  for (auto [number, operand] : llvm::enumerate(op.getParamOperands())) {
    bool isRead = !sites.empty() && !sites.getArgument(number).use_empty();
    params.push_back(isRead ? add(operand) : std::nullopt);
  }
  padding = hoists.options.padding;
}

Index SiteOperands::getQueryShift(KernelBuilder &kernel,
                                  ArgumentBlock &arguments) const {
  Index shift =
      kernel.sub(arguments.getSize(key, 2), arguments.getSize(query, 2));
  return queryTail ? kernel.sub(shift, arguments.getSize(*queryTail, 0))
                   : shift;
}

void KernelSite::enterHead(Index batch, Index head) {
  batchIndex = batch;
  headIndex = head;
  batchValue = kernel.toI32(batch);
  headValue = kernel.toI32(head);
  headScalars.clear();
  auto getCodes = [&](unsigned codes) {
    Index element = kernel.rem(batch, arguments.getSize(codes, 0));
    return arguments.getAddress(codes, {element});
  };
  if (operands.offsetRange) {
    queryCodes = getCodes(*operands.queryCodes);
    keyCodes = getCodes(*operands.keyCodes);
  }
  for (const Hoisted &hoisted : plan.hoisted) {
    if (hoisted.form != HoistForm::HeadScalar || hoisted.operand != operand)
      continue;
    FailureOr<Value> value = emitHoist(kernel.builder, hoisted.op, *this);
    kernel.check(value);
    headScalars[hoisted.op] =
        succeeded(value) ? *value
                         : kernel.zero(hoisted.op->getResult(0).getType());
  }
}

//===----------------------------------------------------------------------===//
// Where the point is
//===----------------------------------------------------------------------===//

Value KernelSite::head(OpBuilder &) { return headValue; }
Value KernelSite::batch(OpBuilder &) { return batchValue; }
Value KernelSite::lane(OpBuilder &) { return kernel.constantI32(0); }

Value KernelSite::extent(OpBuilder &, pos::Extent extent) {
  using pos::Extent;
  auto size = [&](unsigned tensor, unsigned dim) {
    return kernel.toI32(arguments.getSize(tensor, dim));
  };
  switch (extent) {
  case Extent::heads:
    return size(operands.query, 1);
  case Extent::kv_heads:
    return size(operands.key, 1);
  case Extent::head_dim:
    return size(operands.query, 3);
  case Extent::value_dim:
    return size(operands.values.front(), 3);
  case Extent::model:
    return kernel.toI32(kernel.mul(arguments.getSize(operands.query, 1),
                                   arguments.getSize(operands.query, 3)));
  case Extent::query:
    return size(operands.query, 2);
  case Extent::key:
    return size(operands.key, 2);
  case Extent::batch:
    return size(operands.query, 0);
  }
  llvm_unreachable("unknown extent");
}

Value KernelSite::bound(OpBuilder &, pos::Bound bound, pos::Side side,
                        int64_t axis) {
  bool isKey = side == pos::Side::key;
  if (isKey ? operands.keyPositions : operands.queryPositions)
    return loadBound(kernel, arguments.getPointer(*operands.bounds), bound,
                     side, axis);
  return kernel.toI32(getIndexBound(kernel, bound, side,
                                    operands.getQueryShift(kernel, arguments),
                                    arguments.getSize(operands.query, 2),
                                    arguments.getSize(operands.key, 2)));
}

Value KernelSite::scale(OpBuilder &) { return kernel.constantF32(plan.scale); }

FloatType KernelSite::getComputeType() { return kernel.builder.getF32Type(); }

Value KernelSite::offset(OpBuilder &builder, int64_t axis) {
  Value key = coord(builder, pos::Side::key, axis);
  Value query = coord(builder, pos::Side::query, axis);
  if (key.getType() != query.getType()) {
    key = kernel.broadcast(key);
    query = kernel.broadcast(query);
  }
  return arith::SubIOp::create(kernel.builder, kernel.loc, key, query);
}

Index KernelSite::toIndex(pos::Side side, Index row) {
  if (side == pos::Side::key)
    return row;
  return kernel.add(row, operands.getQueryShift(kernel, arguments));
}

Value KernelSite::getPositions(unsigned positions, Index row) {
  Index batch = kernel.rem(batchIndex, arguments.getSize(positions, 0));
  return arguments.getAddress(positions, {batch, row});
}

//===----------------------------------------------------------------------===//
// Hoisted values and parameters
//===----------------------------------------------------------------------===//

Type KernelSite::getStoredType(const Hoisted &hoisted) {
  Type type = hoisted.op->getResult(0).getType();
  return type.isInteger(1) ? kernel.builder.getI8Type() : type;
}

Value KernelSite::fromStored(const Hoisted &hoisted, Value value) {
  if (!hoisted.op->getResult(0).getType().isInteger(1))
    return value;
  Value zero = kernel.zero(value.getType());
  return arith::CmpIOp::create(kernel.builder, kernel.loc,
                               arith::CmpIPredicate::ne, value, zero);
}

Value KernelSite::loadEntry(const Hoisted &hoisted, Value address,
                            std::optional<Index> count) {
  Type type = getStoredType(hoisted);
  Value value = count ? kernel.loadPart(VectorType::get(kernel.width(), type),
                                        address, *count)
                      : kernel.load(type, address);
  return fromStored(hoisted, value);
}

Value KernelSite::hoisted(OpBuilder &, pos::HoistOp op) {
  const Hoisted *hoisted = plan.find(op, operand);
  assert(hoisted && "a site uses a value that the plan does not know");
  if (hoisted->form == HoistForm::HeadScalar)
    return headScalars.lookup(op);
  if (hoisted->form == HoistForm::OffsetTable && operands.offsetRange) {
    if (offsets == Offsets::Cells)
      return cells->load(op, getCellPlace());
    if (offsets == Offsets::InPlace) {
      FailureOr<Value> value = emitHoist(kernel.builder, op, *this);
      return succeeded(value) ? *value : Value();
    }
  }
  unsigned table = *operands.tables[hoisted - plan.hoisted.data()];
  Value row =
      arguments.getAddress(table, {hoisted->perBatch ? batchIndex : Index(0),
                                   hoisted->perHead ? headIndex : Index(0)});
  return loadHoisted(*hoisted, table, row);
}

Value KernelSite::hingeSum(OpBuilder &, pos::HingeSumOp op) {
  assert(hinges && "a site of scores has the functions that they use");
  return hinges->load(op, headIndex, getCellPlace());
}

Value KernelSite::getCode(pos::Side side, Index row) {
  Value codes = side == pos::Side::key ? keyCodes : queryCodes;
  return kernel.advance(codes, {row}, kernel.i32);
}

void KernelSite::forCodes(function_ref<void(Value run)> body) {
  Value codes = getLaneCodes();
  Value first = LLVM::ExtractElementOp::create(kernel.builder, kernel.loc,
                                               codes, kernel.constantI32(0));
  Value areNeighbours = arith::CmpIOp::create(
      kernel.builder, kernel.loc, arith::CmpIPredicate::eq, codes,
      kernel.lanes(kernel.fromI32(first)));
  kernel.when(
      holdsInAll(areNeighbours),
      [&] {
        run = first;
        body(run);
        run = {};
      },
      [&] { body({}); });
}

Value KernelSite::loadAtOffsets(const Hoisted &hoisted, Value headStart) {
  Type type = getStoredType(hoisted);
  auto minusRow = [&](Value codes) -> Value {
    Value row = getRowCode();
    if (isa<VectorType>(codes.getType()))
      row = kernel.broadcast(row);
    return arith::SubIOp::create(kernel.builder, kernel.loc, codes, row);
  };
  if (!run)
    return fromStored(hoisted,
                      kernel.gather(type, headStart, minusRow(getLaneCodes())));
  Value first =
      kernel.advance(headStart, {kernel.fromI32(minusRow(run))}, type);
  return fromStored(hoisted,
                    kernel.load(VectorType::get(kernel.width(), type), first));
}

/// Loads `element` at base[indices] in the lanes that are inside, `nothing`
/// elsewhere, where memory is not touched.
static Value gatherInside(KernelBuilder &kernel, Type element, Value base,
                          Value indices, Value inside, Value nothing) {
  OpBuilder &builder = kernel.builder;
  Value pointers = LLVM::GEPOp::create(
      builder, kernel.loc, VectorType::get(kernel.width(), kernel.pointer),
      element, base, ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(indices)},
      LLVM::GEPNoWrapFlags::none);
  return LLVM::masked_gather::create(
      builder, kernel.loc, VectorType::get(kernel.width(), element), pointers,
      kernel.broadcast(inside), ValueRange{kernel.broadcast(nothing)},
      builder.getI32IntegerAttr(element.getIntOrFloatBitWidth() / 8));
}

Value KernelSite::read(OpBuilder &, BlockArgument param, ValueRange indices) {
  unsigned tensor = *operands.params[param.getArgNumber()];
  Type element = cast<RankedTensorType>(param.getType()).getElementType();
  Value address = arguments.getPointer(tensor);
  OpBuilder &builder = kernel.builder;
  Value varying; // the offset that differs between lanes, i32
  Value inside = kernel.constant(builder.getBoolAttr(true));
  auto require = [&](Value condition) {
    if (condition.getType() != inside.getType()) {
      condition = kernel.broadcast(condition);
      inside = kernel.broadcast(inside);
    }
    inside = arith::AndIOp::create(builder, kernel.loc, inside, condition);
  };
  for (auto [dim, index] : llvm::enumerate(indices)) {
    Index size = arguments.getSize(tensor, dim);
    Index stride = arguments.getStride(tensor, dim);
    if (!isa<VectorType>(index.getType())) {
      // The batch may be smaller in a parameter than in the query.
      Index place = index == batchValue ? kernel.rem(batchIndex, size)
                                        : Index(kernel.fromI32(index));
      if (index != batchValue) {
        Value isInside = kernel.compare(arith::CmpIPredicate::ult, place, size);
        require(isInside);
        place = kernel.select(isInside, place, 0);
      }
      address = kernel.advance(address, {kernel.mul(place, stride)}, element);
      continue;
    }
    require(arith::CmpIOp::create(builder, kernel.loc,
                                  arith::CmpIPredicate::ult, index,
                                  kernel.broadcast(kernel.toI32(size))));
    Value step = kernel.broadcast(kernel.toI32(stride));
    Value term = arith::MulIOp::create(builder, kernel.loc, index, step);
    varying = varying
                  ? arith::AddIOp::create(builder, kernel.loc, varying, term)
                        .getResult()
                  : term;
  }
  Value nothing = kernel.constant(
      isa<FloatType>(element)
          ? cast<TypedAttr>(builder.getFloatAttr(element, std::nan("")))
          : cast<TypedAttr>(builder.getZeroAttr(element)));
  if (varying)
    return gatherInside(kernel, element, address, varying, inside, nothing);
  return kernel.choose(
      inside, {element},
      [&]() -> KernelBuilder::Values {
        return {kernel.load(element, address)};
      },
      [&]() -> KernelBuilder::Values { return {nothing}; })[0];
}

//===----------------------------------------------------------------------===//
// Contextual places
//===----------------------------------------------------------------------===//

KernelSite::TableEntry KernelSite::toEntry(Value row, Index rows) {
  Value limit = kernel.toI32(rows), zero = kernel.constantI32(0);
  if (isa<VectorType>(row.getType())) {
    limit = kernel.broadcast(limit);
    zero = kernel.splatI32(0);
  }
  Value exists = arith::CmpIOp::create(kernel.builder, kernel.loc,
                                       arith::CmpIPredicate::ult, row, limit);
  return {kernel.selectF(exists, row, zero), exists};
}

Value KernelSite::orNaN(Value value, const TableEntry &entry) {
  double nan = std::nan("");
  bool isVector = isa<VectorType>(value.getType());
  return kernel.selectF(entry.exists, value,
                        isVector ? kernel.splatF32(nan)
                                 : kernel.constantF32(nan));
}

Value KernelSite::lookUp(Value index, Index rows,
                         function_ref<Value(Value)> load,
                         function_ref<Value(Value)> gather) {
  using Values = KernelBuilder::Values;
  TableEntry entry = toEntry(index, rows);
  if (!isa<VectorType>(index.getType()))
    return orNaN(load(entry.row), {entry.row, kernel.broadcast(entry.exists)});
  auto [first, isSame] = findSame(entry.row);
  Value row = first; // a structured binding cannot be captured
  Values found = kernel.choose(
      isSame, {kernel.vf32}, [&]() -> Values { return {load(row)}; },
      [&]() -> Values { return {gather(entry.row)}; });
  return orNaN(found.front(), entry);
}

Value KernelSite::readProducts(unsigned products, Index head, Index row,
                               Index tableRows, Value index) {
  Value base = arguments.getAddress(products, {batchIndex, head, row});
  return lookUp(
      index, tableRows,
      [&](Value entry) {
        return kernel.loadBroadcast(base, {kernel.fromI32(entry)});
      },
      [&](Value each) { return kernel.gather(kernel.f32, base, each); });
}

Index KernelSite::getLaneGroup(unsigned tensor, unsigned dim, Index first) {
  Index last = kernel.sub(arguments.getSize(tensor, dim), 1);
  return kernel.min(kernel.div(first, kernel.width()), last);
}

Value KernelSite::getLanePlaces(Value entries) {
  Value places = arith::MulIOp::create(kernel.builder, kernel.loc, entries,
                                       kernel.splatI32(kernel.width()));
  return arith::AddIOp::create(kernel.builder, kernel.loc, places,
                               kernel.lanes(0));
}

Value KernelSite::readLaneProducts(unsigned products, Index head, Index first,
                                   Index tableRows, Value index) {
  Index group = getLaneGroup(products, 2, first);
  Value base = arguments.getAddress(products, {batchIndex, head, group});
  return lookUp(
      index, tableRows,
      [&](Value entry) {
        return kernel.loadVector(
            base, {kernel.mul(kernel.fromI32(entry), kernel.width())});
      },
      [&](Value each) {
        return kernel.gather(kernel.f32, base, getLanePlaces(each));
      });
}

Index KernelSite::countRows(pos::RowDotOpInterface op) {
  auto table = cast<BlockArgument>(op.getTable());
  return arguments.getSize(*operands.params[table.getArgNumber()],
                           op.getColumns() ? 1 : 0);
}

std::optional<double> KernelSite::getLimit(pos::ScanOp op) {
  FloatAttr limit;
  if (!matchPattern(op.getLimit(), m_Constant(&limit)))
    return std::nullopt;
  return limit.getValueAsDouble();
}

Value KernelSite::holdsInAll(Value lanes) {
  return vector::ReductionOp::create(kernel.builder, kernel.loc,
                                     vector::CombiningKind::AND, lanes);
}

std::pair<Value, Value> KernelSite::findSame(Value lanes) {
  Value first = LLVM::ExtractElementOp::create(kernel.builder, kernel.loc,
                                               lanes, kernel.constantI32(0));
  Value same = arith::CmpIOp::create(kernel.builder, kernel.loc,
                                     arith::CmpIPredicate::eq, lanes,
                                     kernel.broadcast(first));
  return {first, holdsInAll(same)};
}

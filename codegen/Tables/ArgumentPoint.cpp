//===- ArgumentPoint.cpp - Payloads over a launch's operands --------------===//

#include "codegen/Tables/ArgumentPoint.h"
#include "codegen/Tables/PositionBounds.h"
#include "dialects/Exec/IR/Exec.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <cmath>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

//===----------------------------------------------------------------------===//
// Launch
//===----------------------------------------------------------------------===//

unsigned LaunchOperands::read(Value tensor) {
  assert(writes.empty() && "reads come before writes");
  reads.push_back(tensor);
  return layout.add(tensor.getType());
}

unsigned LaunchOperands::write(Value tensor) {
  writes.push_back(tensor);
  return layout.add(tensor.getType());
}

unsigned LaunchOperands::scalar(Value index) {
  scalars.push_back(index);
  return layout.scalars++;
}

void LaunchOperands::launch(const Lowering &lowering, StringRef suffix,
                            Value flops) const {
  exec::LaunchOp::create(lowering.builder, lowering.getLoc(),
                         lowering.getKernel(suffix), reads, writes, scalars,
                         flops, /*bytes=*/Value());
}

void LaunchOperands::launch(const Lowering &lowering, StringRef suffix,
                            const KernelBody &body) const {
  createKernel(lowering, suffix, layout, lowering.target, body);
  launch(lowering, suffix);
}

PointLayout codegen::addPointOperands(const Lowering &lowering,
                                      LaunchOperands &operands,
                                      function_ref<bool(unsigned)> needs) {
  PointLayout layout;
  OwnerOperands owner = getOwnerOperands(lowering.plan.owner);
  bool isAttention = !owner.values.empty();
  layout.firstScalar = operands.layout.scalars;
  Value one =
      arith::ConstantIndexOp::create(lowering.builder, lowering.getLoc(), 1);
  operands.scalar(lowering.getDim(owner.query, 0));
  operands.scalar(isAttention ? lowering.getDim(owner.query, 1) : one);
  operands.scalar(isAttention ? lowering.getDim(owner.key, 1) : one);
  operands.scalar(lowering.getDim(owner.query, isAttention ? 2 : 1));
  operands.scalar(lowering.getDim(owner.key, isAttention ? 2 : 1));
  if (owner.queryPositions)
    layout.queryPositions = operands.read(owner.queryPositions);
  if (owner.keyPositions)
    layout.keyPositions = operands.read(owner.keyPositions);
  if (owner.queryTail)
    layout.queryTail = operands.read(owner.queryTail);
  pos::SitesOwnerInterface op = lowering.plan.owner;
  for (auto [number, param] : llvm::enumerate(op.getParamOperands()))
    if (needs(number))
      layout.params[number] = operands.read(param);
  return layout;
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

/// Makes vectors of both values where one is.
static void match(KernelBuilder &kernel, Value &a, Value &b) {
  if (isa<VectorType>(a.getType()) != isa<VectorType>(b.getType())) {
    a = kernel.broadcast(a);
    b = kernel.broadcast(b);
  }
}
Value ArgumentPoint::addI(Value a, Value b) {
  match(kernel, a, b);
  return arith::AddIOp::create(kernel.builder, kernel.loc, a, b);
}
Value ArgumentPoint::subI(Value a, Value b) {
  match(kernel, a, b);
  return arith::SubIOp::create(kernel.builder, kernel.loc, a, b);
}
Value ArgumentPoint::mulI(Value a, Value b) {
  match(kernel, a, b);
  return arith::MulIOp::create(kernel.builder, kernel.loc, a, b);
}

Value ArgumentPoint::convert(Value value, Type elementType) {
  Type from = getElementTypeOrSelf(value.getType());
  if (from == elementType || !isa<FloatType>(from))
    return value;
  Type type = elementType;
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    type = VectorType::get(vector.getShape(), elementType);
  if (from.getIntOrFloatBitWidth() < elementType.getIntOrFloatBitWidth())
    return arith::ExtFOp::create(kernel.builder, kernel.loc, type, value);
  return arith::TruncFOp::create(kernel.builder, kernel.loc, type, value);
}

//===----------------------------------------------------------------------===//
// Extents and positions
//===----------------------------------------------------------------------===//

Index ArgumentPoint::getExtent(pos::Extent extent) {
  pos::SitesOwnerInterface owner = plan.owner;
  if (std::optional<int64_t> known = owner.getStaticExtent(extent))
    return *known;
  auto scalar = [&](unsigned number) {
    return arguments.getScalar(layout.firstScalar + number);
  };
  switch (extent) {
  case pos::Extent::batch:
    return scalar(0);
  case pos::Extent::heads:
    return scalar(1);
  case pos::Extent::kv_heads:
    return scalar(2);
  case pos::Extent::query:
    return scalar(3);
  case pos::Extent::key:
    return scalar(4);
  case pos::Extent::model:
    return kernel.mul(scalar(1), *owner.getStaticExtent(pos::Extent::head_dim));
  case pos::Extent::head_dim:
  case pos::Extent::value_dim:
    break;
  }
  llvm_unreachable("head dims are static");
}

Value ArgumentPoint::extent(OpBuilder &, pos::Extent extent) {
  return kernel.toI32(getExtent(extent));
}

Value ArgumentPoint::bound(OpBuilder &, pos::Bound bound, pos::Side side,
                           int64_t axis) {
  bool isKey = side == pos::Side::key;
  if (isKey ? layout.keyPositions : layout.queryPositions)
    return loadBound(kernel, arguments.getPointer(*layout.bounds), bound, side,
                     axis);
  return kernel.toI32(getIndexBound(kernel, bound, side, getQueryShift(),
                                    getExtent(pos::Extent::query),
                                    getExtent(pos::Extent::key)));
}

Value ArgumentPoint::scale(OpBuilder &builder) {
  return arith::ConstantOp::create(
      builder, kernel.loc, builder.getFloatAttr(computeType, plan.scale));
}

Index ArgumentPoint::getQueryTail() {
  return layout.queryTail ? arguments.getSize(*layout.queryTail, 0) : Index(0);
}

Index ArgumentPoint::getQueryShift() {
  Index shift =
      kernel.sub(getExtent(pos::Extent::key), getExtent(pos::Extent::query));
  return layout.queryTail ? kernel.sub(shift, getQueryTail()) : shift;
}

Value ArgumentPoint::getQueryIndex(Value row) {
  return addI(row, kernel.toI32(getQueryShift()));
}

Value ArgumentPoint::getPosition(pos::Side side, int64_t axis, Value row) {
  std::optional<unsigned> tensor =
      side == pos::Side::key ? layout.keyPositions : layout.queryPositions;
  if (!tensor)
    return {};
  Index batch =
      kernel.rem(kernel.fromI32(batchValue), arguments.getSize(*tensor, 0));
  Element element =
      locate(*tensor, {kernel.toI32(batch), row, kernel.constantI32(axis)});
  return load(kernel.i32, element);
}

//===----------------------------------------------------------------------===//
// Elements of tensors
//===----------------------------------------------------------------------===//

ArgumentPoint::Element ArgumentPoint::locate(unsigned tensor,
                                             ValueRange indices) {
  OpBuilder &builder = kernel.builder;
  Element element{arguments.getPointer(tensor), kernel.constantI32(0),
                  kernel.constant(builder.getBoolAttr(true))};
  Index start = 0; // what all lanes have in common may be far away
  for (auto [dim, index] : llvm::enumerate(indices)) {
    Index size = arguments.getSize(tensor, dim);
    Value used = index;
    if (index == batchValue)
      used = kernel.toI32(kernel.rem(kernel.fromI32(index), size));
    Index stride = arguments.getStride(tensor, dim);
    if (isa<VectorType>(used.getType()))
      element.offset = addI(element.offset, mulI(used, kernel.toI32(stride)));
    else
      start = kernel.add(start, kernel.mul(kernel.fromI32(used), stride));
    Value limit = kernel.toI32(size);
    match(kernel, used, limit);
    Value inside = arith::CmpIOp::create(
        builder, kernel.loc, arith::CmpIPredicate::ult, used, limit);
    match(kernel, element.inside, inside);
    element.inside =
        arith::AndIOp::create(builder, kernel.loc, element.inside, inside);
  }
  element.base =
      kernel.advance(element.base, {start}, arguments.getElementType(tensor));
  return element;
}

/// A NaN, or the integer 0.
static TypedAttr getNothing(OpBuilder &builder, Type type) {
  if (auto number = dyn_cast<FloatType>(type))
    return builder.getFloatAttr(type, std::nan(""));
  return builder.getZeroAttr(type);
}

/// A vector's lanes as neighbours in memory, as lanes of a row mostly are: the
/// offset of the first, and whether all are inside and neighbours, an i1.
static std::pair<Value, Value> findRun(KernelBuilder &kernel, Value offsets,
                                       Value inside) {
  OpBuilder &builder = kernel.builder;
  Value start = LLVM::ExtractElementOp::create(builder, kernel.loc, offsets,
                                               kernel.constantI32(0));
  Value ascending =
      arith::CmpIOp::create(builder, kernel.loc, arith::CmpIPredicate::eq,
                            offsets, kernel.lanes(kernel.fromI32(start)));
  Value isRun = vector::ReductionOp::create(
      builder, kernel.loc, vector::CombiningKind::AND,
      arith::AndIOp::create(builder, kernel.loc, ascending,
                            kernel.broadcast(inside)));
  return {start, isRun};
}

Value ArgumentPoint::load(Type type, const Element &element) {
  OpBuilder &builder = kernel.builder;
  Value nothing = kernel.constant(getNothing(builder, type));
  if (!isa<VectorType>(element.offset.getType()))
    return kernel
        .choose(
            element.inside, type,
            [&]() -> KernelBuilder::Values {
              return {kernel.load(type, element.base)};
            },
            [&]() -> KernelBuilder::Values { return {nothing}; })
        .front();
  int64_t lanes = cast<VectorType>(element.offset.getType()).getNumElements();
  auto vector = VectorType::get(lanes, type);
  auto gather = [&]() -> KernelBuilder::Values {
    Value pointers = LLVM::GEPOp::create(
        builder, kernel.loc, VectorType::get(lanes, kernel.pointer), type,
        element.base, ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(element.offset)},
        LLVM::GEPNoWrapFlags::none);
    return {LLVM::masked_gather::create(
        builder, kernel.loc, vector, pointers, kernel.broadcast(element.inside),
        ValueRange{kernel.broadcast(nothing)},
        builder.getI32IntegerAttr(type.getIntOrFloatBitWidth() / 8))};
  };
  if (kernel.target.lanesHaveAddresses)
    return gather().front();
  auto [start, isRun] = findRun(kernel, element.offset, element.inside);
  auto loadRun = [&, first = start]() -> KernelBuilder::Values {
    Value address = kernel.advance(element.base, {kernel.fromI32(first)}, type);
    return {kernel.load(vector, address)};
  };
  return kernel.choose(isRun, Type(vector), loadRun, gather).front();
}

Value ArgumentPoint::read(OpBuilder &, BlockArgument param,
                          ValueRange indices) {
  unsigned tensor = layout.params.at(param.getArgNumber());
  Type type = cast<RankedTensorType>(param.getType()).getElementType();
  Value value = load(type, locate(tensor, indices));
  return convert(value, computeType);
}

namespace {
/// What lanes add to elements of a parameter, and whether there is one (i1).
struct LaneAddends {
  Value offsets, inside, cotangents;
};
using AddOne =
    llvm::function_ref<void(Value offset, Value inside, Value summand)>;
} // namespace

/// Whether the threads that are lanes wait for each load before the next.
static bool waitsForMemory(KernelBuilder &kernel) {
  return kernel.target.loadsAtOnce != 1;
}

/// Of lanes that add to one element the first adds the sum of all.
static void addSumOfSame(KernelBuilder &kernel, const LaneAddends &all,
                         Value lane, Value offset, AddOne addOne) {
  OpBuilder &builder = kernel.builder;
  Location loc = kernel.loc;
  auto compare = [&](arith::CmpIPredicate predicate, Value a,
                     Value b) -> Value {
    return arith::CmpIOp::create(builder, loc, predicate, a, b);
  };
  Value same = arith::AndIOp::create(
      builder, loc, all.inside,
      compare(arith::CmpIPredicate::eq, all.offsets, kernel.broadcast(offset)));
  Value notBefore = compare(arith::CmpIPredicate::sge, kernel.lanes(0),
                            kernel.broadcast(kernel.toI32(lane)));
  Value others = compare(arith::CmpIPredicate::eq, same,
                         kernel.broadcast(kernel.constantI1(false)));
  Value isFirst = vector::ReductionOp::create(
      builder, loc, vector::CombiningKind::AND,
      arith::OrIOp::create(builder, loc, notBefore, others).getResult());
  Value isInside =
      LLVM::ExtractElementOp::create(builder, loc, all.inside, lane);
  kernel.when(kernel.both(isFirst, isInside), [&] {
    Value own = arith::SelectOp::create(builder, loc, same, all.cotangents,
                                        kernel.zero(all.cotangents.getType()));
    addOne(offset, kernel.constantI1(true), kernel.sumLanes(own));
  });
}

/// Lane by lane.
static void addEachLane(KernelBuilder &kernel, const LaneAddends &all,
                        AddOne addOne) {
  auto addLane = [&](Value lane, ValueRange) -> KernelBuilder::Values {
    auto extract = [&](Value from) -> Value {
      return LLVM::ExtractElementOp::create(kernel.builder, kernel.loc, from,
                                            lane);
    };
    Value offset = extract(all.offsets);
    if (waitsForMemory(kernel))
      addSumOfSame(kernel, all, lane, offset, addOne);
    else
      addOne(offset, extract(all.inside), extract(all.cotangents));
    return {};
  };
  int64_t lanes = cast<VectorType>(all.cotangents.getType()).getNumElements();
  if (kernel.target.wantsShortCode)
    kernel.rolledLoop(0, lanes, 1, {}, addLane);
  else
    kernel.loop(0, lanes, 1, {}, addLane);
}

void ArgumentPoint::addToRead(OpBuilder &builder, BlockArgument param,
                              ValueRange indices, Value cotangent) {
  unsigned tensor = layout.paramGradients.at(param.getArgNumber());
  // The sum has the wider of the two types: many small terms come together.
  Type type = arguments.getElementType(tensor);
  Type wide = type.isF64() ? type : computeType;
  SmallVector<Value> all(indices);
  if (layout.ofRanges.contains(param.getArgNumber()))
    all.insert(all.begin(), range);
  Element element = locate(tensor, all);
  Value base = element.base;
  Location loc = kernel.loc;
  cotangent = convert(cotangent, wide);
  auto addOne = [&](Value offset, Value inside, Value summand) {
    kernel.when(inside, [&] {
      Value address = kernel.advance(base, {kernel.fromI32(offset)}, type);
      Value old = convert(kernel.load(type, address), wide);
      Value sum = arith::AddFOp::create(builder, loc, old, summand);
      kernel.store(convert(sum, type), address);
    });
  };
  auto vector = dyn_cast<VectorType>(cotangent.getType());
  if (!isa<VectorType>(element.offset.getType())) {
    if (vector)
      cotangent = kernel.sumLanes(cotangent);
    return addOne(element.offset, element.inside, cotangent);
  }
  assert(vector && "a vector of elements has a vector of cotangents");
  Value inside = kernel.broadcast(element.inside);
  auto [start, isRun] = findRun(kernel, element.offset, element.inside);
  auto addRun = [&, first = start]() -> KernelBuilder::Values {
    Value address = kernel.advance(base, {kernel.fromI32(first)}, type);
    auto lanes = VectorType::get(vector.getShape(), type);
    Value old = convert(kernel.load(lanes, address), wide);
    Value sum = arith::AddFOp::create(builder, loc, old, cotangent);
    kernel.store(convert(sum, type), address);
    return {};
  };
  auto addLanes = [&]() -> KernelBuilder::Values {
    addEachLane(kernel, {element.offset, inside, cotangent}, addOne);
    return {};
  };
  if (!waitsForMemory(kernel)) {
    kernel.choose(isRun, TypeRange(), addRun, addLanes);
    return;
  }
  // Lanes that add to one element, as most of a bucket of distances do, wait
  // for memory once.
  Value isSame = vector::ReductionOp::create(
      builder, loc, vector::CombiningKind::AND,
      arith::AndIOp::create(
          builder, loc, inside,
          arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                element.offset, kernel.broadcast(start))));
  auto addSame = [&, first = start]() -> KernelBuilder::Values {
    addOne(first, kernel.constantI1(true), kernel.sumLanes(cotangent));
    return {};
  };
  auto addOthers = [&]() -> KernelBuilder::Values {
    return kernel.choose(isSame, TypeRange(), addSame, addLanes);
  };
  kernel.choose(isRun, TypeRange(), addRun, addOthers);
}

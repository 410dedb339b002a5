//===- KernelBuilder.cpp - Integers, memory and control flow --------------===//

#include "codegen/Emit/KernelBuilder.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace sextant::codegen;

KernelBuilder::KernelBuilder(OpBuilder &builder, Location loc, Block &entry,
                             const VectorTarget &target)
    : builder(builder), loc(loc), target(target), entry(entry) {
  i1 = builder.getI1Type();
  i16 = builder.getIntegerType(16);
  i32 = builder.getI32Type();
  i64 = builder.getI64Type();
  f32 = builder.getF32Type();
  f64 = builder.getF64Type();
  bf16 = builder.getBF16Type();
  pointer = LLVM::LLVMPointerType::get(builder.getContext());
  vf32 = VectorType::get(target.width, f32);
  vf64 = VectorType::get(target.width, f64);
  vi32 = VectorType::get(target.width, i32);
  vi1 = VectorType::get(target.width, i1);
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

Value KernelBuilder::constant(TypedAttr attribute) {
  Value &value = constants[attribute];
  if (!value) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&entry);
    value = arith::ConstantOp::create(builder, loc, attribute);
  }
  return value;
}

Value KernelBuilder::constantI1(bool value) {
  return constant(builder.getBoolAttr(value));
}

Value KernelBuilder::constantI64(int64_t value) {
  return constant(builder.getI64IntegerAttr(value));
}

Value KernelBuilder::constantI32(int32_t value) {
  return constant(builder.getI32IntegerAttr(value));
}

Value KernelBuilder::constantF32(double value) {
  return constant(builder.getF32FloatAttr(static_cast<float>(value)));
}

Value KernelBuilder::splatF32(double value) {
  return constant(DenseElementsAttr::get(vf32, static_cast<float>(value)));
}

Value KernelBuilder::splatI32(int32_t value) {
  return constant(DenseElementsAttr::get(vi32, value));
}

Value KernelBuilder::zero(Type type) {
  return constant(cast<TypedAttr>(builder.getZeroAttr(type)));
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

Value KernelBuilder::value(Index index) {
  return index.isConstant() ? constantI64(index.getConstant())
                            : index.getValue();
}

static constexpr auto noSignedWrap = arith::IntegerOverflowFlags::nsw;

Index KernelBuilder::add(Index a, Index b) {
  if (a.isConstant() && b.isConstant())
    return a.getConstant() + b.getConstant();
  if (a.is(0))
    return b;
  if (b.is(0))
    return a;
  return arith::AddIOp::create(builder, loc, value(a), value(b), noSignedWrap)
      .getResult();
}

Index KernelBuilder::sub(Index a, Index b) {
  if (a.isConstant() && b.isConstant())
    return a.getConstant() - b.getConstant();
  if (b.is(0))
    return a;
  return arith::SubIOp::create(builder, loc, value(a), value(b), noSignedWrap)
      .getResult();
}

Index KernelBuilder::mul(Index a, Index b) {
  if (a.isConstant() && b.isConstant())
    return a.getConstant() * b.getConstant();
  if (a.is(0) || b.is(0))
    return 0;
  if (a.is(1))
    return b;
  if (b.is(1))
    return a;
  return arith::MulIOp::create(builder, loc, value(a), value(b), noSignedWrap)
      .getResult();
}

Index KernelBuilder::div(Index a, Index b) {
  if (a.isConstant() && b.isConstant())
    return a.getConstant() / b.getConstant();
  if (b.is(1))
    return a;
  return arith::DivUIOp::create(builder, loc, value(a), value(b)).getResult();
}

Index KernelBuilder::rem(Index a, Index b) {
  if (a.isConstant() && b.isConstant())
    return a.getConstant() % b.getConstant();
  if (b.is(1))
    return 0;
  return arith::RemUIOp::create(builder, loc, value(a), value(b)).getResult();
}

Index KernelBuilder::min(Index a, Index b) {
  if (a.isConstant() && b.isConstant())
    return std::min(a.getConstant(), b.getConstant());
  return arith::MinSIOp::create(builder, loc, value(a), value(b)).getResult();
}

Index KernelBuilder::max(Index a, Index b) {
  if (a.isConstant() && b.isConstant())
    return std::max(a.getConstant(), b.getConstant());
  return arith::MaxSIOp::create(builder, loc, value(a), value(b)).getResult();
}

Index KernelBuilder::select(Value condition, Index a, Index b) {
  if (a.isConstant() && b.is(a.getConstant()))
    return a;
  return arith::SelectOp::create(builder, loc, condition, value(a), value(b))
      .getResult();
}

Value KernelBuilder::compare(arith::CmpIPredicate predicate, Index a, Index b) {
  return arith::CmpIOp::create(builder, loc, predicate, value(a), value(b));
}

Value KernelBuilder::less(Index a, Index b) {
  return compare(arith::CmpIPredicate::slt, a, b);
}

Value KernelBuilder::equal(Index a, Index b) {
  return compare(arith::CmpIPredicate::eq, a, b);
}

Value KernelBuilder::differ(Index a, Index b) {
  return compare(arith::CmpIPredicate::ne, a, b);
}

Value KernelBuilder::toI32(Index index) {
  if (index.isConstant())
    return constantI32(static_cast<int32_t>(index.getConstant()));
  return arith::TruncIOp::create(builder, loc, i32, index.getValue());
}

Index KernelBuilder::fromI32(Value value) {
  return arith::ExtSIOp::create(builder, loc, i64, value).getResult();
}

//===----------------------------------------------------------------------===//
// Conditions
//===----------------------------------------------------------------------===//

Value KernelBuilder::both(Value a, Value b) {
  if (!a || !b)
    return a ? a : b;
  return arith::AndIOp::create(builder, loc, a, b);
}

Value KernelBuilder::either(Value a, Value b) {
  if (!a || !b)
    return a ? a : b;
  return arith::OrIOp::create(builder, loc, a, b);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value KernelBuilder::advance(Value base, ArrayRef<Index> offsets, Type type) {
  if (!type)
    type = f32;
  int64_t displacement = 0;
  for (const Index &offset : offsets) {
    if (offset.isConstant())
      displacement += offset.getConstant();
    else
      base = LLVM::GEPOp::create(
          builder, loc, pointer, type, base,
          ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(offset.getValue())},
          LLVM::GEPNoWrapFlags::inbounds);
  }
  if (displacement)
    base = LLVM::GEPOp::create(builder, loc, pointer, type, base,
                               ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(
                                   static_cast<int32_t>(displacement))},
                               LLVM::GEPNoWrapFlags::inbounds);
  return base;
}

void KernelBuilder::prefetch(Value base, ArrayRef<Index> offsets, int64_t words,
                             CacheLevel level) {
  int64_t displacement = 0;
  auto add = [&](Value address, LLVM::GEPArg offset) { // may be past the end
    return LLVM::GEPOp::create(builder, loc, pointer, f32, address,
                               ArrayRef<LLVM::GEPArg>{offset});
  };
  for (const Index &offset : offsets)
    if (offset.isConstant())
      displacement += offset.getConstant();
    else
      base = add(base, offset.getValue());
  for (int64_t word = 0; word < words; word += cacheLine) {
    Value line = base;
    if (displacement + word)
      line = add(base, static_cast<int32_t>(displacement + word));
    LLVM::Prefetch::create(builder, loc, line, /*rw=*/0,
                           static_cast<uint32_t>(level), /*cache=*/1);
  }
}

/// Memory is aligned to elements only: rows have any stride.
static unsigned getElementAlignment(Type type) {
  if (isa<LLVM::LLVMPointerType>(type))
    return 8;
  return std::max(1u, getElementTypeOrSelf(type).getIntOrFloatBitWidth() / 8);
}

Value KernelBuilder::load(Type type, Value from) {
  return LLVM::LoadOp::create(builder, loc, type, from,
                              getElementAlignment(type));
}

void KernelBuilder::store(Value value, Value to) {
  LLVM::StoreOp::create(builder, loc, value, to,
                        getElementAlignment(value.getType()));
}

Value KernelBuilder::loadF32(Value base, ArrayRef<Index> offsets) {
  return load(f32, advance(base, offsets));
}

Value KernelBuilder::loadVector(Value base, ArrayRef<Index> offsets) {
  return load(vf32, advance(base, offsets));
}

void KernelBuilder::storeVector(Value vector, Value base,
                                ArrayRef<Index> offsets) {
  store(vector, advance(base, offsets));
}

Value KernelBuilder::loadBroadcast(Value base, ArrayRef<Index> offsets) {
  return broadcast(loadF32(base, offsets));
}

/// Lanes below `count` of a vector of any length; other lengths than that of
/// f32 vectors need a constant.
static Value getPartMask(KernelBuilder &kernel, VectorType type, Index count) {
  if (!count.isConstant()) {
    assert(type.getNumElements() == kernel.width() && "no mask of this length");
    return kernel.lanesBelow(count);
  }
  SmallVector<bool> mask(type.getNumElements());
  for (auto [lane, isIn] : llvm::enumerate(mask))
    isIn = static_cast<int64_t>(lane) < count.getConstant();
  return kernel.constant(
      DenseElementsAttr::get(type.clone(kernel.i1), ArrayRef<bool>(mask)));
}

Value KernelBuilder::loadPart(VectorType type, Value from, Index count) {
  if (count.is(type.getNumElements()))
    return load(type, from);
  return LLVM::MaskedLoadOp::create(
      builder, loc, type, from, getPartMask(*this, type, count), zero(type),
      builder.getI32IntegerAttr(getElementAlignment(type)));
}

void KernelBuilder::storePart(Value vector, Value to, Index count) {
  auto type = cast<VectorType>(vector.getType());
  if (count.is(type.getNumElements()))
    return store(vector, to);
  LLVM::MaskedStoreOp::create(
      builder, loc, vector, to, getPartMask(*this, type, count),
      builder.getI32IntegerAttr(getElementAlignment(type)));
}

static Value getPointers(KernelBuilder &kernel, Type element, Value base,
                         Value indices) {
  return LLVM::GEPOp::create(kernel.builder, kernel.loc,
                             VectorType::get(kernel.width(), kernel.pointer),
                             element, base,
                             ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(indices)},
                             LLVM::GEPNoWrapFlags::none);
}

Value KernelBuilder::gather(Type element, Value base, Value indices) {
  Value pointers = getPointers(*this, element, base, indices);
  Value all = constant(DenseElementsAttr::get(vi1, true));
  auto type = VectorType::get(width(), element);
  return LLVM::masked_gather::create(
      builder, loc, type, pointers, all, ValueRange(),
      builder.getI32IntegerAttr(getElementAlignment(type)));
}

void KernelBuilder::scatter(Value vector, Value base, Value indices) {
  auto type = cast<VectorType>(vector.getType());
  Value pointers = getPointers(*this, type.getElementType(), base, indices);
  Value all = constant(DenseElementsAttr::get(vi1, true));
  LLVM::masked_scatter::create(
      builder, loc, vector, pointers, all,
      builder.getI32IntegerAttr(getElementAlignment(type)));
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

KernelBuilder::Values KernelBuilder::loop(Index low, Index high, Index step,
                                          ValueRange initial, LoopBody body) {
  auto loop = scf::ForOp::create(
      builder, loc, value(low), value(high), value(step), initial,
      [](OpBuilder &, Location, Value, ValueRange) {});
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  Values next = body(loop.getInductionVar(), loop.getRegionIterArgs());
  scf::YieldOp::create(builder, loc, next);
  return llvm::to_vector_of<Value>(loop.getResults());
}

void KernelBuilder::loop(Index low, Index high, Index step,
                         function_ref<void(Value)> body) {
  loop(low, high, step, {}, [&](Value iv, ValueRange) -> Values {
    body(iv);
    return {};
  });
}

KernelBuilder::Values
KernelBuilder::nest(ArrayRef<Range> ranges, ValueRange initial,
                    function_ref<Values(ValueRange, ValueRange)> body) {
  Values point;
  auto run = [&](auto &run, ValueRange carried) -> Values {
    if (point.size() == ranges.size())
      return body(point, carried);
    const Range &range = ranges[point.size()];
    return loop(range.low, range.high, 1, carried,
                [&](Value number, ValueRange inner) {
                  point.push_back(number);
                  Values next = run(run, inner);
                  point.pop_back();
                  return next;
                });
  };
  return run(run, initial);
}

void KernelBuilder::nest(ArrayRef<Range> ranges,
                         function_ref<void(ValueRange)> body) {
  nest(ranges, {}, [&](ValueRange point, ValueRange) -> Values {
    body(point);
    return {};
  });
}

void KernelBuilder::clear(Value base, Index elements) {
  loop(0, elements, width(),
       [&](Value element) { storeVector(splatF32(0.0), base, {element}); });
}

void KernelBuilder::when(Value condition, function_ref<void()> then) {
  scf::IfOp::create(builder, loc, condition, [&](OpBuilder &, Location) {
    then();
    scf::YieldOp::create(builder, loc);
  });
}

void KernelBuilder::when(Value condition, function_ref<void()> then,
                         function_ref<void()> otherwise) {
  choose(
      condition, {},
      [&]() -> Values {
        then();
        return {};
      },
      [&]() -> Values {
        otherwise();
        return {};
      });
}

KernelBuilder::Values KernelBuilder::choose(Value condition, TypeRange types,
                                            function_ref<Values()> then,
                                            function_ref<Values()> otherwise) {
  auto branch = scf::IfOp::create(builder, loc, types, condition, true, true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(builder, loc, then());
  builder.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(builder, loc, otherwise());
  return llvm::to_vector_of<Value>(branch.getResults());
}

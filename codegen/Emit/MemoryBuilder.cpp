//===- MemoryBuilder.cpp - Loads and stores of kernels --------------------===//

#include "codegen/Emit/MemoryBuilder.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace sextant::codegen;

MemoryBuilder::MemoryBuilder(OpBuilder &builder, Location loc, Block &entry,
                             int64_t width)
    : VectorBuilder(builder, loc, entry, width),
      pointer(LLVM::LLVMPointerType::get(builder.getContext())) {}

Value MemoryBuilder::advance(Value base, ArrayRef<Index> offsets, Type type) {
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

void MemoryBuilder::prefetch(Value base, ArrayRef<Index> offsets, int64_t words,
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

Value MemoryBuilder::loadAcquired(Value pointer) {
  return LLVM::LoadOp::create(builder, loc, i64, pointer, /*alignment=*/8,
                              /*isVolatile=*/false, /*isNonTemporal=*/false,
                              /*isInvariant=*/false,
                              /*isInvariantGroup=*/false,
                              LLVM::AtomicOrdering::acquire);
}

void MemoryBuilder::storeReleased(Value number, Value pointer) {
  LLVM::StoreOp::create(builder, loc, number, pointer, /*alignment=*/8,
                        /*isVolatile=*/false, /*isNonTemporal=*/false,
                        /*isInvariantGroup=*/false,
                        LLVM::AtomicOrdering::release);
}

Value MemoryBuilder::countUp(Value pointer) {
  return LLVM::AtomicRMWOp::create(builder, loc, LLVM::AtomicBinOp::add,
                                   pointer, constantI64(1),
                                   LLVM::AtomicOrdering::monotonic);
}

/// Memory is aligned to elements only: rows have any stride.
static unsigned getElementAlignment(Type type) {
  if (isa<LLVM::LLVMPointerType>(type))
    return 8;
  return std::max(1u, getElementTypeOrSelf(type).getIntOrFloatBitWidth() / 8);
}

Value MemoryBuilder::load(Type type, Value from) {
  return LLVM::LoadOp::create(builder, loc, type, from,
                              getElementAlignment(type));
}

void MemoryBuilder::store(Value value, Value to) {
  LLVM::StoreOp::create(builder, loc, value, to,
                        getElementAlignment(value.getType()));
}

Value MemoryBuilder::loadF32(Value base, ArrayRef<Index> offsets) {
  return load(f32, advance(base, offsets));
}

Value MemoryBuilder::loadVector(Value base, ArrayRef<Index> offsets) {
  if (isOfThread)
    return loadF32(base, offsets);
  return load(vf32, advance(base, offsets));
}

void MemoryBuilder::storeVector(Value vector, Value base,
                                ArrayRef<Index> offsets) {
  store(vector, advance(base, offsets));
}

Value MemoryBuilder::loadBroadcast(Value base, ArrayRef<Index> offsets) {
  return broadcast(loadF32(base, offsets));
}

/// Lanes below `count` of a vector of any length; other lengths than that of
/// f32 vectors need a constant.
static Value getPartMask(MemoryBuilder &kernel, VectorType type, Index count) {
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

Value MemoryBuilder::loadPart(VectorType type, Value from, Index count) {
  if (count.is(type.getNumElements()))
    return load(type, from);
  return LLVM::MaskedLoadOp::create(
      builder, loc, type, from, getPartMask(*this, type, count), zero(type),
      builder.getI32IntegerAttr(getElementAlignment(type)));
}

void MemoryBuilder::storePart(Value vector, Value to, Index count) {
  auto type = cast<VectorType>(vector.getType());
  if (count.is(type.getNumElements()))
    return store(vector, to);
  LLVM::MaskedStoreOp::create(
      builder, loc, vector, to, getPartMask(*this, type, count),
      builder.getI32IntegerAttr(getElementAlignment(type)));
}

static Value getPointers(MemoryBuilder &kernel, Type element, Value base,
                         Value indices) {
  return LLVM::GEPOp::create(kernel.builder, kernel.loc,
                             VectorType::get(kernel.width(), kernel.pointer),
                             element, base,
                             ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(indices)},
                             LLVM::GEPNoWrapFlags::none);
}

Value MemoryBuilder::gather(Type element, Value base, Value indices) {
  Value pointers = getPointers(*this, element, base, indices);
  Value all = constant(DenseElementsAttr::get(vi1, true));
  auto type = VectorType::get(width(), element);
  return LLVM::masked_gather::create(
      builder, loc, type, pointers, all, ValueRange(),
      builder.getI32IntegerAttr(getElementAlignment(type)));
}

void MemoryBuilder::scatter(Value vector, Value base, Value indices) {
  auto type = cast<VectorType>(vector.getType());
  Value pointers = getPointers(*this, type.getElementType(), base, indices);
  Value all = constant(DenseElementsAttr::get(vi1, true));
  LLVM::masked_scatter::create(
      builder, loc, vector, pointers, all,
      builder.getI32IntegerAttr(getElementAlignment(type)));
}

void MemoryBuilder::addToF64(Value pointer, Value addend) {
  bool isWide = getElementTypeOrSelf(addend.getType()).isF64();
  Value wide = isWide ? addend : widen(addend);
  store(addF64(load(wide.getType(), pointer), wide), pointer);
}

//===- RowWords.cpp - Rows read as words, several at a time ---------------===//

#include "codegen/Rows/RowWords.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// Words between rows, so that places in a block of rows fit 32 bits.
static constexpr int64_t mostBetweenRows = int64_t(1) << 24;

//===----------------------------------------------------------------------===//
// Lanes
//===----------------------------------------------------------------------===//

Value codegen::addLanes(KernelBuilder &kernel, Value a, Value b) {
  return arith::AddIOp::create(kernel.builder, kernel.loc, a, b);
}

Value codegen::mulLanes(KernelBuilder &kernel, Value a, Value b) {
  return arith::MulIOp::create(kernel.builder, kernel.loc, a, b);
}

Value codegen::minLanes(KernelBuilder &kernel, Value a, Value b) {
  return arith::MinSIOp::create(kernel.builder, kernel.loc, a, b);
}

Value codegen::divLanes(KernelBuilder &kernel, Value a, int64_t by) {
  return arith::DivUIOp::create(kernel.builder, kernel.loc, a,
                                kernel.splatI32(by));
}

Value codegen::remLanes(KernelBuilder &kernel, Value a, int64_t by) {
  return arith::RemUIOp::create(kernel.builder, kernel.loc, a,
                                kernel.splatI32(by));
}

Value codegen::extendLanes(KernelBuilder &kernel, Value vector) {
  auto type = cast<VectorType>(vector.getType());
  if (!type.getElementType().isBF16())
    return kernel.extend(vector);
  OpBuilder &builder = kernel.builder;
  Location loc = kernel.loc;
  Value bits =
      arith::BitcastOp::create(builder, loc, type.clone(kernel.i16), vector);
  Value wide =
      arith::ExtUIOp::create(builder, loc, type.clone(kernel.i32), bits);
  wide = arith::ShLIOp::create(builder, loc, wide, kernel.splatI32(16));
  return arith::BitcastOp::create(builder, loc, type.clone(kernel.f32), wide);
}

/// What the lane holds whose number differs in one bit.
static Value exchange(KernelBuilder &kernel, Value vector, int64_t bit) {
  SmallVector<int64_t> mask;
  for (int64_t lane = 0; lane < kernel.width(); ++lane)
    mask.push_back(lane ^ bit);
  return kernel.shuffle(vector, vector, mask);
}

Value codegen::sumGroups(KernelBuilder &kernel, ValueRange vectors,
                         int64_t lanes) {
  Values sums(vectors);
  int64_t bit = 1;
  for (; sums.size() > 1; bit *= 2) {
    Value has = remLanes(kernel, divLanes(kernel, kernel.lanes(0), bit), 2);
    Value isOdd = arith::CmpIOp::create(kernel.builder, kernel.loc,
                                        arith::CmpIPredicate::ne, has,
                                        kernel.splatI32(0));
    Values halves;
    for (size_t number = 0; number < sums.size(); number += 2) {
      Value even = sums[number], odd = sums[number + 1];
      Value kept = kernel.selectF(isOdd, odd, even);
      Value given = kernel.selectF(isOdd, even, odd);
      halves.push_back(kernel.addF(kept, exchange(kernel, given, bit)));
    }
    sums = halves;
  }
  Value sum = sums.front();
  for (; bit < lanes; bit *= 2)
    sum = kernel.addF(sum, exchange(kernel, sum, bit));
  return sum;
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

std::optional<RowWords> RowWords::find(const VectorTarget &target, Type element,
                                       int64_t dim, int64_t mostBits) {
  int64_t bits = dim * element.getIntOrFloatBitWidth();
  for (int64_t word : {128, 64, 32}) {
    if (word > mostBits || bits % word != 0)
      continue;
    int64_t words = bits / word;
    auto lanes = static_cast<int64_t>(llvm::PowerOf2Ceil(words));
    auto vectors = static_cast<int64_t>(llvm::divideCeil(words, target.width));
    return RowWords{element, word, words, std::min(lanes, target.width),
                    vectors};
  }
  return std::nullopt;
}

Value RowWords::areIn(KernelBuilder &kernel, ArgumentBlock &arguments,
                      unsigned tensor) const {
  OpBuilder &builder = kernel.builder;
  Location loc = kernel.loc;
  Index perWord = countElements();
  Value address = LLVM::PtrToIntOp::create(builder, loc, kernel.i64,
                                           arguments.getPointer(tensor));
  Value isIn = kernel.equal(kernel.rem(address, bits / 8), 0);
  for (unsigned axis : {0, 1, 2})
    isIn = kernel.both(
        isIn, kernel.equal(
                  kernel.rem(arguments.getStride(tensor, axis), perWord), 0));
  Value isDense = kernel.equal(arguments.getStride(tensor, 3), 1);
  Index apart = kernel.div(arguments.getStride(tensor, 2), perWord);
  return kernel.both(kernel.both(isIn, isDense),
                     kernel.less(apart, mostBetweenRows));
}

Value RowWords::getStride(KernelBuilder &kernel, ArgumentBlock &arguments,
                          unsigned tensor, unsigned axis) const {
  return kernel.broadcast(kernel.toI32(
      kernel.div(arguments.getStride(tensor, axis), countElements())));
}

Value RowWords::load(KernelBuilder &kernel, Value base, Value places) const {
  return kernel.gather(kernel.builder.getIntegerType(bits), base, places);
}

void RowWords::store(KernelBuilder &kernel, Value words, Value base,
                     Value places, Value condition) const {
  OpBuilder &builder = kernel.builder;
  Value pointers = LLVM::GEPOp::create(
      builder, kernel.loc, VectorType::get(kernel.width(), kernel.pointer),
      builder.getIntegerType(bits), base,
      ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(places)}, LLVM::GEPNoWrapFlags::none);
  LLVM::masked_scatter::create(
      builder, kernel.loc, words, pointers, condition,
      builder.getI32IntegerAttr(static_cast<int32_t>(bits / 8)));
}

Values RowWords::unpack(KernelBuilder &kernel, Value words) const {
  OpBuilder &builder = kernel.builder;
  Location loc = kernel.loc;
  unsigned width = element.getIntOrFloatBitWidth();
  auto as = [&](Type type) { return kernel.vf32.clone(type); };
  Values elements;
  for (int64_t bit = 0; bit < bits; bit += width) {
    Value shifted = words;
    if (bit)
      shifted = arith::ShRUIOp::create(
          builder, loc, words,
          kernel.broadcast(kernel.constant(
              builder.getIntegerAttr(builder.getIntegerType(bits), bit))));
    Value own = shifted;
    if (bits != width)
      own = arith::TruncIOp::create(builder, loc,
                                    as(builder.getIntegerType(width)), shifted);
    own = arith::BitcastOp::create(builder, loc, as(element), own);
    elements.push_back(element.isF32() ? own : extendLanes(kernel, own));
  }
  return elements;
}

Value RowWords::pack(KernelBuilder &kernel, ValueRange elements) const {
  OpBuilder &builder = kernel.builder;
  Location loc = kernel.loc;
  unsigned width = element.getIntOrFloatBitWidth();
  auto as = [&](Type type) { return kernel.vf32.clone(type); };
  Type word = builder.getIntegerType(bits);
  Value words;
  for (auto [number, value] : llvm::enumerate(elements)) {
    Value own = arith::BitcastOp::create(builder, loc,
                                         as(builder.getIntegerType(width)),
                                         kernel.roundTo(value, element));
    if (bits != width)
      own = arith::ExtUIOp::create(builder, loc, as(word), own);
    if (number)
      own = arith::ShLIOp::create(
          builder, loc, own,
          kernel.broadcast(
              kernel.constant(builder.getIntegerAttr(word, number * width))));
    words = words ? arith::OrIOp::create(builder, loc, words, own) : own;
  }
  return words;
}

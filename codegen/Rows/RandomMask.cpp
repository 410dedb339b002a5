//===- RandomMask.cpp - Elements kept at random ---------------------------===//
//
// A lane draws for its own element: it computes a whole block, of which it
// takes a word. Three of four words are computed for nothing, which costs less
// than lanes that exchange them, or stores that are apart.
//
//===----------------------------------------------------------------------===//

#include "codegen/Rows/RandomMask.h"
#include "codegen/Tables/ArgumentPoint.h"
#include <array>
#include <cmath>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Elements of an item, a multiple of every vector and of a block of words.
static constexpr int64_t itemElements = 4096;

//===----------------------------------------------------------------------===//
// Philox4x32-10 (Salmon et al. 2011, Parallel Random Numbers: As Easy as 1, 2,
// 3), a block for each lane
//===----------------------------------------------------------------------===//

namespace {
using Words = std::array<Value, 4>; ///< vectors of i32

/// Integers of kernels that only random numbers need.
struct Integers {
  KernelBuilder &kernel;

  Value exclusiveOr(Value a, Value b) const {
    return arith::XOrIOp::create(kernel.builder, kernel.loc, a, b);
  }
  Value add(Value a, uint32_t b) const {
    return arith::AddIOp::create(kernel.builder, kernel.loc, a,
                                 kernel.constantI32(static_cast<int32_t>(b)));
  }
  /// The upper and the lower half of a product of 64 bits.
  std::pair<Value, Value> multiply(Value word, uint32_t factor) const {
    auto wide = VectorType::get(kernel.width(), kernel.i64);
    Value left = arith::ExtUIOp::create(kernel.builder, kernel.loc, wide, word);
    Value product =
        arith::MulIOp::create(kernel.builder, kernel.loc, left,
                              kernel.broadcast(kernel.constantI64(factor)));
    Value high =
        arith::ShRUIOp::create(kernel.builder, kernel.loc, product,
                               kernel.broadcast(kernel.constantI64(32)));
    return {truncate(high), truncate(product)};
  }
  Value truncate(Value vector) const {
    return arith::TruncIOp::create(kernel.builder, kernel.loc, kernel.vi32,
                                   vector);
  }
  /// Of a scalar of 64 bits, in all lanes or in none.
  Value getHigh(Value word) const {
    return kernel.toI32(Index(Value(arith::ShRUIOp::create(
        kernel.builder, kernel.loc, word, kernel.constantI64(32)))));
  }
};
} // namespace

static Words emitPhilox(KernelBuilder &kernel, Words counter,
                        std::array<Value, 2> key) {
  Integers integers{kernel};
  for (int round = 0; round < 10; ++round) {
    auto [high0, low0] = integers.multiply(counter[0], 0xD2511F53);
    auto [high1, low1] = integers.multiply(counter[2], 0xCD9E8D57);
    auto mix = [&](Value high, Value word, Value key) {
      return integers.exclusiveOr(integers.exclusiveOr(high, word),
                                  kernel.broadcast(key));
    };
    counter = {mix(high1, counter[1], key[0]), low1,
               mix(high0, counter[3], key[1]), low0};
    key = {integers.add(key[0], 0x9E3779B9), integers.add(key[1], 0xBB67AE85)};
  }
  return counter;
}

//===----------------------------------------------------------------------===//
// The mask
//===----------------------------------------------------------------------===//

namespace {
/// Operand numbers of the kernel.
struct MaskOperands {
  unsigned seed, step, place, mask; ///< tensors
  unsigned elements, threshold;     ///< scalars

  Value load(KernelBuilder &kernel, ArgumentBlock &arguments,
             unsigned number) const {
    return kernel.load(kernel.i64, arguments.getPointer(number));
  }
  Value drawWords(KernelBuilder &kernel, ArgumentBlock &arguments,
                  Index first) const;
  void emitItem(KernelBuilder &kernel, ArgumentBlock &arguments,
                const Item &item) const;
};
} // namespace

/// The words of the elements from `first` on, a multiple of the vector.
Value MaskOperands::drawWords(KernelBuilder &kernel, ArgumentBlock &arguments,
                              Index first) const {
  Integers integers{kernel};
  OpBuilder &builder = kernel.builder;
  Value lanes = kernel.lanes(0);
  Value block = kernel.value(kernel.div(first, 4));
  // A vector begins with a multiple of its size, so no sum of a block's lower
  // half overflows.
  Value inVector =
      arith::ShRUIOp::create(builder, kernel.loc, lanes, kernel.splatI32(2));
  Words counter = {
      arith::AddIOp::create(builder, kernel.loc, inVector,
                            kernel.broadcast(kernel.toI32(Index(block)))),
      kernel.broadcast(integers.getHigh(block)),
      kernel.broadcast(kernel.toI32(Index(load(kernel, arguments, step)))),
      kernel.broadcast(kernel.toI32(Index(load(kernel, arguments, place))))};
  Value seedWord = load(kernel, arguments, seed);
  Words words =
      emitPhilox(kernel, counter,
                 {kernel.toI32(Index(seedWord)), integers.getHigh(seedWord)});
  Value which =
      arith::AndIOp::create(builder, kernel.loc, lanes, kernel.splatI32(3));
  Value word = words[0];
  for (int number = 1; number < 4; ++number) {
    Value isIt =
        arith::CmpIOp::create(builder, kernel.loc, arith::CmpIPredicate::eq,
                              which, kernel.splatI32(number));
    word =
        arith::SelectOp::create(builder, kernel.loc, isIt, words[number], word);
  }
  return word;
}

/// Ones and zeros of an item. They are stored as their bits: not every machine
/// has instructions for vectors of each type.
void MaskOperands::emitItem(KernelBuilder &kernel, ArgumentBlock &arguments,
                            const Item &item) const {
  OpBuilder &builder = kernel.builder;
  auto element = cast<FloatType>(arguments.getElementType(mask));
  APInt bits = APFloat::getOne(element.getFloatSemantics()).bitcastToAPInt();
  auto word = IntegerType::get(builder.getContext(), element.getWidth());
  auto type = VectorType::get(kernel.width(), word);
  Value one = kernel.constant(DenseElementsAttr::get(type, bits));
  Index count = arguments.getScalar(elements);
  Index limit = arguments.getScalar(threshold);
  auto wide = VectorType::get(kernel.width(), kernel.i64);
  kernel.loop(item[0], item.end(0), kernel.width(), [&](Value first) {
    Value drawn = arith::ExtUIOp::create(builder, kernel.loc, wide,
                                         drawWords(kernel, arguments, first));
    Value isKept =
        arith::CmpIOp::create(builder, kernel.loc, arith::CmpIPredicate::slt,
                              drawn, kernel.broadcast(kernel.value(limit)));
    Value values = arith::SelectOp::create(builder, kernel.loc, isKept, one,
                                           kernel.zero(type));
    kernel.storePart(values,
                     kernel.advance(arguments.getPointer(mask), {first}, word),
                     kernel.min(kernel.sub(count, first), kernel.width()));
  });
}

/// The number of elements of a tensor.
static Value countElements(const Lowering &lowering, Value tensor) {
  OpBuilder &builder = lowering.builder;
  Value count = arith::ConstantIndexOp::create(builder, lowering.getLoc(), 1);
  int64_t rank = cast<RankedTensorType>(tensor.getType()).getRank();
  for (int64_t dim = 0; dim < rank; ++dim)
    count = arith::MulIOp::create(builder, lowering.getLoc(), count,
                                  lowering.getDim(tensor, dim));
  return count;
}

Value sextant::codegen::launchRandomMask(const Lowering &lowering, Value like,
                                         const Generator &generator,
                                         double probability) {
  auto type = cast<RankedTensorType>(like.getType());
  Value mask = lowering.allocateLike(like, type);
  // As the host does: a multiple of 2^-32, where 1 is above every word.
  Value limit =
      arith::ConstantIndexOp::create(lowering.builder, lowering.getLoc(),
                                     std::llround(std::ldexp(probability, 32)));
  LaunchOperands operands;
  MaskOperands numbers;
  numbers.seed = operands.read(generator.seed);
  numbers.step = operands.read(generator.step);
  numbers.place = operands.read(generator.place);
  numbers.mask = operands.write(mask);
  numbers.elements = operands.scalar(countElements(lowering, like));
  numbers.threshold = operands.scalar(limit);
  auto getItems = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(kernel,
                     {{arguments.getScalar(numbers.elements), itemElements}});
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value) {
    items.forEach(
        [&](const Item &item) { numbers.emitItem(kernel, arguments, item); });
  };
  std::string suffix;
  llvm::raw_string_ostream(suffix)
      << type.getElementType() << "_" << type.getRank();
  operands.launch(lowering, suffix, {getItems, noScratch, run});
  return mask;
}

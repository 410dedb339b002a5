//===- SharedRows.cpp - Rows of an operand in shared memory ---------------===//
//
// Neighbouring threads copy neighbouring chunks of a row. A row has as many
// threads as a power of two of chunks.
//
//===----------------------------------------------------------------------===//

#include "codegen/CUDA/Sm80/SharedRows.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// What one copy takes: 8 elements.
static constexpr int64_t chunkBytes = 16, chunkElements = 8;

static int64_t countChunks(const SharedRowShape &shape) {
  return shape.padded / chunkElements;
}
static int64_t countRowThreads(const SharedRowShape &shape) {
  return static_cast<int64_t>(llvm::PowerOf2Ceil(countChunks(shape)));
}

void codegen::copyWords(ThreadBuilder &thread, Value from, Value to,
                        WordCount count, Value given) {
  KernelBuilder &kernel = thread.kernel;
  Value source = kernel.advance(from, {kernel.fromI32(count.own)}, kernel.i32);
  Value target = thread.advance(to, thread.mul(count.own, wordBytes));
  Value whole = thread.constant(wordBytes), none = thread.constant(0);
  for (int64_t before = 0; before < count.words; before += count.threads) {
    Value own = thread.add(count.own, before);
    auto copyOne = [&] {
      Value bytes =
          given ? thread.select(thread.less(own, given), whole, none) : whole;
      thread.copy(thread.advance(target, before * wordBytes),
                  kernel.advance(source, {before}, kernel.i32), wordBytes,
                  bytes);
    };
    if (before + count.threads <= count.words)
      copyOne();
    else
      kernel.when(thread.less(own, thread.constant(count.words)), copyOne);
  }
}

SharedRows::SharedRows(ThreadBuilder &thread, ArgumentBlock &arguments,
                       unsigned tensor, SharedRowShape shape, int64_t threads)
    : thread(thread), kernel(thread.kernel), arguments(arguments),
      tensor(tensor), shape(shape), threads(threads) {
  OpBuilder &builder = kernel.builder;
  Value bits = LLVM::PtrToIntOp::create(builder, kernel.loc, kernel.i64,
                                        arguments.getPointer(tensor));
  for (unsigned dim = 0; dim < 3; ++dim)
    bits = arith::OrIOp::create(
        builder, kernel.loc, bits,
        kernel.value(kernel.mul(arguments.getStride(tensor, dim), 2)));
  Value rest = arith::AndIOp::create(builder, kernel.loc, bits,
                                     kernel.constantI64(chunkBytes - 1));
  isAligned = kernel.both(kernel.equal(Index(rest), 0),
                          kernel.equal(arguments.getStride(tensor, 3), 1));
  length = kernel.toI32(arguments.getSize(tensor, 2));
  chunk = thread.rem(thread.thread, countRowThreads(shape));
  row = thread.div(thread.thread, countRowThreads(shape));
  given = thread.constant(chunkBytes);
  if (shape.dim != shape.padded) {
    Value left = thread.sub(thread.constant(2 * shape.dim),
                            thread.mul(chunk, chunkBytes));
    given = thread.max(thread.min(left, given), thread.constant(0));
  }
}

void SharedRows::enterHead(Index batch, Index number) {
  head = arguments.getAddress(tensor, {batch, number});
}

void SharedRows::copy(Value first, int64_t rows, Value to) {
  kernel.when(
      isAligned, [&] { copyAligned(first, rows, to, /*areWhole=*/false); },
      [&] { copyElements(first, rows, to); });
}

void SharedRows::copyOfHeads(
    Index batch, int64_t rows, Value to,
    function_ref<std::pair<Index, Value>(Value)> find) {
  int64_t perPass = threads / countRowThreads(shape);
  auto copyOne = [&](Value own) {
    auto [of, number] = find(own);
    Value source = kernel.advance(
        arguments.getAddress(tensor, {batch, of, kernel.fromI32(number)}),
        {kernel.mul(kernel.fromI32(chunk), chunkElements)}, thread.element);
    Value target = thread.add(thread.mul(own, shape.getBytes()),
                              thread.mul(chunk, chunkBytes));
    thread.copy(
        thread.advance(to, target), source, chunkBytes,
        thread.select(thread.less(number, length), given, thread.constant(0)));
  };
  Value isChunk = thread.less(chunk, thread.constant(countChunks(shape)));
  auto copyChunks = [&] {
    for (int64_t before = 0; before < rows; before += perPass) {
      Value own = thread.add(row, before);
      kernel.when(kernel.both(isChunk, thread.less(own, thread.constant(rows))),
                  [&] { copyOne(own); });
    }
  };
  auto copyEach = [&] {
    thread.loopWhile(
        thread.constant(0),
        [&](ValueRange at) {
          return thread.less(at[0], thread.constant(rows));
        },
        [&](ValueRange at) -> KernelBuilder::Values {
          auto [of, number] = find(at[0]);
          enterHead(batch, of);
          copyElements(number, 1,
                       thread.advance(to, thread.mul(at[0], shape.getBytes())));
          return {thread.add(at[0], 1)};
        });
  };
  kernel.when(isAligned, copyChunks, copyEach);
}

void SharedRows::copyAligned(Value first, int64_t rows, Value to,
                             bool areWhole) {
  int64_t perPass = threads / countRowThreads(shape);
  Index stride = arguments.getStride(tensor, 2);
  Value own = thread.add(first, row);
  Value from =
      kernel.advance(head,
                     {kernel.mul(kernel.fromI32(own), stride),
                      kernel.mul(kernel.fromI32(chunk), chunkElements)},
                     thread.element);
  Value target =
      thread.advance(to, thread.add(thread.mul(row, shape.getBytes()),
                                    thread.mul(chunk, chunkBytes)));
  Value zero = thread.constant(0);
  auto copyPasses = [&] {
    Value source = from;
    for (int64_t pass = 0; pass * perPass < rows; ++pass) {
      int64_t before = pass * perPass;
      if (pass > 0)
        source = kernel.advance(source, {kernel.mul(stride, perPass)},
                                thread.element);
      auto copyOne = [&] {
        Value bytes = given;
        if (!areWhole)
          bytes = thread.select(thread.less(thread.add(own, before), length),
                                given, zero);
        thread.copy(thread.advance(target, before * shape.getBytes()), source,
                    chunkBytes, bytes);
      };
      if (before + perPass <= rows)
        copyOne();
      else
        kernel.when(thread.less(row, thread.constant(rows - before)), copyOne);
    }
  };
  if (countChunks(shape) == countRowThreads(shape))
    return copyPasses();
  kernel.when(thread.less(chunk, thread.constant(countChunks(shape))),
              copyPasses);
}

void SharedRows::copyElements(Value first, int64_t rows, Value to) {
  int64_t words = shape.padded / 2;
  Index stride = arguments.getStride(tensor, 2);
  Index step = arguments.getStride(tensor, 3);
  Value count = thread.sub(length, first);
  Value zero = kernel.constant(kernel.builder.getI16IntegerAttr(0));
  auto copyWord = [&](Value number) {
    Value row = thread.div(number, words);
    Value lane = thread.mul(thread.rem(number, words), 2);
    Value isRow = thread.less(row, count);
    Index own = kernel.fromI32(thread.add(first, row));
    Value source =
        kernel.advance(head, {kernel.mul(own, stride)}, thread.element);
    auto load = [&](Value element) {
      Value exists =
          kernel.both(isRow, thread.less(element, thread.constant(shape.dim)));
      auto there = [&]() -> KernelBuilder::Values {
        Index place = kernel.mul(kernel.fromI32(element), step);
        return {kernel.load(kernel.i16,
                            kernel.advance(source, {place}, thread.element))};
      };
      auto beyond = [&]() -> KernelBuilder::Values { return {zero}; };
      return kernel.choose(exists, kernel.i16, there, beyond).front();
    };
    Value target = thread.advance(
        to, thread.add(thread.mul(row, shape.getBytes()), thread.mul(lane, 2)));
    thread.storeShared(load(lane), target);
    thread.storeShared(load(thread.add(lane, 1)), thread.advance(target, 2));
  };
  thread.loopWhile(
      thread.thread,
      [&](ValueRange number) {
        return thread.less(number[0], thread.constant(rows * words));
      },
      [&](ValueRange number) -> KernelBuilder::Values {
        copyWord(number[0]);
        return {thread.add(number[0], threads)};
      });
}

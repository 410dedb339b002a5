//===- ColumnLoop.cpp - A loop over the columns of a thread's scores ------===//

#include "codegen/CUDA/Sm80/ColumnLoop.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// Operations of the largest payload that is written for each score.
static constexpr int64_t mostWritten = 30;

bool codegen::standsInLoop(Block &payload) {
  int64_t ops = 0;
  payload.walk([&](Operation *op) { ops += !isa<arith::ConstantOp>(op); });
  return ops > mostWritten;
}

Value codegen::reserveNumbers(KernelBuilder &kernel, int64_t count,
                              Block &start) {
  OpBuilder &builder = kernel.builder;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&start);
  Value numbers = LLVM::ConstantOp::create(
      builder, kernel.loc,
      builder.getI32IntegerAttr(static_cast<int32_t>(count)));
  return LLVM::AllocaOp::create(builder, kernel.loc, kernel.pointer, kernel.f32,
                                numbers, /*alignment=*/16);
}

/// How many times the loop runs, as a number that a compiler does not know: it
/// would write the loop out.
Value ColumnLoop::getGroups() {
  OpBuilder &builder = kernel.builder;
  Value groups = kernel.constantI32(tile.countGroups());
  return LLVM::InlineAsmOp::create(
             builder, kernel.loc, TypeRange(kernel.i32), groups,
             /*asm_string=*/"", /*constraints=*/"=r,0",
             /*has_side_effects=*/false, /*is_align_stack=*/false,
             LLVM::TailCallKind::None, LLVM::AsmDialectAttr(), ArrayAttr())
      .getRes();
}

/// The place of the first number of a fragment in memory.
int64_t ColumnLoop::getFirst(int64_t group, int64_t block) const {
  return (group * tile.blocks + block) * fragmentElements;
}

void ColumnLoop::emitColumns(Value group, ArrayRef<Value> from,
                             ArrayRef<Value> to, Body body) {
  Value columns = kernel.toI32(kernel.mul(group, fragmentColumns));
  point.shiftColumns(columns, [&] {
    for (int64_t block = 0; block < tile.blocks; ++block)
      for (int64_t number = 0; number < fragmentElements; ++number) {
        point.setElement(FragmentElement::get(block, 0, number));
        Index place =
            kernel.add(kernel.mul(group, tile.blocks * fragmentElements),
                       getFirst(0, block) + number);
        Values numbers;
        for (Value memory : from)
          numbers.push_back(
              kernel.load(kernel.f32, kernel.advance(memory, place)));
        for (auto [result, memory] : llvm::zip_equal(body(numbers), to))
          kernel.store(result, kernel.advance(memory, place));
      }
  });
}

Values ColumnLoop::run(ArrayRef<ValueRange> given, size_t results, Body body) {
  SmallVector<Value> from, to;
  auto forAll = [&](function_ref<void(unsigned, Index)> visit) {
    for (int64_t block = 0; block < tile.blocks; ++block)
      for (int64_t group = 0; group < tile.countGroups(); ++group)
        for (int64_t number = 0; number < fragmentElements; ++number)
          visit(tile.getNumber(block, group, number),
                getFirst(group, block) + number);
  };
  for (ValueRange numbers : given) {
    from.push_back(reserveNumbers(kernel, tile.countScores(), start));
    forAll([&](unsigned number, Index place) {
      kernel.store(numbers[number], kernel.advance(from.back(), place));
    });
  }
  for (size_t result = 0; result < results; ++result)
    to.push_back(reserveNumbers(kernel, tile.countScores(), start));
  kernel.loop(0, kernel.fromI32(getGroups()), 1,
              [&](Value group) { emitColumns(group, from, to, body); });
  Values all;
  for (Value memory : to) {
    Values own(tile.countScores());
    forAll([&](unsigned number, Index place) {
      own[number] = kernel.load(kernel.f32, kernel.advance(memory, place));
    });
    llvm::append_range(all, own);
  }
  return all;
}

//===- ItemSpaceTest.cpp - Items cover their space once -------------------===//
//
// The number of an item must lead to each element of the space exactly once.
//
//===----------------------------------------------------------------------===//

#include "codegen/Emit/ItemSpace.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"
#include <map>

using namespace sextant::codegen;

/// Numbers that are constants fold, so that no code has to run.
TEST(ItemSpace, ItemsCoverEveryElementOnce) {
  mlir::MLIRContext context;
  context.loadDialect<mlir::LLVM::LLVMDialect, mlir::arith::ArithDialect>();
  mlir::OpBuilder builder(&context);
  mlir::Block entry;
  VectorTarget target;
  target.width = 8;
  KernelBuilder kernel(builder, builder.getUnknownLoc(), entry, target);
  constexpr int64_t batches = 2, heads = 3, rows = 70, step = 32;
  ItemAxis axes[] = {Index(batches), Index(heads), {rows, step}};
  ASSERT_TRUE(ItemSpace(kernel, axes).count().is(batches * heads * 3));

  std::map<std::array<int64_t, 3>, int> seen;
  for (int64_t number = 0; number < batches * heads * 3; ++number) {
    Item item(kernel, axes, number);
    for (int64_t row = item[2].getConstant(); row < item.end(2).getConstant();
         ++row)
      ++seen[{item[0].getConstant(), item[1].getConstant(), row}];
  }
  EXPECT_EQ(seen.size(), size_t(batches * heads * rows));
  for (const auto &[place, times] : seen) {
    EXPECT_EQ(times, 1);
    EXPECT_LT(place[0], batches);
    EXPECT_LT(place[1], heads);
    EXPECT_LT(place[2], rows);
  }
  EXPECT_TRUE(entry.empty());
}

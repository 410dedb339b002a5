//===- RowsApart.cpp - Rows of heads in sets of a cache of their own ------===//

#include "codegen/Rows/RowsApart.h"
#include "codegen/Emit/Sizes.h"
#include "codegen/Rows/RowCopy.h"
#include "codegen/Tables/ArgumentPoint.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Heads lie at as many places among the sets as the greatest power of two that
/// divides their distance leaves, one after the other.
Value RowsApart::areCopied(KernelBuilder &kernel, ArgumentBlock &arguments,
                           Index head) const {
  Index bytes = kernel.mul(arguments.getStride(rows, 1), 4);
  Index heads = arguments.getSize(rows, 1), first = heads;
  for (int64_t places = heads.getConstant() / mostInPlace; places > 0; --places)
    if (llvm::isPowerOf2_64(places))
      first =
          kernel.select(kernel.equal(kernel.rem(bytes, cacheWay / places), 0),
                        mostInPlace * places, first);
  first = kernel.select(kernel.equal(bytes, 0), heads, first);
  first =
      kernel.select(kernel.less(0, arguments.getSize(copy, 2)), first, heads);
  return kernel.less(kernel.sub(first, 1), head);
}

Value sextant::codegen::padApart(const Lowering &lowering, Value rows,
                                 int64_t unit) {
  Sizes sizes{lowering};
  auto add = [&](Value value, int64_t number) {
    return sizes.create<arith::AddIOp>(value, sizes.constant(number));
  };
  return add(sizes.roundUp(add(rows, unit), 2 * unit), -unit);
}

Value sextant::codegen::launchRowsApart(const Lowering &lowering,
                                        StringRef suffix, Value rows,
                                        Value padded, int64_t block,
                                        int64_t row, int64_t words) {
  Sizes sizes{lowering};
  auto type = cast<RankedTensorType>(rows.getType());
  int64_t heads = type.getDimSize(1), dim = type.getDimSize(3);
  Value fitting = sizes.constant(secondCache / 2 / (4 * words * heads) + 1);
  Value arePassing =
      sizes.min(sizes.create<arith::DivSIOp>(lowering.getDim(rows, 2), fitting),
                sizes.constant(1));
  auto copyType = RankedTensorType::get(
      {ShapedType::kDynamic, heads, ShapedType::kDynamic, row},
      type.getElementType());
  Value copy = lowering.allocate(
      copyType,
      {lowering.getDim(rows, 0), Value(),
       sizes.mul(arePassing, padApart(lowering, padded, block)), Value()});
  LaunchOperands operands;
  RowsApart apart;
  apart.rows = operands.read(rows);
  apart.copy = operands.write(copy);

  auto getItems = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    // What is beyond the rows that there are is read by nobody.
    Index ofHead = kernel.min(arguments.getSize(apart.copy, 2),
                              arguments.getSize(apart.rows, 2));
    return ItemSpace(kernel, {arguments.getSize(apart.rows, 0),
                              arguments.getSize(apart.rows, 1),
                              {ofHead, block}});
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value) {
    items.forEach([&](const Item &item) {
      kernel.when(apart.areCopied(kernel, arguments, item[1]), [&] {
        RowCopy ofRows;
        ofRows.tensor = apart.rows;
        ofRows.batch = item[0];
        ofRows.head = item[1];
        ofRows.first = item[2];
        ofRows.count = block;
        ofRows.dim = dim;
        ofRows.to =
            arguments.getAddress(apart.copy, {item[0], item[1], item[2]});
        ofRows.rowWords = row;
        emitRowCopy(kernel, arguments, ofRows, type.getElementType());
      });
    });
  };
  operands.launch(lowering, suffix, {getItems, noScratch, run});
  return copy;
}

//===- Columns.cpp - Columns appended to query and key rows ---------------===//

#include "codegen/Rows/Columns.h"
#include "codegen/Tables/ArgumentPoint.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

/// Rows of a table's gradient that an item adds up.
static constexpr int64_t rowsPerItem = 64;
/// Vectors of a row that are added up together, in registers.
static constexpr int64_t vectorsAtOnce = 4;
/// How many rows before they are added up they are asked for.
static constexpr int64_t rowsAhead = 8;

SmallVector<int64_t> codegen::getHeadParts(const KernelPlan &plan,
                                           Value operand) {
  SmallVector<int64_t> parts = getHeadDims(operand);
  for (const RowColumns &columns : plan.columns)
    parts.push_back(columns.count);
  return parts;
}

LogicalResult
codegen::emitHeadCopy(KernelBuilder &kernel, ArgumentBlock &arguments,
                      const KernelPlan &plan, const SiteOperands &sites,
                      pos::RowOperand operand, const RowParts &parts,
                      const RowCopy &copy, Type element) {
  RowCopy rows = copy;
  rows.clearsNaN = false;
  if (failed(emitRowCopy(kernel, arguments, rows, element)))
    return failure();
  for (auto [part, columns] :
       llvm::zip_equal(parts.get().drop_front(), plan.columns)) {
    const Hoisted *table = plan.find(columns.get(operand), operand);
    RowCopy next = copy;
    next.tensor = *sites.tables[table - plan.hoisted.data()];
    next.batch = table->perBatch ? copy.batch : Index(0);
    next.head = table->perHead ? copy.head : Index(0);
    next.dim = part.dim;
    next.maps = {};
    next.to =
        kernel.advance(copy.to, {copy.pairs ? part.first / 2 : part.first});
    if (failed(emitRowCopy(kernel, arguments, next, kernel.f32)))
      return failure();
  }
  return success();
}

void codegen::launchColumnSum(const Lowering &lowering, StringRef suffix,
                              Value partials, ArrayRef<RowPart> parts,
                              Value result) {
  LaunchOperands operands;
  unsigned source = operands.read(partials);
  unsigned target = operands.write(result);
  int64_t columns = operands.layout.tensors[target].getDimSize(3);
  auto countBlocks = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return kernel.ceilDiv(arguments.getSize(target, 2), rowsPerItem);
  };
  auto countItems = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return kernel.mul(
        kernel.mul(arguments.getSize(target, 0), arguments.getSize(target, 1)),
        countBlocks(kernel, arguments));
  };
  // Vectors [low, high) of a row at once: a row of the partial sums is read
  // as one stream.
  auto sumVectors = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                        Index batch, Index head, Index row, int64_t low,
                        int64_t high) -> Values {
    // An extent of 1 stands for the sum over all of the partial sums'.
    auto range = [&](unsigned dim, Index at) {
      Value isOne = kernel.equal(arguments.getSize(target, dim - 1), 1);
      return std::pair(kernel.select(isOne, 0, at),
                       kernel.select(isOne, arguments.getSize(source, dim),
                                     kernel.add(at, 1)));
    };
    auto batches = range(1, batch), heads = range(2, head);
    auto wide = VectorType::get(kernel.width(), kernel.builder.getF64Type());
    Value zero =
        kernel.constant(cast<TypedAttr>(kernel.builder.getZeroAttr(wide)));
    auto add = [&](Index b, Index h, Index chunk, ValueRange sums) -> Values {
      Value from = arguments.getAddress(source, {chunk, b, h, row});
      // Rows are read in pieces that are too far apart to be foreseen.
      Index ahead = kernel.mul(arguments.getStride(source, 3), rowsAhead);
      for (const RowPart &part : parts)
        for (int64_t lane = low * kernel.width();
             lane < std::min(high * kernel.width(), part.dim);
             lane += cacheLine)
          kernel.prefetch(from, {ahead, part.first + lane});
      Values next(sums);
      for (const RowPart &part : parts)
        for (auto [number, sum] : llvm::enumerate(next)) {
          int64_t lane = (low + number) * kernel.width();
          if (lane >= part.dim)
            continue;
          // Lanes past a part are those of a padding, zeros.
          Value addend = kernel.loadVector(from, {part.first + lane});
          addend =
              arith::ExtFOp::create(kernel.builder, kernel.loc, wide, addend);
          sum = arith::AddFOp::create(kernel.builder, kernel.loc, sum, addend);
        }
      return next;
    };
    Values sums = kernel.loop(
        batches.first, batches.second, 1, Values(high - low, zero),
        [&](Value b, ValueRange sums) -> Values {
          return kernel.loop(heads.first, heads.second, 1, sums,
                             [&](Value h, ValueRange sums) -> Values {
                               return kernel.loop(
                                   0, arguments.getSize(source, 0), 1, sums,
                                   [&](Value chunk, ValueRange sums) {
                                     return add(b, h, chunk, sums);
                                   });
                             });
        });
    for (Value &sum : sums) {
      sum =
          arith::TruncFOp::create(kernel.builder, kernel.loc, kernel.vf32, sum);
      sum = kernel.mulF(sum, kernel.splatF32(lowering.plan.scale));
    }
    return sums;
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments, Index begin,
                 Index end, Value) {
    Index blocks = countBlocks(kernel, arguments);
    kernel.loop(begin, end, 1, [&](Value item) {
      Index outer = kernel.div(item, blocks);
      Index heads = arguments.getSize(target, 1);
      Index batch = kernel.div(outer, heads), head = kernel.rem(outer, heads);
      Index low = kernel.mul(kernel.rem(item, blocks), rowsPerItem);
      Index high = kernel.min(kernel.add(low, rowsPerItem),
                              arguments.getSize(target, 2));
      kernel.loop(low, high, 1, [&](Value row) {
        Value to = arguments.getAddress(target, {batch, head, row});
        int64_t vectors = llvm::divideCeil(columns, kernel.width());
        for (int64_t low = 0; low < vectors; low += vectorsAtOnce) {
          int64_t high = std::min(vectors, low + vectorsAtOnce);
          Values sums =
              sumVectors(kernel, arguments, batch, head, row, low, high);
          for (auto [number, sum] : llvm::enumerate(sums)) {
            int64_t lane = (low + number) * kernel.width();
            kernel.storePart(sum, kernel.advance(to, {lane}),
                             std::min<int64_t>(kernel.width(), columns - lane));
          }
        }
      });
    });
  };
  operands.launch(lowering, suffix, {countItems, noScratch, run});
}

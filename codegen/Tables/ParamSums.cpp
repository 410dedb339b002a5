//===- ParamSums.cpp - Gradients of parameters as they come in ------------===//

#include "codegen/Tables/ParamSums.h"
#include "codegen/Tables/ArgumentPoint.h"
#include "codegen/Tables/OffsetRange.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Ranges of a launch, enough for the threads of a large machine, and elements
/// that all of them have of one parameter (8 MiB of f64).
static constexpr int64_t mostRanges = 64, mostElements = 1 << 20;
/// Elements of a parameter that an item adds up.
static constexpr int64_t elementsPerItem = 256;

ParamSums::ParamSums(const Lowering &lowering)
    : lowering(lowering), sums(lowering.plan.paramWantsGradient.size()),
      parts(sums.size()) {}

Value ParamSums::getParam(unsigned param) const {
  pos::SitesOwnerInterface owner = lowering.plan.owner;
  return owner.getParamOperands()[param];
}

Value ParamSums::getSum(unsigned param) {
  if (!sums[param] && isWanted(param)) {
    auto type = cast<RankedTensorType>(getParam(param).getType());
    sums[param] = lowering.allocateLike(
        getParam(param), type.clone(lowering.builder.getF64Type()),
        /*zero=*/true);
  }
  return sums[param];
}

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

Value codegen::countRanges(const Lowering &lowering, Value extent,
                           int64_t leastPerRange) {
  OpBuilder &builder = lowering.builder;
  Location loc = lowering.getLoc();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, loc, value);
  };
  Value ranges =
      arith::CeilDivSIOp::create(builder, loc, extent, constant(leastPerRange));
  ranges = arith::MinSIOp::create(builder, loc, ranges, constant(mostRanges));
  return arith::MaxSIOp::create(builder, loc, ranges, constant(1));
}

Value ParamSums::countRanges(Value extent, int64_t leastPerRange,
                             ArrayRef<unsigned> params) const {
  OpBuilder &builder = lowering.builder;
  Location loc = lowering.getLoc();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, loc, value);
  };
  Value one = constant(1);
  Value ranges = codegen::countRanges(lowering, extent, leastPerRange);
  for (unsigned param : params) {
    Value tensor = getParam(param), elements = one;
    for (int64_t dim = 0,
                 rank = cast<RankedTensorType>(tensor.getType()).getRank();
         dim < rank; ++dim)
      elements = arith::MulIOp::create(builder, loc, elements,
                                       lowering.getDim(tensor, dim));
    elements = arith::MaxSIOp::create(builder, loc, elements, one);
    Value most =
        arith::DivSIOp::create(builder, loc, constant(mostElements), elements);
    ranges = arith::MinSIOp::create(builder, loc, ranges, most);
  }
  return arith::MaxSIOp::create(builder, loc, ranges, one);
}

Value ParamSums::addRanges(unsigned param, Value ranges) {
  Value tensor = getParam(param);
  auto type = cast<RankedTensorType>(tensor.getType());
  SmallVector<int64_t> shape{ShapedType::kDynamic};
  llvm::append_range(shape, type.getShape());
  SmallVector<Value> sizes{ranges};
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    sizes.push_back(lowering.getDim(tensor, dim));
  Value partials = lowering.allocate(
      RankedTensorType::get(shape, lowering.builder.getF64Type()), sizes,
      /*zero=*/true);
  add(param, partials);
  return partials;
}

void ParamSums::add(unsigned param, Value partials, Value unlessTables) {
  parts[param].push_back({partials, unlessTables});
}

Index codegen::getRangeBegin(KernelBuilder &kernel, Index number, Index ranges,
                             Index extent, int64_t unit) {
  Index perRange = kernel.roundUp(kernel.ceilDiv(extent, ranges), unit);
  return kernel.min(kernel.mul(number, perRange), extent);
}

//===----------------------------------------------------------------------===//
// The sum
//===----------------------------------------------------------------------===//

/// The number of elements of an operand of a kernel.
static Index countElements(KernelBuilder &kernel, ArgumentBlock &arguments,
                           const KernelOperands &operands, unsigned tensor) {
  Index count = 1;
  for (int64_t dim = 0, rank = operands.tensors[tensor].getRank(); dim < rank;
       ++dim)
    count = kernel.mul(count, arguments.getSize(tensor, dim));
  return count;
}

namespace {
/// A contiguous operand of the launch, [copies, elements].
struct SumSource {
  unsigned tensor;
  std::optional<unsigned> tableRange;
};
} // namespace

Value ParamSums::finish(unsigned param, Type element, StringRef suffix) {
  Value sum = sums[param];
  if (sum && parts[param].empty() &&
      getElementTypeOrSelf(sum.getType()) == element)
    return sum;
  LaunchOperands operands;
  SmallVector<SumSource> sources;
  if (sum)
    sources.push_back({operands.read(sum), std::nullopt});
  for (const Part &part : parts[param]) {
    SumSource &source =
        sources.emplace_back(SumSource{operands.read(part.partials), {}});
    if (part.unlessTables)
      source.tableRange = operands.read(part.unlessTables);
  }
  Value tensor = getParam(param);
  Value result = lowering.allocateLike(
      tensor, cast<RankedTensorType>(tensor.getType()).clone(element),
      /*zero=*/sources.empty());
  if (sources.empty())
    return result;
  unsigned target = operands.write(result);
  auto count = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return countElements(kernel, arguments, operands.layout, target);
  };
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    return ItemSpace(kernel, {{count(kernel, arguments),
                               kernel.target.countPerItem(elementsPerItem)}});
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value) {
    Index elements = count(kernel, arguments);
    auto addSource = [&](const SumSource &source, Value sum, Index first,
                         Index lanes) {
      Type stored = arguments.getElementType(source.tensor);
      Index all =
          countElements(kernel, arguments, operands.layout, source.tensor);
      Index copies = kernel.div(all, elements);
      if (source.tableRange)
        copies = kernel.select(
            OffsetRange(kernel, arguments, *source.tableRange).emitHasTables(),
            0, copies);
      return sumLoaded(kernel, {{0, copies}}, sum, [&](ValueRange at) {
        Value from =
            kernel.advance(arguments.getPointer(source.tensor),
                           {kernel.mul(at[0], elements), first}, stored);
        return loadAddend(kernel, VectorType::get(kernel.width(), stored), from,
                          lanes);
      });
    };
    items.forEach([&](const Item &item) {
      Index last = item.end(0);
      kernel.loop(item[0], last, kernel.width(), [&](Value first) {
        Index lanes = kernel.min(kernel.width(), kernel.sub(last, first));
        Value sum = kernel.zero(kernel.vf64);
        for (const SumSource &source : sources)
          sum = addSource(source, sum, first, lanes);
        kernel.storePart(
            element.isF64() ? sum : kernel.narrow(sum),
            kernel.advance(arguments.getPointer(target), {first}, element),
            lanes);
      });
    });
  };
  operands.launch(lowering, (suffix + Twine(param)).str(),
                  {items, noScratch, run});
  return result;
}

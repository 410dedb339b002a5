//===- AllHeadsTable.cpp - Kernels of the tables of hoisted vectors -------===//
//
// A hoisted vector is a table over offsets with a row per element. All rows are
// computed together, a vector of columns at a time, by the emitter of all-heads
// payloads; products of cotangents and elements, whose sums are gradients of
// matrices, are kept per lane until the end.
//
//===----------------------------------------------------------------------===//

#include "codegen/Emit/ScratchLayout.h"
#include "codegen/Tables/AllHeadsPayload.h"
#include "codegen/Tables/OffsetRange.h"
#include "codegen/Tables/TablePoint.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Columns of one work item of a filling kernel.
static constexpr int64_t columnsPerItem = 256;

namespace {
class AllHeadsTablePoint : public TablePoint, public AllHeadsPoint {
public:
  using AllHeadsPoint::Values;

  AllHeadsTablePoint(KernelBuilder &kernel, ArgumentBlock &arguments,
                     const HoistLaunch &source, ScratchLayout &scratch,
                     Value memory)
      : TablePoint(kernel, arguments, source, kernel.builder.getF32Type()),
        source(source), scratch(scratch), memory(memory) {}

  KernelBuilder &getKernel() override { return kernel; }
  PayloadPoint &getScalarPoint() override { return *this; }
  void enterHead(int64_t head) override { setHeadIndex(head); }
  const AllHeadsWeights &getWeights() override { return *source.weights; }
  Value getPacked(int64_t place) override {
    return kernel.advance(arguments.getPointer(*layout.packed), {place});
  }
  Value getBuffer(Value value, int64_t elements) override {
    return getMemory(buffers, value, elements);
  }
  Values loadElements(pos::HoistOp hoist, Index first, int64_t count) override;
  void addToElements(pos::HoistOp hoist, Index first,
                     ValueRange cotangents) override;
  void addToElements(pos::ElementsOp param, Index first,
                     ValueRange cotangents) override;
  void recordResult(pos::ContractOp contract, Index first,
                    ValueRange cotangents) override;
  void recordOperand(pos::ContractOp contract, Index first,
                     ValueRange elements) override;

  /// Clears the sums of gradients, adds the products of the point to them, and
  /// adds them to the gradients of parameters.
  void clearSums();
  void addProducts();
  void storeSums();

private:
  /// Places in scratch memory by value.
  using Places = DenseMap<Value, int64_t>;

  Value getMemory(Places &places, Value key, int64_t elements) {
    auto [place, isNew] = places.try_emplace(key, 0);
    if (isNew)
      place->second = scratch.reserve(elements * kernel.width());
    return kernel.advance(memory, {place->second});
  }
  Value getSums(Operation *op);
  SmallVector<pos::ContractOp> getContracts();
  SmallVector<pos::ElementsOp> getVectors();
  void store(Value to, Index first, ValueRange values);
  void addLanes(BlockArgument param, ArrayRef<Index> indices, Value sums);

  const HoistLaunch &source;
  ScratchLayout &scratch;
  Value memory;
  Places buffers, results, operands, sums;
};
} // namespace

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

AllHeadsTablePoint::Values
AllHeadsTablePoint::loadElements(pos::HoistOp hoist, Index elementFirst,
                                 int64_t elementCount) {
  Values elements;
  unsigned table = layout.buffers.at(hoist);
  for (int64_t number = 0; number < elementCount; ++number) {
    Value from = arguments.getAddress(
        table, {0, kernel.add(elementFirst, number), first});
    elements.push_back(kernel.loadPart(kernel.vf32, from, count));
  }
  return elements;
}

void AllHeadsTablePoint::addToElements(pos::HoistOp hoist, Index elementFirst,
                                       ValueRange cotangents) {
  auto found = layout.gradients.find(hoist);
  if (found == layout.gradients.end())
    return;
  for (auto [number, cotangent] : llvm::enumerate(cotangents)) {
    Value to = arguments.getAddress(
        found->second, {0, kernel.add(elementFirst, number), first});
    Value old = kernel.loadPart(kernel.vf32, to, count);
    kernel.storePart(kernel.addF(old, cotangent), to, count);
  }
}

//===----------------------------------------------------------------------===//
// Gradients of parameters
//===----------------------------------------------------------------------===//

void AllHeadsTablePoint::store(Value to, Index elementFirst,
                               ValueRange values) {
  Value at = kernel.advance(to, {kernel.mul(elementFirst, kernel.width())});
  for (auto [number, value] : llvm::enumerate(values))
    kernel.storeVector(value, at,
                       {static_cast<int64_t>(number) * kernel.width()});
}

void AllHeadsTablePoint::recordResult(pos::ContractOp contract,
                                      Index elementFirst,
                                      ValueRange cotangents) {
  Value result = contract.getResult();
  store(getMemory(results, result, getVectorExtent(result)), elementFirst,
        cotangents);
}

void AllHeadsTablePoint::recordOperand(pos::ContractOp contract,
                                       Index elementFirst,
                                       ValueRange elements) {
  store(getMemory(operands, contract.getResult(),
                  getVectorExtent(contract.getVector())),
        elementFirst, elements);
}

SmallVector<pos::ContractOp> AllHeadsTablePoint::getContracts() {
  SmallVector<pos::ContractOp> wanted;
  source.entry.op->walk([&](pos::ContractOp op) {
    if (wantsGradient(cast<BlockArgument>(op.getMatrix())))
      wanted.push_back(op);
  });
  return wanted;
}

SmallVector<pos::ElementsOp> AllHeadsTablePoint::getVectors() {
  SmallVector<pos::ElementsOp> wanted;
  source.entry.op->walk([&](pos::ElementsOp op) {
    if (wantsGradient(cast<BlockArgument>(op.getParam())))
      wanted.push_back(op);
  });
  return wanted;
}

/// Vectors of lanes per element of the gradient that belongs to an op.
Value AllHeadsTablePoint::getSums(Operation *op) {
  int64_t elements = getVectorExtent(op->getResult(0));
  if (auto contract = dyn_cast<pos::ContractOp>(op))
    elements *= getVectorExtent(contract.getVector());
  return getMemory(sums, op->getResult(0), elements);
}

void AllHeadsTablePoint::addToElements(pos::ElementsOp param,
                                       Index elementFirst,
                                       ValueRange cotangents) {
  Value to = kernel.advance(getSums(param),
                            {kernel.mul(elementFirst, kernel.width())});
  for (auto [number, cotangent] : llvm::enumerate(cotangents)) {
    int64_t place = static_cast<int64_t>(number) * kernel.width();
    kernel.storeVector(kernel.addF(kernel.loadVector(to, {place}), cotangent),
                       to, {place});
  }
}

void AllHeadsTablePoint::clearSums() {
  auto clear = [&](Operation *op, int64_t elements) {
    Value to = getSums(op);
    kernel.loop(0, elements, 1, [&](Value element) {
      kernel.storeVector(kernel.splatF32(0), to,
                         {kernel.mul(element, kernel.width())});
    });
  };
  for (pos::ContractOp op : getContracts())
    clear(op,
          getVectorExtent(op.getResult()) * getVectorExtent(op.getVector()));
  for (pos::ElementsOp op : getVectors())
    clear(op, getVectorExtent(op.getResult()));
}

void AllHeadsTablePoint::addProducts() {
  int64_t width = kernel.width();
  for (pos::ContractOp op : getContracts()) {
    int64_t rows = getVectorExtent(op.getResult());
    int64_t columns = getVectorExtent(op.getVector());
    Value result = getMemory(results, op.getResult(), rows);
    Value operand = getMemory(operands, op.getResult(), columns);
    Value to = getSums(op);
    kernel.loop(0, rows, 1, [&](Value row) {
      Value x = kernel.loadVector(result, {kernel.mul(row, width)});
      Value at = kernel.advance(to, {kernel.mul(row, columns * width)});
      kernel.loop(0, columns, 1, [&](Value column) {
        Index place = kernel.mul(column, width);
        Value y = kernel.loadVector(operand, {place});
        kernel.storeVector(kernel.fma(x, y, kernel.loadVector(at, {place})), at,
                           {place});
      });
    });
  }
}

void AllHeadsTablePoint::addLanes(BlockArgument param, ArrayRef<Index> indices,
                                  Value lanes) {
  unsigned tensor = layout.point.paramGradients.at(param.getArgNumber());
  Type type = arguments.getElementType(tensor);
  SmallVector<Index> all(indices);
  if (layout.point.ofRanges.contains(param.getArgNumber()))
    all.insert(all.begin(), kernel.fromI32(range));
  Value to = arguments.getAddress(tensor, all);
  Value old = convert(kernel.load(type, to), kernel.builder.getF64Type());
  Value sum = convert(kernel.sumLanes(lanes), kernel.builder.getF64Type());
  kernel.store(
      convert(arith::AddFOp::create(kernel.builder, kernel.loc, old, sum),
              type),
      to);
}

void AllHeadsTablePoint::storeSums() {
  int64_t width = kernel.width();
  for (pos::ContractOp op : getContracts()) {
    int64_t columns = getVectorExtent(op.getVector());
    int64_t first = getFirstColumn(op);
    kernel.loop(0, getVectorExtent(op.getResult()), 1, [&](Value row) {
      kernel.loop(0, columns, 1, [&](Value column) {
        Index place = kernel.add(kernel.mul(row, columns), column);
        addLanes(cast<BlockArgument>(op.getMatrix()),
                 {row, kernel.add(column, first)},
                 kernel.loadVector(getSums(op), {kernel.mul(place, width)}));
      });
    });
  }
  for (pos::ElementsOp op : getVectors())
    kernel.loop(0, getVectorExtent(op.getResult()), 1, [&](Value element) {
      addLanes(cast<BlockArgument>(op.getParam()), {element},
               kernel.loadVector(getSums(op), {kernel.mul(element, width)}));
    });
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

void codegen::createVectorFill(const HoistLaunch &source, StringRef suffix) {
  const HoistLayout &layout = source.layout;
  ScratchLayout layoutOfScratch;
  auto items = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return ItemSpace(k, {{arguments.getSize(layout.table, 2), columnsPerItem}});
  };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, const Items &items,
                 Value memory) {
    AllHeadsTablePoint point(k, arguments, source, layoutOfScratch, memory);
    Index columns = arguments.getSize(layout.table, 2);
    if (layout.range)
      columns = k.select(
          OffsetRange(k, arguments, *layout.range).emitHasTables(), columns, 0);
    Block &body = pos::HoistOp(source.entry.op).getBody().front();
    auto fill = [&](Index first) {
      Index count = k.min(k.width(), k.sub(columns, first));
      point.moveTo(0, 0, 0, first, count);
      AllHeadsEmitter emitter(k.builder, point, /*keepsUnits=*/false);
      Value yielded = body.getTerminator()->getOperand(0);
      emitter.emit(body, {});
      auto store = [&](Index element, ValueRange values) {
        for (auto [number, value] : llvm::enumerate(values))
          k.storePart(value,
                      arguments.getAddress(layout.table,
                                           {0, k.add(element, number), first}),
                      count);
      };
      int64_t extent = getVectorExtent(yielded);
      if (!emitter.isStreamed(yielded))
        return store(0, emitter.getAll(yielded));
      emitter.forGroups(extent, {}, [&](Index element, ValueRange) {
        store(element, emitter.getElements(yielded, element, getGroup(extent)));
        return KernelBuilder::Values();
      });
    };
    items.forEach([&](const Item &item) {
      Index high = k.min(k.add(item[0], columnsPerItem), columns);
      k.loop(item[0], high, k.width(), [&](Value first) { fill(first); });
    });
  };
  // Called after `run`, which hands the memory out.
  auto bytes = [&](KernelBuilder &, ArgumentBlock &) {
    return Index(layoutOfScratch.getBytes());
  };
  source.create(suffix, {items, bytes, run});
}

void codegen::createVectorPullback(const HoistLaunch &source,
                                   StringRef suffix) {
  const HoistLayout &layout = source.layout;
  ScratchLayout layoutOfScratch;
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, const Items &items,
                 Value memory) {
    AllHeadsTablePoint point(k, arguments, source, layoutOfScratch, memory);
    auto [low, high] = source.getColumnsInUse(
        k, arguments, arguments.getSize(layout.table, 2));
    KernelBuilder::Range inUse{low, high};
    Block &body = pos::HoistOp(source.entry.op).getBody().front();
    auto pull = [&](Index first, Index end) {
      Index count = k.min(k.width(), k.sub(end, first));
      point.moveTo(0, 0, 0, first, count);
      auto cotangents = [&](Index element, int64_t elements) {
        KernelBuilder::Values values;
        for (int64_t number = 0; number < elements; ++number)
          values.push_back(
              k.loadPart(k.vf32,
                         arguments.getAddress(
                             layout.table, {0, k.add(element, number), first}),
                         count));
        return values;
      };
      auto nothing = [](AllHeadsEmitter &) {};
      emitAllHeadsPullback(k.builder, body, {}, nothing, cotangents, point);
      point.addProducts();
    };
    items.forEach([&](const Item &item) {
      KernelBuilder::Range columns =
          source.getColumns(k, item[0], source.countRanges(arguments), inUse);
      point.setRange(item[0]);
      point.clearSums();
      k.loop(columns.low, columns.high, k.width(),
             [&](Value first) { pull(first, columns.high); });
      point.storeSums();
    });
  };
  auto bytes = [&](KernelBuilder &, ArgumentBlock &) {
    return Index(layoutOfScratch.getBytes());
  };
  auto items = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return ItemSpace(k, {source.countRanges(arguments)});
  };
  source.create(suffix, {items, bytes, run});
}

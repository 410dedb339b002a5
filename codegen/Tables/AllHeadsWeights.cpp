//===- AllHeadsWeights.cpp - Packed parameters of all-heads payloads ------===//

#include "codegen/Tables/AllHeadsWeights.h"
#include "codegen/Tables/ArgumentPoint.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

int64_t codegen::getVectorExtent(Value vector) {
  auto type = cast<RankedTensorType>(vector.getType());
  assert(type.hasStaticShape() && "inlining makes extents static");
  return type.getDimSize(0);
}

int64_t codegen::countRowsOfPoint(const Hoisted &hoisted, int64_t heads) {
  if (hoisted.extent)
    return hoisted.extent;
  return hoisted.perHead ? heads : 1;
}

int64_t codegen::getGroup(int64_t extent) {
  for (int64_t group : {4, 3, 2})
    if (extent % group == 0)
      return group;
  return extent <= 8 ? std::max<int64_t>(extent, 1) : 1;
}

int64_t codegen::getFirstColumn(pos::ContractOp op) {
  if (!op.getFirstColumn())
    return 0;
  APInt first;
  bool isConstant = matchPattern(op.getFirstColumn(), m_ConstantInt(&first));
  assert(isConstant && "inlining makes first columns constant");
  return isConstant ? first.getSExtValue() : 0;
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

int64_t AllHeadsWeights::reserve(int64_t elements) {
  int64_t place = size;
  size += llvm::alignTo(elements, 16);
  return place;
}

AllHeadsWeights::AllHeadsWeights(const KernelPlan &plan, int64_t heads)
    : heads(heads) {
  auto collect = [&](Operation *owner) {
    owner->walk([&](Operation *op) {
      if (auto contract = dyn_cast<pos::ContractOp>(op)) {
        Value result = contract.getResult(), operand = contract.getVector();
        int64_t rows = getVectorExtent(result),
                columns = getVectorExtent(operand);
        Contraction entry{contract, {}, {}};
        // What is not streamed is in registers, so a product of two vectors in
        // registers streams its results by way of memory.
        entry.forward = {reserve(rows * columns), rows, columns,
                         isStreamed(result) || !isStreamed(operand)};
        entry.pullback = {reserve(rows * columns), columns, rows,
                          isStreamed(operand) || !isStreamed(result)};
        contractions.push_back(entry);
      }
      if (auto elements = dyn_cast<pos::ElementsOp>(op))
        vectors.emplace_back(elements,
                             reserve(getVectorExtent(elements.getResult())));
    });
  };
  for (const Hoisted &hoisted : plan.hoisted)
    if (hoisted.extent)
      collect(hoisted.op);
  collect(plan.score);
}

const PackedMatrix &AllHeadsWeights::getForward(pos::ContractOp op) const {
  auto *entry =
      llvm::find_if(contractions, [&](auto &e) { return e.op == op; });
  assert(entry != contractions.end() && "every contraction is packed");
  return entry->forward;
}

const PackedMatrix &AllHeadsWeights::getPullback(pos::ContractOp op) const {
  auto *entry =
      llvm::find_if(contractions, [&](auto &e) { return e.op == op; });
  assert(entry != contractions.end() && "every contraction is packed");
  return entry->pullback;
}

int64_t AllHeadsWeights::getPlace(pos::ElementsOp op) const {
  auto *entry = llvm::find_if(vectors, [&](auto &e) { return e.first == op; });
  assert(entry != vectors.end() && "every parameter is packed");
  return entry->second;
}

//===----------------------------------------------------------------------===//
// Launch
//===----------------------------------------------------------------------===//

/// Copies the elements of a matrix; `load(row, column)` gives one.
static void pack(KernelBuilder &k, const PackedMatrix &matrix,
                 function_ref<Value(Index, Index)> load, Value buffer) {
  Value to = k.advance(buffer, {matrix.place});
  int64_t group = matrix.streamsResults ? getGroup(matrix.rows) : 1;
  k.loop(0, matrix.rows, 1, [&](Value row) {
    k.loop(0, matrix.columns, 1, [&](Value column) {
      Index place = 0;
      if (matrix.streamsResults) {
        Index inGroup = k.rem(row, group);
        place = k.mul(k.sub(row, inGroup), matrix.columns);
        place = k.add(place, k.add(k.mul(column, group), inGroup));
      } else {
        place = k.add(k.mul(column, matrix.rows), row);
      }
      k.store(load(row, column), k.advance(to, {place}));
    });
  });
}

Value AllHeadsWeights::launch(const Lowering &lowering) const {
  pos::SitesOwnerInterface owner = lowering.plan.owner;
  LaunchOperands operands;
  DenseMap<unsigned, unsigned> numbers;
  auto read = [&](Value param) {
    unsigned number = cast<BlockArgument>(param).getArgNumber();
    if (!numbers.contains(number))
      numbers[number] = operands.read(owner.getParamOperands()[number]);
  };
  for (const Contraction &entry : contractions)
    read(pos::ContractOp(entry.op).getMatrix());
  for (const auto &[op, place] : vectors)
    read(pos::ElementsOp(op).getParam());
  auto type = RankedTensorType::get({size}, lowering.builder.getF32Type());
  Value buffer = lowering.allocate(type, {});
  unsigned target = operands.write(buffer);

  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, const Items &items,
                 Value) {
    auto element = [&](Value param, ArrayRef<Index> indices) {
      unsigned tensor =
          numbers.lookup(cast<BlockArgument>(param).getArgNumber());
      Type stored = arguments.getElementType(tensor);
      Value value = k.load(stored, arguments.getAddress(tensor, indices));
      return stored.isF64()
                 ? arith::TruncFOp::create(k.builder, k.loc, k.f32, value)
                       .getResult()
                 : value;
    };
    items.forEach([&](const Item &) {
      Value to = arguments.getPointer(target);
      for (const Contraction &entry : contractions) {
        pos::ContractOp op = entry.op;
        int64_t first = getFirstColumn(op);
        pack(
            k, entry.forward,
            [&](Index row, Index column) {
              return element(op.getMatrix(), {row, k.add(column, first)});
            },
            to);
        pack(
            k, entry.pullback,
            [&](Index row, Index column) {
              return element(op.getMatrix(), {column, k.add(row, first)});
            },
            to);
      }
      for (const auto &[op, place] : vectors) {
        pos::ElementsOp elements = op;
        int64_t at = place;
        k.loop(0, getVectorExtent(elements.getResult()), 1, [&](Value number) {
          k.store(element(elements.getParam(), {number}),
                  k.advance(to, {number, at}));
        });
      }
    });
  };
  operands.launch(lowering, "weights", {oneItem, noScratch, run});
  return buffer;
}

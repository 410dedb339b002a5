//===- TurnRows.cpp - Rows times exponentials, ahead of a kernel ----------===//

#include "codegen/Tables/TurnRows.h"
#include "codegen/Tables/PositionBounds.h"
#include "codegen/Tables/TurnEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using pos::RowOperand;

/// Rows of a range at least, each with sums of its own of the parameters'
/// gradients.
static constexpr int64_t leastRows = 16;

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

static bool reads(pos::TurnRowsOp op, unsigned param) {
  WalkResult result = op.walk([&](pos::ReadOp read) {
    auto tensor = dyn_cast<BlockArgument>(read.getTensor());
    return tensor && tensor.getArgNumber() == param ? WalkResult::interrupt()
                                                    : WalkResult::advance();
  });
  return result.wasInterrupted();
}

/// Adds what the payload of a turn reads.
static PointLayout addReads(const Lowering &lowering, const RowTurn &turn,
                            LaunchOperands &operands) {
  PointLayout layout =
      addPointOperands(lowering, operands,
                       [&](unsigned param) { return reads(turn.op, param); });
  bool asksBounds = false;
  pos::TurnRowsOp op = turn.op;
  op.walk([&](pos::BoundOp) { asksBounds = true; });
  if (asksBounds)
    if (Value bounds = launchBounds(lowering))
      layout.bounds = operands.read(bounds);
  return layout;
}

static OpOperand &getRows(Operation *op, RowOperand operand) {
  bool isKey = operand == RowOperand::key;
  if (auto attention = dyn_cast<pos::AttentionOp>(op))
    return isKey ? attention.getKeyMutable() : attention.getQueryMutable();
  auto attention = cast<pos::AttentionBackwardOp>(op);
  return isKey ? attention.getKeyMutable() : attention.getQueryMutable();
}

/// Asks for gradients of turned rows in f32, whatever the rows are: those of a
/// generator are sums of them times positions, over queries and over keys, that
/// nearly cancel, and rounding the one and the other would be all that is left.
static void widenGradient(Operation *op, RowOperand operand) {
  auto attention = dyn_cast<pos::AttentionBackwardOp>(op);
  if (!attention)
    return;
  Value gradient = operand == RowOperand::key ? attention.getKeyGradient()
                                              : attention.getQueryGradient();
  auto type = cast<RankedTensorType>(gradient.getType());
  if (type.getElementTypeBitWidth() == 16)
    gradient.setType(type.clone(Float32Type::get(op->getContext())));
}

/// Where the gradient of an operand's rows stands among results.
static size_t getPlace(RowOperand operand) {
  return operand == RowOperand::key ? 1 : 0;
}

static std::string getSuffix(size_t number, StringRef what = "") {
  return ("turn" + Twine(number) + what).str();
}

/// Multiplies the block of all rows of tensors, as the operands of the turn,
/// with a matrix. `rows` and `products` have room for a chunk.
static void multiplyRows(TurnEmitter &emitter, ArrayRef<unsigned> from,
                         ArrayRef<unsigned> to, Index block, Value power,
                         Value rows, Value products) {
  for (size_t operand = 0; operand < from.size(); ++operand)
    emitter.forEachChunk(operand, [&](Index first, Index count) {
      emitter.loadBlocks(from[operand], operand, first, count, block, rows);
      emitter.matrix.multiplyRows(rows, count, power, products);
      emitter.storeBlocks(products, to[operand], operand, first, count, block);
    });
}

/// Runs `body` for every block of the matrix at a place, and copies the lanes
/// that fill none.
static void forEachBlock(TurnEmitter &emitter, Index batch, Index head,
                         Index row, ArrayRef<unsigned> from,
                         ArrayRef<unsigned> to,
                         function_ref<void(Value block)> body) {
  emitter.forEachMatrix(batch, head, row, [&] {
    emitter.k.loop(0, emitter.turn.blocks, 1, body);
    for (size_t operand = 0; operand < from.size(); ++operand)
      emitter.copyRest(from[operand], to[operand], operand);
  });
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

void TurnedRows::launchTurn(size_t number, ValueRange outputs) {
  const RowTurn &turn = lowering.plan.turns[number];
  LaunchOperands operands;
  PointLayout layout = addReads(lowering, turn, operands);
  SmallVector<unsigned, 2> sources, targets;
  for (Value input : inputs[number])
    sources.push_back(operands.read(input));
  for (Value output : outputs)
    targets.push_back(operands.write(output));
  auto items = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    TurnEmitter emitter(lowering, turn, k, arguments, layout, sources, Value());
    return ItemSpace(
        k, {emitter.countBatches(), emitter.countHeads(), emitter.countRows()});
  };
  auto scratchBytes = [&](KernelBuilder &k, ArgumentBlock &) {
    return Index(
        TurnEmitter::getScratchBytes(k, turn, MatrixExponential::workMatrices));
  };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, const Items &items,
                 Value scratch) {
    TurnEmitter emitter(lowering, turn, k, arguments, layout, sources, scratch);
    SmallVector<Value> work =
        emitter.takeMatrices(MatrixExponential::workMatrices);
    Value rows = emitter.takeChunk(), turned = emitter.takeChunk();
    auto turnBlock = [&](Value block) {
      // A row times the transpose is the matrix times the row.
      emitter.fill(work.front(), block, /*isTransposed=*/true);
      Value power = emitter.matrix.exponential(work);
      multiplyRows(emitter, sources, targets, block, power, rows, turned);
    };
    items.forEach([&](const Item &item) {
      forEachBlock(emitter, item[0], item[1], item[2], sources, targets,
                   turnBlock);
    });
  };
  std::string suffix = getSuffix(number);
  operands.launch(lowering, suffix, {items, scratchBytes, run});
}

void TurnedRows::apply() {
  for (auto [number, turn] : llvm::enumerate(lowering.plan.turns)) {
    SmallVector<Value, 2> outputs;
    inputs.emplace_back();
    for (RowOperand operand : turn.operands) {
      Value input = getRows(lowering.getOp(), operand).get();
      inputs.back().push_back(input);
      outputs.push_back(lowering.allocateLike(input, input.getType()));
    }
    launchTurn(number, outputs);
    for (auto [operand, output] : llvm::zip_equal(turn.operands, outputs)) {
      getRows(lowering.getOp(), operand).set(output);
      widenGradient(lowering.getOp(), operand);
    }
  }
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

/// The rows of the longer operand of a turn, at least.
Value TurnedRows::countRows(size_t number) const {
  Value rows;
  for (Value input : inputs[number]) {
    Value own = lowering.getDim(input, 2);
    rows = rows ? arith::MaxSIOp::create(lowering.builder, lowering.getLoc(),
                                         rows, own)
                      .getResult()
                : own;
  }
  return rows;
}

/// Gradients have the type of their rows again once no turn is left.
Value TurnedRows::allocatePulled(size_t number, size_t operand,
                                 Value gradient) {
  RowOperand rows = lowering.plan.turns[number].operands[operand];
  auto before = ArrayRef(lowering.plan.turns).take_front(number);
  bool isFirst = llvm::none_of(before, [&](const RowTurn &earlier) {
    return llvm::is_contained(earlier.operands, rows);
  });
  Value input = inputs[number][operand];
  return lowering.allocateLike(input,
                               isFirst ? input.getType() : gradient.getType());
}

/// Adds the sums of ranges of the parameters that a turn reads; gives the
/// scalar operand that counts ranges.
unsigned TurnedRows::addSums(size_t number, PointLayout &layout,
                             LaunchOperands &operands) {
  const RowTurn &turn = lowering.plan.turns[number];
  SmallVector<unsigned> trained;
  for (unsigned param = 0; param < lowering.plan.paramWantsGradient.size();
       ++param)
    if (params.isWanted(param) && reads(turn.op, param))
      trained.push_back(param);
  Value ranges = params.countRanges(countRows(number), leastRows, trained);
  for (unsigned param : trained) {
    layout.paramGradients[param] =
        operands.write(params.addRanges(param, ranges));
    layout.ofRanges.insert(param);
  }
  return operands.scalar(ranges);
}

void TurnedRows::launchPullback(size_t number,
                                MutableArrayRef<Value> rowGradients) {
  const RowTurn &turn = lowering.plan.turns[number];
  LaunchOperands operands;
  PointLayout layout = addReads(lowering, turn, operands);
  SmallVector<unsigned, 2> sources, incoming, targets;
  for (auto [operand, input] : llvm::zip_equal(turn.operands, inputs[number])) {
    sources.push_back(operands.read(input));
    incoming.push_back(operands.read(rowGradients[getPlace(operand)]));
  }
  for (auto [place, operand] : llvm::enumerate(turn.operands)) {
    Value &gradient = rowGradients[getPlace(operand)];
    gradient = allocatePulled(number, place, gradient);
    targets.push_back(operands.write(gradient));
  }
  unsigned rangeCount = addSums(number, layout, operands);
  bool isTrained = !layout.paramGradients.empty();
  auto items = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return ItemSpace(k, {arguments.getScalar(rangeCount)});
  };
  constexpr int64_t workMatrices = MatrixExponential::workMatrices;
  auto scratchBytes = [&](KernelBuilder &k, ArgumentBlock &) {
    return Index(TurnEmitter::getScratchBytes(
        k, turn, isTrained ? 2 * workMatrices : workMatrices));
  };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, const Items &items,
                 Value scratch) {
    TurnEmitter emitter(lowering, turn, k, arguments, layout, sources, scratch);
    MatrixExponential &matrix = emitter.matrix;
    SmallVector<Value> work = emitter.takeMatrices(workMatrices), directions;
    if (isTrained)
      directions = emitter.takeMatrices(workMatrices);
    Value rows = emitter.takeChunk(), others = emitter.takeChunk();
    // exp(A) has the gradient sum dy x^T; the derivative of exp at A in the
    // transposed direction is the transposed gradient of A.
    auto addDirection = [&](size_t operand, Index block) {
      emitter.forEachChunk(operand, [&](Index first, Index count) {
        emitter.loadBlocks(sources[operand], operand, first, count, block,
                           rows);
        emitter.loadBlocks(incoming[operand], operand, first, count, block,
                           others);
        matrix.addOuterProducts(rows, others, count, directions.front());
      });
    };
    auto pullBlock = [&](Value block) {
      emitter.fill(work.front(), block, /*isTransposed=*/false);
      Value power;
      if (isTrained) {
        matrix.clear(directions.front(), turn.size);
        for (size_t operand = 0; operand < sources.size(); ++operand)
          addDirection(operand, block);
        auto [result, derivative] = matrix.exponential(work, directions);
        emitter.pullMatrix(derivative, block);
        power = result;
      } else {
        power = matrix.exponential(work);
      }
      // The gradient as a row times the matrix.
      multiplyRows(emitter, incoming, targets, block, power, others, rows);
    };
    items.forEach([&](const Item &item) {
      auto begin = [&](Index number) {
        return getRangeBegin(k, number, arguments.getScalar(rangeCount),
                             emitter.countRows(), 1);
      };
      Index first = begin(item[0]), last = begin(k.add(item[0], 1));
      emitter.point.setRange(item[0]);
      k.nest({{0, emitter.countBatches()},
              {0, emitter.countHeads()},
              {first, last}},
             [&](ValueRange at) {
               forEachBlock(emitter, at[0], at[1], at[2], incoming, targets,
                            pullBlock);
             });
    });
  };
  std::string suffix = getSuffix(number, "_pullback");
  operands.launch(lowering, suffix, {items, scratchBytes, run});
}

void TurnedRows::pullBack(MutableArrayRef<Value> results) {
  auto op = dyn_cast<pos::AttentionBackwardOp>(lowering.getOp());
  if (!op || inputs.empty())
    return;
  for (size_t number = inputs.size(); number-- > 0;)
    launchPullback(number, results);
  // Gradients of parameters stand behind those of query, key and values.
  size_t first = results.size() - op.getParamGradients().size();
  for (auto [place, param] : llvm::enumerate(op.getParamGradients())) {
    Value &result = results[first + place];
    // What the kernel of the attention has added already comes first.
    params.setSum(param, result);
    result = params.finish(param, getElementTypeOrSelf(result.getType()),
                           "turn_sum");
  }
}

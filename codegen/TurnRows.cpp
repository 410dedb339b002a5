//===- TurnRows.cpp - Rows times exponentials, ahead of a kernel ----------===//

#include "codegen/TurnRows.h"
#include "codegen/PositionBounds.h"
#include "codegen/TurnEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using pos::RowOperand;

/// Ranges of rows, each with gradients of the parameters of its own; elements
/// of a parameter that an item adds up. Numbers of the kernel: sums do not
/// depend on the number of threads.
static constexpr int64_t numRanges = 16, elementsPerItem = 256;

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
  if (type.getElementType().isBF16())
    gradient.setType(type.clone(Float32Type::get(op->getContext())));
}

static std::string getSuffix(size_t number, StringRef what = "") {
  return ("turn" + Twine(number) + what).str();
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

LogicalResult TurnedRows::launchTurn(size_t number, Value input, Value output) {
  const RowTurn &turn = lowering.plan.turns[number];
  LaunchOperands operands;
  PointLayout layout = addReads(lowering, turn, operands);
  unsigned source = operands.read(input);
  unsigned target = operands.write(output);
  bool failed = false;
  auto items = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    TurnEmitter emitter(lowering, turn, k, arguments, layout, source, Value());
    return k.mul(k.mul(emitter.countBatches(), emitter.countHeads()),
                 arguments.getSize(source, 2));
  };
  auto scratchBytes = [&](KernelBuilder &k, ArgumentBlock &) {
    return Index(TurnEmitter::getScratchBytes(k, turn, 3));
  };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, Index begin,
                 Index end, Value scratch) {
    TurnEmitter emitter(lowering, turn, k, arguments, layout, source, scratch);
    MatrixExponential &matrix = emitter.matrix;
    Value generator = emitter.takeMatrix(), power = emitter.takeMatrix();
    Value work = emitter.takeMatrix();
    Value row = emitter.takeRow(), result = emitter.takeRow();
    k.loop(begin, end, 1, [&](Value item) {
      Index length = arguments.getSize(source, 2);
      Index outer = k.div(item, length), at = k.rem(item, length);
      Index heads = emitter.countHeads();
      Index batch = k.div(outer, heads), head = k.rem(outer, heads);
      emitter.point.moveTo(batch, head, at);
      k.loop(0, turn.blocks, 1, [&](Value block) {
        // A row times the transpose is the matrix times the row.
        emitter.fill(generator, block, /*isTransposed=*/true);
        matrix.exponential(generator, power, work);
        emitter.loopOverRows(batch, head, [&](Index b, Index h) {
          emitter.loadBlock(source, {b, h, at}, block, row);
          matrix.multiplyRow(row, power, result);
          emitter.storeBlock(result, target, {b, h, at}, block);
        });
      });
      emitter.loopOverRows(batch, head, [&](Index b, Index h) {
        emitter.copyRest(source, target, {b, h, at});
      });
    });
    failed = emitter.failed;
  };
  std::string suffix = getSuffix(number);
  operands.launch(lowering, suffix, {items, scratchBytes, run});
  return failure(failed);
}

LogicalResult TurnedRows::apply() {
  for (auto [number, turn] : llvm::enumerate(lowering.plan.turns)) {
    OpOperand &rows = getRows(lowering.getOp(), turn.operand);
    Value input = rows.get();
    Value output = lowering.allocateLike(input, input.getType());
    if (failed(launchTurn(number, input, output)))
      return failure();
    inputs.push_back(input);
    rows.set(output);
    widenGradient(lowering.getOp(), turn.operand);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

/// The type [ranges, sizes] of a parameter's sums.
static RankedTensorType getPartialType(RankedTensorType param) {
  SmallVector<int64_t> shape{numRanges};
  llvm::append_range(shape, param.getShape());
  return RankedTensorType::get(shape, Float64Type::get(param.getContext()));
}

void TurnedRows::allocatePartials() {
  pos::SitesOwnerInterface owner = lowering.plan.owner;
  for (auto [number, param] : llvm::enumerate(owner.getParamOperands())) {
    bool isRead = llvm::any_of(lowering.plan.turns,
                               [&, number = number](const RowTurn &turn) {
                                 return reads(turn.op, number);
                               });
    partials.emplace_back();
    if (!isRead || !lowering.plan.paramWantsGradient[number])
      continue;
    auto type = cast<RankedTensorType>(param.getType());
    SmallVector<Value> sizes{Value()};
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      sizes.push_back(lowering.getDim(param, dim));
    partials.back() =
        lowering.allocate(getPartialType(type), sizes, /*zero=*/true);
  }
}

FailureOr<Value> TurnedRows::launchPullback(size_t number, Value gradient) {
  const RowTurn &turn = lowering.plan.turns[number];
  LaunchOperands operands;
  PointLayout layout = addReads(lowering, turn, operands);
  unsigned source = operands.read(inputs[number]);
  unsigned incoming = operands.read(gradient);
  auto before = ArrayRef(lowering.plan.turns).take_front(number);
  bool isFirst = llvm::none_of(before, [&](const RowTurn &earlier) {
    return earlier.operand == turn.operand;
  });
  Value result = lowering.allocateLike(
      inputs[number],
      isFirst ? inputs[number].getType() : gradient.getType());
  unsigned target = operands.write(result);
  for (auto [param, sums] : llvm::enumerate(partials))
    if (sums && reads(turn.op, param))
      layout.paramGradients[param] = operands.write(sums);
  bool isTrained = !layout.paramGradients.empty();
  bool failed = false;
  auto items = [&](KernelBuilder &, ArgumentBlock &) {
    return Index(numRanges);
  };
  auto scratchBytes = [&](KernelBuilder &k, ArgumentBlock &) {
    return Index(TurnEmitter::getScratchBytes(k, turn, isTrained ? 6 : 3));
  };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, Index begin,
                 Index end, Value scratch) {
    TurnEmitter emitter(lowering, turn, k, arguments, layout, source, scratch);
    MatrixExponential &matrix = emitter.matrix;
    Value generator = emitter.takeMatrix(), power = emitter.takeMatrix();
    Value work = emitter.takeMatrix();
    MatrixExponential::Derivative derivative;
    if (isTrained)
      derivative = {emitter.takeMatrix(), emitter.takeMatrix(),
                    emitter.takeMatrix()};
    Value row = emitter.takeRow(), other = emitter.takeRow();
    auto pullBlock = [&](Index batch, Index head, Index at, Index block) {
      emitter.fill(generator, block, /*isTransposed=*/false);
      if (isTrained) {
        // exp(A) has the gradient sum dy x^T; the derivative of exp at A in
        // the transposed direction is the transposed gradient of A.
        matrix.clear(derivative.direction, matrix.getElements());
        emitter.loopOverRows(batch, head, [&](Index b, Index h) {
          emitter.loadBlock(source, {b, h, at}, block, row);
          emitter.loadBlock(incoming, {b, h, at}, block, other);
          k.loop(0, turn.size, 1, [&](Value lane) {
            Index start = k.mul(lane, matrix.getStride());
            matrix.addRow(matrix.load(row, 0, lane), other,
                          k.advance(derivative.direction, {start},
                                    k.builder.getF64Type()));
          });
        });
        matrix.exponential(generator, power, work, derivative);
        emitter.pullMatrix(derivative.result, block);
      } else {
        matrix.exponential(generator, power, work);
      }
      // The gradient as a row times the matrix.
      emitter.loopOverRows(batch, head, [&](Index b, Index h) {
        emitter.loadBlock(incoming, {b, h, at}, block, other);
        matrix.multiplyRow(other, power, row);
        emitter.storeBlock(row, target, {b, h, at}, block);
      });
    };
    k.loop(begin, end, 1, [&](Value range) {
      Index length = arguments.getSize(source, 2);
      Index perRange = k.ceilDiv(length, numRanges);
      Index first = k.min(k.mul(range, perRange), length);
      Index last = k.min(k.add(first, perRange), length);
      emitter.point.setRange(range);
      k.loop(0, emitter.countBatches(), 1, [&](Value batch) {
        k.loop(0, emitter.countHeads(), 1, [&](Value head) {
          k.loop(first, last, 1, [&](Value at) {
            emitter.point.moveTo(batch, head, at);
            k.loop(0, turn.blocks, 1,
                   [&](Value block) { pullBlock(batch, head, at, block); });
            emitter.loopOverRows(batch, head, [&](Index b, Index h) {
              emitter.copyRest(incoming, target, {b, h, at});
            });
          });
        });
      });
    });
    failed = emitter.failed;
  };
  std::string suffix = getSuffix(number, "_pullback");
  operands.launch(lowering, suffix, {items, scratchBytes, run});
  if (failed)
    return failure();
  return result;
}

void TurnedRows::launchSum(unsigned param, Value result) {
  LaunchOperands operands;
  unsigned sums = operands.read(partials[param]);
  unsigned target = operands.write(result);
  unsigned rank = cast<RankedTensorType>(result.getType()).getRank();
  auto countElements = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    Index count = 1;
    for (unsigned dim = 0; dim < rank; ++dim)
      count = k.mul(count, arguments.getSize(target, dim));
    return count;
  };
  auto items = [&](KernelBuilder &k, ArgumentBlock &arguments) {
    return k.ceilDiv(countElements(k, arguments), elementsPerItem);
  };
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, Index begin,
                 Index end, Value) {
    Type f64 = k.builder.getF64Type(),
         stored = arguments.getElementType(target);
    Index count = countElements(k, arguments);
    Index last = k.min(k.mul(end, elementsPerItem), count);
    k.loop(k.mul(begin, elementsPerItem), last, 1, [&](Value element) {
      // What the kernel of the attention has added already comes first.
      Value address =
          k.advance(arguments.getPointer(target), {element}, stored);
      Value old = k.load(stored, address);
      if (stored != f64)
        old = arith::ExtFOp::create(k.builder, k.loc, f64, old);
      Value sum =
          k.loop(0, numRanges, 1, {old},
                 [&](Value range, ValueRange sum) -> KernelBuilder::Values {
                   Value part = k.load(
                       f64, k.advance(arguments.getPointer(sums),
                                      {k.mul(range, count), element}, f64));
                   return {k.addF(sum[0], part)};
                 })[0];
      if (stored != f64)
        sum = arith::TruncFOp::create(k.builder, k.loc, stored, sum);
      k.store(sum, address);
    });
  };
  std::string suffix = ("turn_sum" + Twine(param)).str();
  operands.launch(lowering, suffix, {items, noScratch, run});
}

LogicalResult TurnedRows::pullBack(MutableArrayRef<Value> results) {
  auto op = dyn_cast<pos::AttentionBackwardOp>(lowering.getOp());
  if (!op || inputs.empty())
    return success();
  allocatePartials();
  for (size_t number = inputs.size(); number-- > 0;) {
    bool isKey = lowering.plan.turns[number].operand == RowOperand::key;
    Value &gradient = results[isKey ? 1 : 0];
    FailureOr<Value> pulled = launchPullback(number, gradient);
    if (failed(pulled))
      return failure();
    gradient = *pulled;
  }
  // Gradients of parameters stand behind those of query, key and values.
  size_t first = results.size() - op.getParamGradients().size();
  for (auto [place, param] : llvm::enumerate(op.getParamGradients()))
    if (partials[param])
      launchSum(param, results[first + place]);
  return success();
}

//===- PointModels.cpp - Ops of payloads whose value the point knows ------===//
//
// Reads of parameters, products of rows, scans and piecewise-linear functions:
// the op asks the point for its value and gives it the cotangent.
//
//===----------------------------------------------------------------------===//

#include "codegen/Payload/EmittableOps.h"
#include "mlir/IR/DialectRegistry.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Binds what a point gave; null stands for a failure that it has diagnosed.
static LogicalResult bindKnown(PayloadEmitter &emitter, Operation *op,
                               Value value) {
  if (!value)
    return failure();
  emitter.bind(op->getResult(0), value);
  return success();
}

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

namespace {
struct ReadModel : EmittableOpInterface::ExternalModel<ReadModel, pos::ReadOp> {
  LogicalResult emit(Operation *op, PayloadEmitter &emitter) const {
    auto read = cast<pos::ReadOp>(op);
    auto param = dyn_cast<BlockArgument>(read.getTensor());
    if (!param)
      return op->emitOpError("must read a parameter of the attention");
    SmallVector<Value> indices;
    for (Value index : read.getIndices()) {
      indices.push_back(emitter.get(index));
      if (!indices.back())
        return failure();
    }
    emitter.point.noteRead(read, indices);
    return bindKnown(emitter, op,
                     emitter.point.read(emitter.builder, param, indices));
  }
  bool isActive(Operation *op, PayloadPullback &pullback) const {
    return pullback.point.wantsGradient(
        cast<BlockArgument>(cast<pos::ReadOp>(op).getTensor()));
  }
  LogicalResult pullBack(Operation *op, PayloadPullback &pullback,
                         Value ct) const {
    auto read = cast<pos::ReadOp>(op);
    SmallVector<Value> indices;
    for (Value index : read.getIndices())
      indices.push_back(pullback.forward.get(index));
    pullback.point.addToRead(pullback.builder,
                             cast<BlockArgument>(read.getTensor()), indices,
                             pullback.guarded(ct));
    return success();
  }
};

template <typename OpTy>
struct RowDotModel
    : EmittableOpInterface::ExternalModel<RowDotModel<OpTy>, OpTy> {
  LogicalResult emit(Operation *op, PayloadEmitter &emitter) const {
    auto dot = cast<pos::RowDotOpInterface>(op);
    Value addend = dot.getAddend();
    if (!isa<BlockArgument>(dot.getTable()) ||
        (addend && !isa<BlockArgument>(addend)))
      return op->emitOpError("must read a parameter of the attention");
    Value index = dot.getIndex() ? emitter.get(dot.getIndex()) : Value();
    if (dot.getIndex() && !index)
      return failure();
    return bindKnown(emitter, op,
                     emitter.point.rowDot(emitter.builder, dot, index));
  }
  /// The row has a gradient.
  bool isActive(Operation *, PayloadPullback &) const { return true; }
  LogicalResult pullBack(Operation *op, PayloadPullback &pullback,
                         Value ct) const {
    auto dot = cast<pos::RowDotOpInterface>(op);
    Value index =
        dot.getIndex() ? pullback.forward.get(dot.getIndex()) : Value();
    pullback.point.addToRowDot(pullback.builder, dot, index,
                               pullback.guarded(ct));
    return success();
  }
};

struct ScanModel : EmittableOpInterface::ExternalModel<ScanModel, pos::ScanOp> {
  LogicalResult emit(Operation *op, PayloadEmitter &emitter) const {
    auto scan = cast<pos::ScanOp>(op);
    Value value = emitter.get(scan.getValue());
    Value limit = emitter.get(scan.getLimit());
    if (!value || !limit)
      return failure();
    return bindKnown(emitter, op,
                     emitter.point.scan(emitter.builder, scan, value, limit));
  }
  /// The cotangent of a scan's value comes from other keys as well, so it is
  /// not 0 where the seeds of this key are: its lanes count as seeded from here
  /// on.
  LogicalResult pullBack(Operation *op, PayloadPullback &pullback,
                         Value ct) const {
    auto scan = cast<pos::ScanOp>(op);
    if (pullback.isActive(scan.getLimit()))
      return scan.emitOpError(
          "limit must not be trained or vary with the score");
    Value pulled = pullback.point.pullScan(
        pullback.builder, scan, pullback.forward.get(scan.getLimit()),
        pullback.guarded(ct));
    if (!pulled)
      return failure();
    pullback.addSeeds(pulled);
    pullback.add(scan.getValue(), pulled);
    return success();
  }
};

struct HingeSumModel
    : EmittableOpInterface::ExternalModel<HingeSumModel, pos::HingeSumOp> {
  LogicalResult emit(Operation *op, PayloadEmitter &emitter) const {
    return bindKnown(
        emitter, op,
        emitter.point.hingeSum(emitter.builder, cast<pos::HingeSumOp>(op)));
  }
  bool isActive(Operation *op, PayloadPullback &pullback) const {
    auto sum = cast<pos::HingeSumOp>(op);
    return pullback.point.wantsUnits(sum) || pullback.isActive(sum.getValue());
  }
  LogicalResult pullBack(Operation *op, PayloadPullback &pullback,
                         Value ct) const {
    auto sum = cast<pos::HingeSumOp>(op);
    Value pulled = pullback.point.pullHingeSum(pullback.builder, sum,
                                               pullback.guarded(ct));
    if (!pulled)
      return failure();
    pullback.add(sum.getValue(), pulled);
    return success();
  }
};
} // namespace

void codegen::registerSiteModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, pos::PosDialect *) {
    pos::ReadOp::attachInterface<ReadModel>(*context);
    pos::QueryDotOp::attachInterface<RowDotModel<pos::QueryDotOp>>(*context);
    pos::KeyDotOp::attachInterface<RowDotModel<pos::KeyDotOp>>(*context);
    pos::OffsetDotOp::attachInterface<RowDotModel<pos::OffsetDotOp>>(*context);
    pos::ScanOp::attachInterface<ScanModel>(*context);
    pos::HingeSumOp::attachInterface<HingeSumModel>(*context);
  });
}

//===----------------------------------------------------------------------===//
// Points without such a place
//===----------------------------------------------------------------------===//

Value PayloadPoint::rowDot(OpBuilder &, pos::RowDotOpInterface op, Value) {
  op->emitOpError("has no kernel at this place");
  return {};
}
void PayloadPoint::addToRowDot(OpBuilder &, pos::RowDotOpInterface, Value,
                               Value) {
  llvm_unreachable("a point without the op's value has no gradient of it");
}
Value PayloadPoint::scan(OpBuilder &, pos::ScanOp op, Value, Value) {
  op.emitOpError("has no kernel at this place");
  return {};
}
Value PayloadPoint::pullScan(OpBuilder &, pos::ScanOp, Value, Value) {
  llvm_unreachable("a point without the op's value has no gradient of it");
}

Value PayloadPoint::hingeSum(OpBuilder &, pos::HingeSumOp op) {
  op.emitOpError("has no kernel at this place");
  return {};
}
Value PayloadPoint::pullHingeSum(OpBuilder &, pos::HingeSumOp, Value) {
  llvm_unreachable("a point without the op's value has no gradient of it");
}

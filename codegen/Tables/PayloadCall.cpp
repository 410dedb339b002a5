//===- PayloadCall.cpp - Payloads written into a kernel -------------------===//

#include "codegen/Tables/PayloadCall.h"
#include "codegen/Payload/Payload.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using Values = KernelBuilder::Values;

Values codegen::callPayload(KernelBuilder &kernel, Block &payload,
                            ValueRange arguments, PayloadPoint &point) {
  if (succeeded(kernel.getStatus())) {
    FailureOr<Values> results =
        emitPayload(kernel.builder, payload, arguments, point);
    if (succeeded(results))
      return *results;
    kernel.check(failure());
  }
  Values zeros;
  for (Type type : payload.getTerminator()->getOperandTypes())
    zeros.push_back(kernel.zero(type));
  return zeros;
}

Values codegen::callPullback(KernelBuilder &kernel, Block &payload,
                             ValueRange arguments, ValueRange cotangents,
                             PayloadPoint &point) {
  if (succeeded(kernel.getStatus())) {
    FailureOr<Values> results =
        emitPullback(kernel.builder, payload, arguments, cotangents, point);
    if (succeeded(results))
      return *results;
    kernel.check(failure());
  }
  return Values(payload.getNumArguments());
}

Value codegen::callOps(KernelBuilder &kernel, PayloadEmitter &emitter,
                       ArrayRef<Operation *> ops, Value result) {
  for (Operation *op : ops)
    if (succeeded(kernel.getStatus()))
      kernel.check(emitter.emitOp(*op));
  if (failed(kernel.getStatus()))
    return {};
  Value value = emitter.get(result);
  kernel.check(success(value != nullptr));
  return value;
}

Value codegen::callSlice(KernelBuilder &kernel, Block &payload, Value value,
                         PayloadPoint &point) {
  PayloadEmitter emitter(kernel.builder, point);
  DenseSet<Operation *> needed{value.getDefiningOp()};
  for (Operation &op : llvm::reverse(payload))
    if (needed.contains(&op))
      op.walk([&](Operation *user) {
        for (Value operand : user->getOperands())
          needed.insert(operand.getDefiningOp());
      });
  SmallVector<Operation *> ops;
  for (Operation &op : payload.without_terminator())
    if (needed.contains(&op))
      ops.push_back(&op);
  Value emitted = callOps(kernel, emitter, ops, value);
  return emitted ? emitted : kernel.zero(kernel.f32);
}

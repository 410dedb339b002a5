//===- OffsetPoint.cpp - Payloads at one entry of rows of offsets ---------===//

#include "codegen/Rows/OffsetPoint.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

void OffsetPoint::moveToEntry(const OffsetShape &shape, Index entry,
                              pos::Side side) {
  Index queries = getExtent(pos::Extent::query);
  Index keys = getExtent(pos::Extent::key);
  bool isQuery = side == pos::Side::query;
  Index origin = shape.getOrigin(kernel, isQuery ? queries : keys);
  Index offset =
      isQuery ? kernel.sub(entry, origin) : kernel.sub(origin, entry);
  offset = kernel.sub(offset, kernel.sub(keys, queries));
  offset = kernel.max(offset, kernel.sub(1, keys));
  offset = kernel.min(offset, kernel.sub(queries, 1));
  if (layout.queryTail)
    offset = kernel.add(offset, getQueryTail());
  offsetValue = kernel.toI32(offset);
}

void OffsetPoint::collect(Value value,
                          llvm::SetVector<Operation *> &ops) const {
  pos::ScoreOp score = getPlan().score;
  Operation *op = value.getDefiningOp();
  if (!op || ops.contains(op) ||
      !score.getBody().front().findAncestorOpInBlock(*op))
    return;
  op->walk([&](Operation *nested) {
    for (Value operand : nested->getOperands())
      if (!op->isAncestor(operand.getParentRegion()->getParentOp()))
        collect(operand, ops);
  });
  ops.insert(op);
}

std::string codegen::getOffsetSuffix(StringRef what, size_t number) {
  return ("offset_" + what + "_" + Twine(number)).str();
}

Value codegen::isBlockSeen(KernelBuilder &kernel, ArgumentBlock &arguments,
                           unsigned seen, Index number) {
  Value flag = kernel.load(kernel.i32, arguments.getAddress(seen, {number}));
  return kernel.differ(kernel.fromI32(flag), 0);
}

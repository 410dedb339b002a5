//===- RowPullback.cpp - Gradients of mapped rows -------------------------===//

#include "codegen/Rows/RowPullback.h"
#include "codegen/Rows/RowGroups.h"
#include "codegen/Tables/PayloadCall.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Pulls one map back. `memory` holds the row that the map was applied to.
static void pullMap(KernelBuilder &kernel, const RowMap &map,
                    const RowPullback &pullback) {
  pos::RowsOp op = map.op;
  for (int64_t group = 0; group < map.getNumGroups(); group += kernel.width()) {
    pullback.point->setPoint(pullback.row, group);
    RowGroups groups(kernel, map, group);
    SmallVector<Value> values = groups.load(pullback.memory);
    SmallVector<Value> cotangents = groups.load(pullback.gradient);
    SmallVector<Value> pulled = callPullback(
        kernel, op.getBody().front(), values, cotangents, *pullback.point);
    for (Value &cotangent : pulled)
      cotangent =
          cotangent ? kernel.broadcast(cotangent) : kernel.splatF32(0.0);
    groups.store(pulled, pullback.gradient);
  }
}

void sextant::codegen::emitRowPullback(KernelBuilder &kernel,
                                       ArgumentBlock &arguments,
                                       const RowPullback &pullback,
                                       Type element) {
  // Each map needs the row that it was applied to: made again from the start,
  // for there is rarely more than one. Unused values cost nothing.
  for (size_t number = pullback.maps.size(); number-- > 0;) {
    RowCopy copy;
    copy.tensor = pullback.tensor;
    copy.indices = pullback.indices;
    copy.batch = pullback.batch;
    copy.head = pullback.head;
    copy.first = pullback.row;
    copy.count = 1;
    copy.dim = pullback.dim;
    copy.maps = pullback.maps.take_front(number);
    copy.point = pullback.point;
    copy.to = pullback.memory;
    emitRowCopy(kernel, arguments, copy, element);
    pullMap(kernel, pullback.maps[number], pullback);
  }
}

void sextant::codegen::storeRow(KernelBuilder &kernel, Value from, int64_t dim,
                                Value to, Type element) {
  int64_t width = kernel.width(), whole = dim / width * width;
  auto load = [&](Index lane) {
    return kernel.roundTo(kernel.loadVector(from, {lane}), element);
  };
  kernel.loop(0, whole, width, [&](Value lane) {
    kernel.store(load(lane), kernel.advance(to, {lane}, element));
  });
  if (whole != dim)
    kernel.storePart(load(whole), kernel.advance(to, {whole}, element),
                     dim - whole);
}

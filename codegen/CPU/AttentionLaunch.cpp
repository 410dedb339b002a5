//===- AttentionLaunch.cpp - What launches of attention share -------------===//

#include "codegen/CPU/AttentionLaunch.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

Value codegen::countFlops(const Lowering &lowering, Value query, Value key,
                          int64_t perScore) {
  OpBuilder &builder = lowering.builder;
  Location loc = lowering.getLoc();
  Value flops = arith::ConstantIndexOp::create(builder, loc, perScore);
  for (Value extent : {lowering.getDim(query, 0), lowering.getDim(query, 1),
                       lowering.getDim(query, 2), lowering.getDim(key, 2)})
    flops = arith::MulIOp::create(builder, loc, flops, extent);
  return flops;
}

void codegen::addForwardReads(const Lowering &lowering,
                              const HoistTables &tables, ForwardTask &task,
                              LaunchOperands &operands) {
  auto op = cast<pos::AttentionOp>(lowering.getOp());
  task.sites.query = operands.read(op.getQuery());
  task.sites.key = operands.read(op.getKey());
  for (Value value : op.getValues())
    task.sites.values.push_back(operands.read(value));
  task.sites.append(lowering.plan, tables, operands.layout, operands.reads);
}

void codegen::addForwardWrites(const Lowering &lowering, ForwardTask &task,
                               LaunchOperands &operands) {
  auto op = cast<pos::AttentionOp>(lowering.getOp());
  Value query = op.getQuery();
  // The last dimension of a row is static.
  SmallVector<Value> sizes{lowering.getDim(query, 0), lowering.getDim(query, 1),
                           lowering.getDim(query, 2), Value()};
  auto allocate = [&](Value result) {
    return operands.write(
        lowering.allocate(cast<RankedTensorType>(result.getType()), sizes));
  };
  for (Value output : op.getOutputs())
    task.outputs.push_back(allocate(output));
  task.lse = allocate(op.getLse());
  task.operands = operands.layout;
}

//===- ReadChecks.cpp - Reads outside of parameters, named ----------------===//
//
// A launch ahead of an attention or a row map of any target runs a copy of the
// op literally, as the reference does, and throws its results away: what counts
// is at which indices its payloads read. Vectors of lanes that end past a row
// and tiles that hide a key compute more than the definition says; here only
// what it says is looked at.
//
//===----------------------------------------------------------------------===//

#include "codegen/Reference/ReadChecks.h"
#include "codegen/Reference/Reference.h"
#include "codegen/Reference/ReferenceAllHeads.h"
#include "codegen/Reference/ReferenceLowerings.h"
#include "codegen/Tables/PayloadCall.h"
#include "codegen/Tables/TurnRows.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

using pos::RowOperand;

/// Elements of the matrices of a turn, at one row of one of its operands.
static void runTurn(ReferenceBuilder &r, const RowTurn &turn) {
  KernelBuilder &k = r.k;
  Block &payload = pos::TurnRowsOp(turn.op).getBody().front();
  k.loop(0, turn.blocks, 1, [&](Value block) {
    k.loop(0, turn.size, 1, [&](Value row) {
      k.loop(0, turn.size, 1, [&](Value column) {
        Value place[] = {k.toI32(block), k.toI32(row), k.toI32(column)};
        callPayload(k, payload, place, r.point);
      });
    });
  });
}

/// Payloads of turns are outside of the reference's kernels.
static LogicalResult launchTurns(const Lowering &lowering, ReadLog &log) {
  if (lowering.plan.turns.empty())
    return success();
  OwnerOperands owner = getOwnerOperands(lowering.plan.owner);
  LaunchOperands operands;
  PointLayout layout = addReferenceReads(lowering, operands);
  unsigned query = operands.read(owner.query), key = operands.read(owner.key);
  log.addTo(operands);
  auto run = [&](KernelBuilder &k, ArgumentBlock &arguments, const Items &,
                 Value memory) {
    ReferencePoint point(k, arguments, layout, lowering.plan,
                         getReferenceType(owner.query));
    point.log = &log;
    ReferenceBuilder r(k, arguments, point, memory);
    for (const RowTurn &turn : lowering.plan.turns)
      for (RowOperand operand : turn.operands) {
        unsigned rows = operand == RowOperand::key ? key : query;
        k.loop(0, arguments.getSize(rows, 0), 1, [&](Value batch) {
          k.loop(0, arguments.getSize(rows, 1), 1, [&](Value head) {
            k.loop(0, arguments.getSize(rows, 2), 1, [&](Value row) {
              point.moveToRow(operand, batch, head, row);
              runTurn(r, turn);
            });
          });
        });
      }
  };
  operands.launch(lowering, "turns", {oneItem, noScratch, run});
  log.emitChecks();
  return lowering.status;
}

static LogicalResult launchSites(const Lowering &lowering, ReadLog &log) {
  TurnedRows turned(lowering);
  turned.apply();
  FailureOr<SmallVector<Value>> results =
      isa<pos::MapRowsOp>(lowering.getOp())
          ? lowerReferenceMapRows(lowering, &log)
          : lowerReferenceAttention(lowering, &log);
  if (failed(results) || failed(lowering.status))
    return failure();
  log.emitChecks();
  return success();
}

/// Lowers the copy of an op.
static LogicalResult lowerCopy(pos::SitesOwnerInterface copy,
                               OpBuilder &builder, ModuleOp kernels,
                               StringRef prefix) {
  FailureOr<KernelPlan> plan = planKernel(copy);
  if (failed(plan))
    return failure();
  VectorTarget target = getReferenceVectors();
  Lowering lowering{builder, kernels, prefix, target, *plan};
  if (failed(verifyAllHeads(*plan)))
    return failure();
  ReadLog ofTurns(lowering), ofSites(lowering);
  if (ofSites.empty())
    return success();
  if (failed(launchTurns(lowering, ofTurns)))
    return failure();
  return launchSites(lowering, ofSites);
}

LogicalResult codegen::emitReadChecks(OpBuilder &builder, ModuleOp kernels,
                                      StringRef prefix,
                                      pos::SitesOwnerInterface owner) {
  if (!isa<pos::AttentionOp, pos::MapRowsOp>(*owner))
    return success(); // The forward has been checked.
  auto copy = cast<pos::SitesOwnerInterface>(builder.clone(*owner));
  OpBuilder before(copy);
  LogicalResult result =
      lowerCopy(copy, before, kernels, (prefix + "reads_").str());
  copy->erase();
  return result;
}

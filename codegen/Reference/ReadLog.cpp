//===- ReadLog.cpp - Which elements payloads ask for ----------------------===//

#include "codegen/Reference/ReadLog.h"
#include "codegen/Emit/ShapeChecks.h"
#include "dialects/Exec/IR/Exec.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Location.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

ReadLog::ReadLog(const Lowering &lowering) : lowering(lowering) {
  pos::SitesOwnerInterface owner = lowering.plan.owner;
  owner.getSitesRegion().walk([&](Operation *op) {
    if (auto payloadOp = dyn_cast<pos::PayloadOpInterface>(op))
      for (const pos::TableRead &read : payloadOp.getTableReads())
        add(op, read.table, read.dim);
    else if (auto rows = dyn_cast<pos::WeightedRowsOp>(op))
      add(op, rows.getTable(), 0);
  });
}

void ReadLog::add(Operation *op, Value table, unsigned dim) {
  firstEntry.try_emplace(op, entries.size());
  entries.push_back({op, cast<BlockArgument>(table).getArgNumber(), dim});
}

void ReadLog::addTo(LaunchOperands &operands) {
  auto type = RankedTensorType::get({2 * static_cast<int64_t>(entries.size())},
                                    lowering.builder.getI64Type());
  buffer = lowering.allocate(type, {}, /*zero=*/true);
  tensor = operands.write(buffer);
}

void ReadLog::note(KernelBuilder &kernel, ArgumentBlock &arguments,
                   Operation *op, ValueRange indices, Value batch,
                   Value counts) const {
  OpBuilder &builder = kernel.builder;
  Location loc = kernel.loc;
  int64_t entry = firstEntry.at(op);
  Type wide = builder.getI64Type();
  auto noteAll = [&] {
    Value base = arguments.getPointer(tensor);
    for (auto [number, index] : llvm::enumerate(indices)) {
      if (index == batch)
        continue;
      int64_t place = 2 * (entry + static_cast<int64_t>(number));
      auto update = [&](int64_t at, Value value, auto combine) {
        Value address = kernel.advance(base, {at}, wide);
        kernel.store(combine(kernel.load(wide, address), value), address);
      };
      Index read = kernel.fromI32(index);
      update(place, kernel.value(read), [&](Value a, Value b) -> Value {
        return arith::MinSIOp::create(builder, loc, a, b);
      });
      Value extent = kernel.value(kernel.add(read, 1));
      update(place + 1, extent, [&](Value a, Value b) -> Value {
        return arith::MaxSIOp::create(builder, loc, a, b);
      });
    }
  };
  if (counts)
    kernel.when(counts, noteAll);
  else
    noteAll();
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

void ReadLog::emitCheck(size_t number) const {
  OpBuilder &builder = lowering.builder;
  Location loc = lowering.getLoc();
  const Entry &entry = entries[number];
  pos::SitesOwnerInterface owner = lowering.plan.owner;
  Value param = owner.getParamOperands()[entry.param];
  std::string who =
      describePlace(entry.op) + "'" + entry.op->getName().getStringRef().str() +
      "' of " + describeParam(param, entry.param, lowering.getOp()) + " reads ";
  std::string where = " dimension " + std::to_string(entry.dim);
  exec::CheckDataOp::create(
      builder, loc, buffer, 2 * number, exec::Predicate::at_least,
      arith::ConstantIndexOp::create(builder, loc, 0),
      who + "before" + where + ": the least index that is read and its first");
  exec::CheckDataOp::create(
      builder, loc, buffer, 2 * number + 1, exec::Predicate::at_most,
      lowering.getDim(param, entry.dim),
      who + "beyond" + where +
          ": one more than the greatest index that is read, and its size");
}

void ReadLog::emitChecks() const {
  for (size_t number = 0; number < entries.size(); ++number)
    emitCheck(number);
}

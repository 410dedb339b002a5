//===- PosSites.cpp - Verification of sites and their payloads ------------===//

#include "dialects/Pos/IR/Pos.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace sextant::pos;

//===----------------------------------------------------------------------===//
// Payloads
//===----------------------------------------------------------------------===//

/// What a payload may compute with: context ops, reads, constants, and pure
/// elementwise ops on scalars.
static bool isPayloadOp(Operation &op) {
  if (isa<ContextOpInterface, ReadOp, SumOp, ContractOp, ScanOp, QueryDotOp,
          HostOp, tensor::SplatOp>(op))
    return true;
  if (op.hasTrait<OpTrait::ConstantLike>())
    return true;
  return isPure(&op) && op.getNumRegions() == 0 &&
         OpTrait::hasElementwiseMappableTraits(&op);
}

static LogicalResult verifyPayloadOps(Operation *site, Block &block) {
  for (Operation &op : block.without_terminator()) {
    if (!isPayloadOp(op)) {
      InFlightDiagnostic diag =
          site->emitOpError("payload may only compute with scalars");
      diag.attachNote(op.getLoc())
          << "'" << op.getName()
          << "' is neither elementwise, a context op nor a read";
      return diag;
    }
    for (Type type : op.getResultTypes())
      if (getElementTypeOrSelf(type).isF64() ||
          getElementTypeOrSelf(type).isF16() ||
          getElementTypeOrSelf(type).isBF16()) {
        InFlightDiagnostic diag = site->emitOpError(
            "payload must compute in f32, the compute type (C1)");
        diag.attachNote(op.getLoc()) << "this value is " << type;
        return diag;
      }
    for (Region &region : op.getRegions())
      for (Block &nested : region)
        if (failed(verifyPayloadOps(site, nested)))
          return failure();
  }
  return success();
}

LogicalResult sextant::pos::detail::verifySite(Operation *op) {
  auto site = cast<SiteOpInterface>(op);
  Block &payload = site.getPayload();
  auto yield = payload.empty() ? YieldOp() : dyn_cast<YieldOp>(payload.back());
  if (!yield)
    return op->emitOpError("payload must end in 'pos.yield'");
  SmallVector<Type> want = site.getYieldTypes();
  if (yield.getOperandTypes() != TypeRange(want)) {
    InFlightDiagnostic diag = op->emitOpError("payload must yield (");
    llvm::interleaveComma(want, diag);
    diag << ") but yields (";
    llvm::interleaveComma(yield.getOperandTypes(), diag);
    return diag << ")";
  }
  return verifyPayloadOps(op, payload);
}

//===----------------------------------------------------------------------===//
// Sites
//===----------------------------------------------------------------------===//

SmallVector<Type> RowsOp::getYieldTypes() {
  return llvm::to_vector(getBody().front().getArgumentTypes());
}
SmallVector<Type> ScoreOp::getYieldTypes() {
  return llvm::to_vector(getBody().front().getArgumentTypes());
}
SmallVector<Type> MaskOp::getYieldTypes() {
  return {IntegerType::get(getContext(), 1)};
}
SmallVector<Type> ColumnsOp::getYieldTypes() {
  Type f32 = Float32Type::get(getContext());
  return {f32, f32};
}
SmallVector<Type> WeightedRowsOp::getYieldTypes() {
  return {IntegerType::get(getContext(), 32)};
}

LogicalResult RowsOp::verify() {
  if (getGrouping().has_value() == static_cast<bool>(getGroupingOption()))
    return emitOpError("expected either a grouping or an option for it (C6)");
  if (static_cast<bool>(getBegin()) != static_cast<bool>(getEnd()))
    return emitOpError("expected both ends of a range of lanes (C6)");
  Block &payload = getBody().front();
  unsigned got = payload.getNumArguments();
  unsigned want =
      getGrouping() == Grouping::single || getGrouping() == Grouping::whole ? 1
                                                                            : 2;
  if (got != want)
    return emitOpError("payload must take ")
           << want << " value(s) of a group (C6) but takes " << got;
  for (Type type : payload.getArgumentTypes()) {
    bool whole = getGrouping() == Grouping::whole;
    if (whole ? !isa<RankedTensorType>(type) : !type.isF32())
      return emitOpError("payload argument must be ")
             << (whole ? "tensor<?xf32>" : "f32") << " (C1) but is " << type;
  }
  return success();
}

LogicalResult ScoreOp::verify() {
  Block &payload = getBody().front();
  if (payload.getNumArguments() != 1)
    return emitOpError("payload must take 1 value, the score, but takes ")
           << payload.getNumArguments();
  Type type = payload.getArgument(0).getType();
  auto tensor = dyn_cast<RankedTensorType>(type);
  bool allHeads =
      tensor && tensor.getRank() == 1 && tensor.getElementType().isF32();
  if (!type.isF32() && !allHeads)
    return emitOpError("payload argument must be f32 or tensor<?xf32> (C1) "
                       "but is ")
           << type;
  return success();
}

LogicalResult HoistOp::verifyRegions() {
  Block &block = getBody().front();
  auto yield = block.empty() ? YieldOp() : dyn_cast<YieldOp>(block.back());
  if (!yield || yield.getNumOperands() != 1 ||
      yield.getOperand(0).getType() != getType())
    return emitOpError("body must yield (") << getType() << ")";
  return verifyPayloadOps(*this, block);
}

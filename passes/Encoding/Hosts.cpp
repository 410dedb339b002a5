//===- Hosts.cpp - What hosts add to a score ------------------------------===//
//
// A host's payload yields its score plus terms that do not need the score, s +
// t1 + t2 + ... The terms move to where the host is asked for: into the payload
// of a score of one head, or into a `pos.for_heads` of a score of all heads.
//
//===----------------------------------------------------------------------===//

#include "passes/Encoding/Hosts.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/Analysis/ScoreTerms.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

using pos::Dependence;

LogicalResult passes::verifyHosts(pos::UseAttr use, pos::EncodingOp definition,
                                  Location user) {
  if (!use.getHosts() || use.getHosts().empty())
    return success();
  StringRef instance = use.getInstance().getValue();
  WalkResult host =
      definition.walk([](pos::HostOp) { return WalkResult::interrupt(); });
  if (!host.wasInterrupted())
    return emitError(user, "use '")
           << instance << "' names hosts, but there is no 'pos.host' in @"
           << definition.getSymName();
  llvm::StringSet<> names;
  for (auto attr : use.getHosts().getAsRange<pos::UseAttr>())
    if (!names.insert(attr.getInstance().getValue()).second)
      return emitError(user, "use '") << instance << "' has two hosts called '"
                                      << attr.getInstance().getValue() << "'";
  return success();
}

LogicalResult passes::verifyHost(pos::EncodingOp definition) {
  for (auto site : definition.getOps<pos::SiteOpInterface>()) {
    auto score = dyn_cast<pos::ScoreOp>(*site);
    if (score && score.getPayload().getArgument(0).getType().isF32())
      continue;
    return site->emitOpError(score ? "of all heads" : "is no score")
           << ": @" << definition.getSymName() << " cannot be a host";
  }
  return success();
}

static InFlightDiagnostic reportNotAdditive(pos::ScoreOp host, Value core) {
  InFlightDiagnostic diag =
      host.emitOpError("is not additive in the score: it cannot be a host");
  if (Operation *op = core ? core.getDefiningOp() : nullptr)
    diag.attachNote(op->getLoc())
        << "'" << op->getName() << "' does more than add to it";
  return diag;
}

/// Moves what a host computes to the builder and gives the sum of its terms.
static FailureOr<Value> moveTerms(OpBuilder &builder, pos::ScoreOp host,
                                  pos::SitesOwnerInterface owner) {
  Dependence dependence(owner);
  Block &payload = host.getPayload();
  FailureOr<ScoreTerms> found = getScoreTerms(payload, dependence);
  if (failed(found))
    return reportNotAdditive(host, payload.getTerminator()->getOperand(0));
  if (found->core != payload.getArgument(0))
    return reportNotAdditive(host, found->core);

  // What still needs the score adds it to the terms, or is not used.
  payload.getTerminator()->erase();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(payload)))
    if (op.use_empty() && op.getNumResults() == 1 &&
        dependence.of(op.getResult(0)).contains(pos::Axis::score))
      op.erase();
  builder.getInsertionBlock()->getOperations().splice(
      builder.getInsertionPoint(), payload.getOperations());
  Value sum;
  for (ScoreTerm &term : found->terms) {
    if (sum)
      sum = combine(builder, sum, term);
    else if (term.isNegated)
      sum = arith::NegFOp::create(builder, term.value.getLoc(), term.value);
    else
      sum = term.value;
  }
  host.erase();
  return sum;
}

/// The sum of what hosts add to the score of one head.
static FailureOr<Value> moveAllTerms(OpBuilder &builder, Location loc,
                                     ArrayRef<pos::ScoreOp> hosts,
                                     pos::SitesOwnerInterface owner) {
  Value sum;
  for (pos::ScoreOp host : hosts) {
    FailureOr<Value> term = moveTerms(builder, host, owner);
    if (failed(term))
      return failure();
    if (*term)
      sum = sum ? arith::AddFOp::create(builder, loc, sum, *term).getResult()
                : *term;
  }
  if (!sum)
    sum = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0));
  return sum;
}

LogicalResult passes::joinHosts(pos::ScoreOp score,
                                ArrayRef<pos::ScoreOp> hosts,
                                pos::SitesOwnerInterface owner) {
  auto asked = llvm::to_vector(score.getPayload().getOps<pos::HostOp>());
  if (asked.empty()) {
    for (pos::ScoreOp host : hosts)
      host->erase();
    return success();
  }
  // One value for all that ask, where the first of them stands.
  pos::HostOp first = asked.front();
  OpBuilder builder(first);
  Location loc = first.getLoc();
  Value value;
  auto vector = dyn_cast<RankedTensorType>(first.getType());
  if (!vector) {
    FailureOr<Value> sum = moveAllTerms(builder, loc, hosts, owner);
    if (failed(sum))
      return failure();
    value = *sum;
  } else if (hosts.empty()) {
    value = arith::ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(vector, builder.getF32FloatAttr(0)));
  } else {
    auto terms = pos::ForHeadsOp::create(builder, loc, vector, ValueRange());
    builder.createBlock(&terms.getBody());
    FailureOr<Value> sum = moveAllTerms(builder, loc, hosts, owner);
    if (failed(sum))
      return failure();
    pos::YieldOp::create(builder, loc, *sum);
    value = terms.getResult();
  }
  for (pos::HostOp host : asked) {
    host.replaceAllUsesWith(value);
    host.erase();
  }
  return success();
}

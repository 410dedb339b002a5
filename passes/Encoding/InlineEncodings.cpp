//===- InlineEncodings.cpp - Splices sites into their attention -----------===//
//
// Arithmetic between the sites of a definition is about options and extents.
// What is known becomes a constant where it is used; what depends on an extent
// that is dynamic is cloned into the payloads that use it.
//
//===----------------------------------------------------------------------===//

#include "dialects/Pos/IR/Pos.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Remarks.h"
#include "passes/Analysis/Evaluate.h"
#include "passes/Passes.h"

namespace sextant::passes {
#define GEN_PASS_DEF_INLINEENCODINGS
#include "passes/Passes.h.inc"
} // namespace sextant::passes

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

namespace {
/// A parameter as a caller knows it.
struct BoundParam {
  pos::ParamOp definition;
  std::string name; ///< <instance>.<param>
};

/// A use with its definition and what is known of the definition's values.
struct LinkedUse {
  pos::UseAttr use;
  pos::EncodingOp definition;
  std::unique_ptr<Evaluator> evaluator;
};
} // namespace

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

static bool isBatchExtent(Value dim) {
  auto extent = dim.getDefiningOp<pos::ExtentOp>();
  return extent && extent.getExtent() == pos::Extent::batch;
}

static LogicalResult verifyParam(pos::SitesOwnerInterface owner,
                                 BoundParam param, Value operand,
                                 Evaluator &evaluator) {
  auto fail = [&]() -> InFlightDiagnostic {
    InFlightDiagnostic diag = owner->emitOpError("parameter '")
                              << param.name << "' ";
    diag.attachNote(param.definition.getLoc()) << "declared here";
    return diag;
  };
  auto got = cast<RankedTensorType>(operand.getType());
  auto want = cast<RankedTensorType>(param.definition.getType());
  if (got.getRank() != want.getRank())
    return fail() << "must have rank " << want.getRank() << ", got " << got;
  bool isInteger = want.getElementType().isInteger(32);
  if (isInteger != got.getElementType().isInteger(32))
    return fail() << "must have elements of type " << want.getElementType()
                  << ", got " << got;
  SmallVector<int64_t> sizes = evaluator.getSizes(param.definition);
  for (auto [i, size] : llvm::enumerate(sizes)) {
    // An extent may be 0 (no keys); what options make of it may not.
    Value dim = param.definition.getDims()[i];
    bool isExtent = isa_and_present<pos::ExtentOp>(dim.getDefiningOp());
    if (evaluator.evaluate(dim) && (size < 0 || (size == 0 && !isExtent)))
      return fail() << "would have size " << size << " in dimension " << i;
    if (size < 0 || got.isDynamicDim(i))
      continue;
    int64_t actual = got.getDimSize(i);
    bool isBatch = isBatchExtent(dim);
    if (isBatch ? actual == 0 || size % actual != 0 : actual != size)
      return fail() << "must have size "
                    << (isBatch ? "1 or a divisor of " : "") << size
                    << " in dimension " << i << ", got " << got;
  }
  return success();
}

/// Checks count, shapes and types of the parameters of all uses.
static LogicalResult verifyParams(pos::SitesOwnerInterface owner,
                                  MutableArrayRef<LinkedUse> uses) {
  OperandRange operands = owner.getParamOperands();
  size_t next = 0;
  for (LinkedUse &use : uses) {
    for (auto definition : use.definition.getOps<pos::ParamOp>()) {
      BoundParam param{definition, (use.use.getInstance().getValue() + "." +
                                    definition.getName())
                                       .str()};
      if (next == operands.size()) {
        InFlightDiagnostic diag = owner->emitOpError("lacks parameter '")
                                  << param.name << "': got " << operands.size()
                                  << " parameter(s)";
        diag.attachNote(definition.getLoc()) << "declared here";
        return diag;
      }
      if (failed(verifyParam(owner, param, operands[next++], *use.evaluator)))
        return failure();
    }
  }
  if (next != operands.size())
    return owner->emitOpError("has ")
           << operands.size() << " parameters, but its uses declare " << next;
  return success();
}

//===----------------------------------------------------------------------===//
// Sites
//===----------------------------------------------------------------------===//

/// The constant that a value of a definition is, or null.
static Value createConstant(OpBuilder &builder, Value value,
                            Evaluator &evaluator) {
  Attribute known = evaluator.evaluate(value);
  if (!known)
    return {};
  auto constant = cast<TypedAttr>(known);
  if (auto real = dyn_cast<FloatAttr>(known))
    constant = FloatAttr::get(value.getType(), real.getValueAsDouble());
  return arith::ConstantOp::create(builder, value.getLoc(), constant);
}

/// Gives `value` of a definition inside a payload: as a constant, or by
/// cloning what computes it.
static Value bring(OpBuilder &builder, Value value, Evaluator &evaluator,
                   IRMapping &mapping) {
  if (Value there = mapping.lookupOrNull(value))
    return there;
  Value result = createConstant(builder, value, evaluator);
  if (!result) {
    Operation *op = value.getDefiningOp();
    for (Value operand : op->getOperands())
      bring(builder, operand, evaluator, mapping);
    result = builder.clone(*op, mapping)
                 ->getResult(cast<OpResult>(value).getResultNumber());
  }
  mapping.map(value, result);
  return result;
}

/// Without hosts, the sum of what they add is zero.
static LogicalResult removeHosts(pos::SiteOpInterface site) {
  SmallVector<pos::HostOp> hosts;
  site->walk([&](pos::HostOp host) { hosts.push_back(host); });
  for (pos::HostOp host : hosts) {
    if (!host.getType().isF32())
      return host.emitOpError("of all heads at once needs a host");
    OpBuilder builder(host);
    host.replaceAllUsesWith(
        arith::ConstantOp::create(builder, host.getLoc(),
                                  builder.getF32FloatAttr(0))
            .getResult());
    host.erase();
  }
  return success();
}

/// Clones a site to the end of the owner's block. `params` maps the
/// definition's parameters.
static LogicalResult spliceSite(pos::SiteOpInterface site, Block &block,
                                const IRMapping &params, Evaluator &evaluator) {
  OpBuilder builder = OpBuilder::atBlockEnd(&block);
  IRMapping mapping = params;
  SmallVector<Operation *> constants;
  for (Value operand : site->getOperands()) {
    if (mapping.contains(operand))
      continue;
    // An operand that is not known stays with the definition for now: the
    // site itself says what is wrong with it.
    Value constant = createConstant(builder, operand, evaluator);
    if (!constant) {
      InFlightDiagnostic diag = site->emitOpError(
          "operand must be known at compile time: an option, a constant or an "
          "extent that is static");
      if (Operation *unknown = evaluator.getUnknown())
        diag.attachNote(unknown->getLoc())
            << "'" << unknown->getName() << "' is not known here";
      return diag;
    }
    constants.push_back(constant.getDefiningOp());
    mapping.map(operand, constant);
  }
  auto copy = cast<pos::SiteOpInterface>(builder.clone(*site, mapping));
  if (failed(copy.resolveOperands()) || failed(removeHosts(copy)))
    return failure();

  // Values of the definition that the payload captures.
  Operation *definition = site->getParentOp();
  IRMapping captured = params;
  builder.setInsertionPointToStart(&copy.getPayload());
  copy->walk([&](Operation *op) {
    if (op == copy)
      return;
    for (OpOperand &operand : op->getOpOperands())
      if (operand.get().getParentRegion()->getParentOp() == definition)
        operand.set(bring(builder, operand.get(), evaluator, captured));
  });
  for (Operation *constant : llvm::reverse(constants))
    if (constant->use_empty())
      constant->erase();
  return success();
}

/// What takes part in the model around attention has no place in a kernel.
static LogicalResult verifySitesOnly(pos::EncodingOp definition) {
  for (Operation &op : definition.getBody().front())
    if (isa<pos::InputOp>(op) || op.hasTrait<OpTrait::IsIsolatedFromAbove>())
      return op.emitOpError("acts around attention: @")
             << definition.getSymName() << " cannot be inlined into one";
  return success();
}

namespace {
struct InlineEncodings : passes::impl::InlineEncodingsBase<InlineEncodings> {
  using InlineEncodingsBase::InlineEncodingsBase;

  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    SmallVector<pos::SitesOwnerInterface> owners;
    getOperation().walk([&](pos::SitesOwnerInterface owner) {
      if (owner.getPendingUses())
        owners.push_back(owner);
    });
    for (pos::SitesOwnerInterface owner : owners)
      if (failed(inlineInto(owner, symbols)))
        return signalPassFailure();
    for (auto definition :
         llvm::make_early_inc_range(getOperation().getOps<pos::EncodingOp>()))
      definition.erase();
  }

private:
  LogicalResult inlineInto(pos::SitesOwnerInterface owner,
                           SymbolTable &symbols);
};
} // namespace

LogicalResult InlineEncodings::inlineInto(pos::SitesOwnerInterface owner,
                                          SymbolTable &symbols) {
  auto extents = Evaluator::withExtents([owner](pos::Extent extent) mutable {
    return owner.getStaticExtent(extent);
  });
  SmallVector<LinkedUse> uses;
  for (auto use : owner.getPendingUses().getAsRange<pos::UseAttr>()) {
    auto definition =
        symbols.lookup<pos::EncodingOp>(use.getEncoding().getValue());
    if (!definition)
      return owner->emitOpError("uses ")
             << use.getEncoding() << ", which is not linked";
    if (failed(verifySitesOnly(definition)))
      return failure();
    uses.push_back(
        {use, definition, std::make_unique<Evaluator>(definition, extents)});
  }
  if (failed(verifyParams(owner, uses)))
    return failure();

  auto block = std::make_unique<Block>();
  for (Value param : owner.getParamOperands())
    block->addArgument(param.getType(), param.getLoc());
  owner.getSitesRegion().push_back(block.release());
  Block &sites = owner.getSitesRegion().back();
  unsigned next = 0, count = 0;
  for (LinkedUse &use : uses) {
    IRMapping params;
    for (auto param : use.definition.getOps<pos::ParamOp>())
      params.map(param.getValue(), sites.getArgument(next++));
    for (auto site : use.definition.getOps<pos::SiteOpInterface>()) {
      if (failed(spliceSite(site, sites, params, *use.evaluator)))
        return failure();
      ++count;
    }
  }
  numUses += uses.size();
  numSites += count;
  remark::passed(owner.getLoc(),
                 remark::RemarkOpts::name("inlined").category(getArgument()))
      << remark::metric("Uses", uses.size()) << remark::metric("Sites", count);
  // An empty region stands for "no sites" and prints as nothing.
  if (sites.empty() && sites.getNumArguments() == 0)
    sites.erase();
  owner.clearPendingUses();
  return success();
}

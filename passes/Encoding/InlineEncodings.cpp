//===- InlineEncodings.cpp - Splices sites into their attention -----------===//
//
// Arithmetic between the sites of a definition is about options and extents.
// What is known becomes a constant where it is used; what depends on an extent
// that is dynamic is cloned into the payloads that use it.
//
//===----------------------------------------------------------------------===//

#include "dialects/Pos/IR/Literals.h"
#include "dialects/Pos/IR/Pos.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/Verifier.h"
#include "passes/Analysis/Evaluate.h"
#include "passes/Encoding/Hosts.h"
#include "passes/Encoding/Requirements.h"
#include "passes/Encoding/Vectors.h"
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
struct InlinedUse {
  std::string name; ///< prefixes its parameters: <instance>, then hosts' names
  pos::EncodingOp definition;
  std::unique_ptr<Evaluator> evaluator;
  std::vector<InlinedUse> hosts;
  IRMapping params; ///< from the definition to the owner's region
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

/// Checks shapes and types of the parameters of a use, then of its hosts;
/// `next` counts operands.
static LogicalResult verifyParams(pos::SitesOwnerInterface owner,
                                  InlinedUse &use, size_t &next) {
  OperandRange operands = owner.getParamOperands();
  for (auto definition : use.definition.getOps<pos::ParamOp>()) {
    BoundParam param{definition, use.name + "." + definition.getName().str()};
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
  for (InlinedUse &host : use.hosts)
    if (failed(verifyParams(owner, host, next)))
      return failure();
  return success();
}

/// Binds the parameters of a use and of its hosts to arguments of the region,
/// from number `next` on, and notes their sizes.
static void bindParams(InlinedUse &use, Block &sites, unsigned &next,
                       ParamSizes &sizes) {
  for (auto param : use.definition.getOps<pos::ParamOp>()) {
    BlockArgument argument = sites.getArgument(next++);
    use.params.map(param.getValue(), argument);
    SmallVector<int64_t> &known = sizes[argument];
    known = use.evaluator->getSizes(param);
    auto type = cast<RankedTensorType>(argument.getType());
    for (auto [size, fixed] : llvm::zip_equal(known, type.getShape()))
      if (size < 0 && !ShapedType::isDynamic(fixed))
        size = fixed;
  }
  for (InlinedUse &host : use.hosts)
    bindParams(host, sites, next, sizes);
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
  return pos::createConstant(builder, value.getLoc(), value.getType(),
                             cast<TypedAttr>(known));
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

/// Makes constants of what a payload computes from constants with f32: in f64,
/// before the folders of f32 see it. `copies` maps the site to its copy.
static void foldConstants(pos::SiteOpInterface site, const IRMapping &copies,
                          Evaluator &evaluator) {
  DenseSet<Value> computed;
  auto isKnown = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || computed.contains(value))
      return op != nullptr;
    return op->hasTrait<OpTrait::ConstantLike>() ||
           (op->getBlock() == site->getBlock() && evaluator.evaluate(value));
  };
  auto isFloat = [](Value value) { return value.getType().isF32(); };
  site->walk([&](Operation *op) {
    if (op->getNumResults() != 1 || op->getNumOperands() == 0 ||
        op->getNumRegions() != 0 ||
        !op->getResult(0).getType().isIntOrFloat() ||
        !OpTrait::hasElementwiseMappableTraits(op) ||
        !llvm::all_of(op->getOperands(), isKnown))
      return;
    Value result = op->getResult(0);
    computed.insert(result);
    if (!isFloat(result) && llvm::none_of(op->getOperands(), isFloat))
      return;
    Operation *copy = copies.lookup(result).getDefiningOp();
    OpBuilder builder(copy);
    if (Value constant = createConstant(builder, result, evaluator))
      copy->getResult(0).replaceAllUsesWith(constant);
    else
      computed.erase(result);
  });
}

/// Clones a site to the end of the owner's block. `params` maps the
/// definition's parameters.
static FailureOr<pos::SiteOpInterface> spliceSite(pos::SiteOpInterface site,
                                                  Block &block,
                                                  const IRMapping &params,
                                                  Evaluator &evaluator) {
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
  if (failed(copy.resolveOperands()))
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
  foldConstants(site, mapping, evaluator);
  for (Operation *constant : llvm::reverse(constants))
    if (constant->use_empty())
      constant->erase();
  return copy;
}

/// Splices a site of a use and joins what its hosts add.
static LogicalResult spliceWithHosts(pos::SiteOpInterface site, InlinedUse &use,
                                     Block &block,
                                     pos::SitesOwnerInterface owner,
                                     const ParamSizes &sizes) {
  auto copy = spliceSite(site, block, use.params, *use.evaluator);
  if (failed(copy))
    return failure();
  auto score = dyn_cast<pos::ScoreOp>(**copy);
  if (!score)
    return success();
  if (failed(resolveVectors(score, owner, sizes)))
    return failure();
  SmallVector<pos::ScoreOp> hosts;
  for (InlinedUse &host : use.hosts)
    for (auto term : host.definition.getOps<pos::ScoreOp>()) {
      if (failed(spliceWithHosts(term, host, block, owner, sizes)))
        return failure();
      hosts.push_back(cast<pos::ScoreOp>(block.back()));
    }
  if (failed(joinHosts(score, hosts, owner)))
    return failure();
  // What a definition may say of one head need not hold for all.
  return verify(score);
}

/// What takes part in the model around attention has no place in a kernel.
static LogicalResult verifySitesOnly(pos::EncodingOp definition) {
  for (Operation &op : definition.getBody().front())
    if (isa<pos::InputOp>(op) || op.hasTrait<OpTrait::IsIsolatedFromAbove>())
      return op.emitOpError("acts around attention: @")
             << definition.getSymName() << " cannot be inlined into one";
  return success();
}

/// Adds what a use and its hosts require and what is not decided yet.
static LogicalResult spliceRequirementsOf(InlinedUse &use, Block &block) {
  if (failed(spliceRequirements(use.definition, *use.evaluator, block)))
    return failure();
  for (InlinedUse &host : use.hosts)
    if (failed(spliceRequirementsOf(host, block)))
      return failure();
  return success();
}

namespace {
/// Inlines the uses of one owner of sites after the other, then erases the
/// definitions.
struct InlineEncodings : passes::impl::InlineEncodingsBase<InlineEncodings> {
  using InlineEncodingsBase::InlineEncodingsBase;

  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    SmallVector<pos::SitesOwnerInterface> owners;
    getOperation().walk([&](pos::SitesOwnerInterface owner) {
      if (owner.getPendingUses() && !owner->getParentOfType<pos::EncodingOp>())
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

/// Finds the definitions of a use and of its hosts.
static FailureOr<InlinedUse> getInlinedUse(pos::UseAttr use, StringRef prefix,
                                           pos::SitesOwnerInterface owner,
                                           SymbolTable &symbols) {
  auto definition =
      symbols.lookup<pos::EncodingOp>(use.getEncoding().getValue());
  if (!definition)
    return owner->emitOpError("uses ")
           << use.getEncoding()
           << ", which is not linked: inlining comes after "
              "pos-link-encodings";
  if (failed(verifySitesOnly(definition)))
    return failure();
  auto extents = Evaluator::withExtents([owner](pos::Extent extent) mutable {
    return owner.getStaticExtent(extent);
  });
  InlinedUse linked{(prefix + use.getInstance().getValue()).str(),
                    definition,
                    std::make_unique<Evaluator>(definition, extents),
                    {},
                    {}};
  if (failed(verifyRequirements(definition, *linked.evaluator, linked.name,
                                owner.getLoc())))
    return failure();
  if (ArrayAttr hosts = use.getHosts())
    for (auto attr : hosts.getAsRange<pos::UseAttr>()) {
      FailureOr<InlinedUse> host =
          getInlinedUse(attr, linked.name + ".", owner, symbols);
      if (failed(host) || failed(verifyHost(host->definition)))
        return failure();
      linked.hosts.push_back(std::move(*host));
    }
  return linked;
}

LogicalResult InlineEncodings::inlineInto(pos::SitesOwnerInterface owner,
                                          SymbolTable &symbols) {
  std::vector<InlinedUse> uses;
  size_t numParams = 0;
  for (auto use : owner.getPendingUses().getAsRange<pos::UseAttr>()) {
    FailureOr<InlinedUse> linked = getInlinedUse(use, "", owner, symbols);
    if (failed(linked) || failed(verifyParams(owner, *linked, numParams)))
      return failure();
    uses.push_back(std::move(*linked));
  }
  if (numParams != owner.getParamOperands().size())
    return owner->emitOpError("has ")
           << owner.getParamOperands().size()
           << " parameters, but its uses declare " << numParams;

  auto block = std::make_unique<Block>();
  for (Value param : owner.getParamOperands())
    block->addArgument(param.getType(), param.getLoc());
  owner.getSitesRegion().push_back(block.release());
  Block &sites = owner.getSitesRegion().back();
  ParamSizes sizes;
  unsigned next = 0, count = 0;
  for (InlinedUse &use : uses)
    bindParams(use, sites, next, sizes);
  for (InlinedUse &use : uses) {
    if (failed(spliceRequirementsOf(use, sites)))
      return failure();
    for (auto site : use.definition.getOps<pos::SiteOpInterface>()) {
      if (failed(spliceWithHosts(site, use, sites, owner, sizes)))
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

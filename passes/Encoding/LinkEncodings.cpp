//===- LinkEncodings.cpp - Brings definitions into the module -------------===//
//
// Every distinct use (encoding and values of its options) gets a copy of the
// definition with the options folded; the uses then name their copy. So do the
// hosts that a use names.
//
//===----------------------------------------------------------------------===//

#include "dialects/Nn/IR/Nn.h"
#include "dialects/Pos/IR/Pos.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"
#include "passes/Encoding/CopyDefinition.h"
#include "passes/Encoding/EncodingLibrary.h"
#include "passes/Encoding/FoldOptions.h"
#include "passes/Encoding/Hosts.h"
#include "passes/Passes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

namespace sextant::passes {
#define GEN_PASS_DEF_LINKENCODINGS
#include "passes/Passes.h.inc"
} // namespace sextant::passes

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

/// A definition and the values of its options: what makes a copy distinct.
using CopyKey = std::pair<StringAttr, ArrayAttr>;
using Copies = llvm::MapVector<CopyKey, OwningOpRef<pos::EncodingOp>>;

namespace {
/// A use whose copies of definitions are as yet outside the module.
struct LinkedUse {
  pos::UseAttr use;
  pos::EncodingOp copy;
  std::vector<LinkedUse> hosts;
};
} // namespace

/// The use, naming its copy and those of its hosts.
static pos::UseAttr getLinkedAttr(const LinkedUse &linked) {
  MLIRContext *context = linked.use.getContext();
  SmallVector<Attribute> hosts;
  for (const LinkedUse &host : linked.hosts)
    hosts.push_back(getLinkedAttr(host));
  pos::EncodingOp copy = linked.copy;
  auto symbol = FlatSymbolRefAttr::get(copy.getSymNameAttr());
  StringAttr instance = linked.use.getInstance();
  if (hosts.empty())
    return pos::UseAttr::get(context, symbol, instance, {}, {});
  // Hosts are printed after options.
  return pos::UseAttr::get(context, symbol, instance,
                           DictionaryAttr::get(context),
                           ArrayAttr::get(context, hosts));
}

static LogicalResult verifyInstances(pos::SitesOwnerInterface owner) {
  llvm::StringSet<> instances;
  for (auto use : owner.getPendingUses().getAsRange<pos::UseAttr>())
    if (!instances.insert(use.getInstance().getValue()).second)
      return owner->emitOpError("has two uses called '")
             << use.getInstance().getValue()
             << "': give one of them another instance name";
  return success();
}

namespace {
/// Links the uses of a module, and puts the copies into it when all is well.
struct LinkEncodings : passes::impl::LinkEncodingsBase<LinkEncodings> {
  using LinkEncodingsBase::LinkEncodingsBase;

  void runOnOperation() override;

private:
  FailureOr<LinkedUse> link(pos::UseAttr use, Location user,
                            EncodingLibrary &library, Copies &copies);
  /// The copy for a use: as yet outside the module.
  FailureOr<pos::EncodingOp> getCopy(pos::UseAttr use, Location user,
                                     EncodingLibrary &library, Copies &copies);
};
} // namespace

FailureOr<pos::EncodingOp> LinkEncodings::getCopy(pos::UseAttr use,
                                                  Location user,
                                                  EncodingLibrary &library,
                                                  Copies &copies) {
  auto definition = library.find(use.getEncoding().getValue(), user);
  if (failed(definition) || failed(verifyHosts(use, *definition, user)))
    return failure();
  auto values = getOptionValues(*definition, use.getOptions(), user);
  if (failed(values))
    return failure();
  SmallVector<Attribute> key(values->begin(), values->end());
  auto &copy = copies[{definition->getSymNameAttr(),
                       ArrayAttr::get(&getContext(), key)}];
  if (!copy) {
    FailureOr<OwningOpRef<pos::EncodingOp>> special =
        copyDefinition(*definition, *values, user);
    if (failed(special))
      return failure();
    removeModelPart(**special);
    copy = std::move(*special);
    ++numLinked;
    numOptionsFolded += values->size();
    remark::passed(user,
                   remark::RemarkOpts::name("linked").category(getArgument()))
        << definition->getSymName()
        << remark::metric("Options", values->size());
  }
  return *copy;
}

FailureOr<LinkedUse> LinkEncodings::link(pos::UseAttr use, Location user,
                                         EncodingLibrary &library,
                                         Copies &copies) {
  FailureOr<pos::EncodingOp> copy = getCopy(use, user, library, copies);
  if (failed(copy))
    return failure();
  LinkedUse linked{use, *copy, {}};
  if (ArrayAttr hosts = use.getHosts())
    for (auto attr : hosts.getAsRange<pos::UseAttr>()) {
      FailureOr<LinkedUse> host = link(attr, user, library, copies);
      if (failed(host))
        return failure();
      linked.hosts.push_back(std::move(*host));
    }
  return linked;
}

/// The definitions of this module that a use and its hosts name. A function of
/// such a name is none of ours: the copy takes another name.
static void collectOriginals(const LinkedUse &linked, SymbolTable &symbols,
                             llvm::SmallSetVector<Operation *, 4> &originals) {
  if (auto original =
          symbols.lookup<pos::EncodingOp>(linked.use.getEncoding().getValue()))
    originals.insert(original);
  for (const LinkedUse &host : linked.hosts)
    collectOriginals(host, symbols, originals);
}

void LinkEncodings::runOnOperation() {
  ModuleOp module = getOperation();
  EncodingLibrary library(&getContext(), SearchPath(searchPath), module);
  SmallVector<pos::SitesOwnerInterface> owners;
  module.walk([&](pos::SitesOwnerInterface owner) {
    // What stands in a definition's functions is linked where they are called.
    if (owner.getPendingUses() && !owner->getParentOfType<pos::EncodingOp>())
      owners.push_back(owner);
  });

  // The definition behind each use, in the order of owners and of their uses.
  Copies copies;
  std::vector<LinkedUse> chosen;
  llvm::SmallSetVector<Operation *, 4> originals;
  SymbolTable symbols(module);
  for (pos::SitesOwnerInterface owner : owners) {
    if (failed(verifyInstances(owner)))
      return signalPassFailure();
    for (auto use : owner.getPendingUses().getAsRange<pos::UseAttr>()) {
      auto linked = link(use, owner.getLoc(), library, copies);
      if (failed(linked))
        return signalPassFailure();
      collectOriginals(*linked, symbols, originals);
      chosen.push_back(std::move(*linked));
    }
  }

  // Originals give way to their copies; the first copy keeps the name.
  for (Operation *original : originals)
    symbols.erase(original);
  for (auto &entry : copies)
    symbols.insert(entry.second.release());

  auto next = chosen.begin();
  for (pos::SitesOwnerInterface owner : owners) {
    SmallVector<Attribute> uses(owner.getPendingUses().size());
    for (Attribute &use : uses)
      use = getLinkedAttr(*next++);
    owner.setPendingUses(ArrayAttr::get(&getContext(), uses));
  }
}

//===- LinkEncodings.cpp - Brings definitions into the module -------------===//
//
// Every distinct use (encoding and values of its options) gets a copy of the
// definition with the options folded; the uses then name their copy. Uses that
// name hosts are refused: no place joins a host to an encoding.
//
//===----------------------------------------------------------------------===//

#include "dialects/Pos/IR/Pos.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"
#include "passes/Encoding/FoldOptions.h"
#include "passes/Encoding/Library.h"
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

static LogicalResult verifyHosts(pos::UseAttr use, pos::EncodingOp definition,
                                 Location user) {
  if (!use.getHosts() || use.getHosts().empty())
    return success();
  InFlightDiagnostic diag = emitError(user, "use '")
                            << use.getInstance().getValue()
                            << "' names hosts, but ";
  WalkResult host =
      definition.walk([](pos::HostOp) { return WalkResult::interrupt(); });
  diag << (host.wasInterrupted() ? "no pass joins a host to 'pos.host' of @"
                                 : "there is no 'pos.host' in @")
       << definition.getSymName();
  return diag;
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
struct LinkEncodings : passes::impl::LinkEncodingsBase<LinkEncodings> {
  using LinkEncodingsBase::LinkEncodingsBase;

  void runOnOperation() override;

private:
  /// The copy for a use: as yet outside the module.
  FailureOr<pos::EncodingOp> getCopy(pos::UseAttr use, Location user,
                                     Library &library, Copies &copies);
};
} // namespace

FailureOr<pos::EncodingOp> LinkEncodings::getCopy(pos::UseAttr use,
                                                  Location user,
                                                  Library &library,
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
    copy = definition->clone();
    foldOptions(*copy, *values);
    ++numLinked;
    numOptionsFolded += values->size();
    remark::passed(user,
                   remark::RemarkOpts::name("linked").category(getArgument()))
        << definition->getSymName()
        << remark::metric("Options", values->size());
  }
  return *copy;
}

void LinkEncodings::runOnOperation() {
  ModuleOp module = getOperation();
  Library library(&getContext(), SearchPath(searchPath), module);
  SmallVector<pos::SitesOwnerInterface> owners;
  module.walk([&](pos::SitesOwnerInterface owner) {
    if (owner.getPendingUses())
      owners.push_back(owner);
  });

  // The definition behind each use, in the order of owners and of their uses.
  Copies copies;
  SmallVector<pos::EncodingOp> chosen;
  llvm::SmallSetVector<Operation *, 4> originals;
  SymbolTable symbols(module);
  for (pos::SitesOwnerInterface owner : owners) {
    if (failed(verifyInstances(owner)))
      return signalPassFailure();
    for (auto use : owner.getPendingUses().getAsRange<pos::UseAttr>()) {
      auto copy = getCopy(use, owner.getLoc(), library, copies);
      if (failed(copy))
        return signalPassFailure();
      chosen.push_back(*copy);
      // A function of this name is none of ours: the copy takes another name.
      if (auto original =
              symbols.lookup<pos::EncodingOp>(use.getEncoding().getValue()))
        originals.insert(original);
    }
  }

  // Originals give way to their copies; the first copy keeps the name.
  for (Operation *original : originals)
    symbols.erase(original);
  for (auto &entry : copies)
    symbols.insert(entry.second.release());

  const pos::EncodingOp *next = chosen.begin();
  for (pos::SitesOwnerInterface owner : owners) {
    SmallVector<Attribute> uses;
    for (auto use : owner.getPendingUses().getAsRange<pos::UseAttr>()) {
      pos::EncodingOp copy = *next++;
      uses.push_back(pos::UseAttr::get(
          &getContext(), FlatSymbolRefAttr::get(copy.getSymNameAttr()),
          use.getInstance(), DictionaryAttr(), ArrayAttr()));
    }
    owner.setPendingUses(ArrayAttr::get(&getContext(), uses));
  }
}

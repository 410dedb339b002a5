//===- OptionReferences.cpp - Options that are handed on ------------------===//
//
// A reference is a flat symbol as the value of an option of a use.
//
//===----------------------------------------------------------------------===//

#include "dialects/Pos/IR/OptionReferences.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::pos;

using Names = llvm::SetVector<StringAttr>;

/// Calls back for a use and its hosts.
static void forEachUse(UseAttr use,
                       llvm::function_ref<void(UseAttr)> callback) {
  callback(use);
  if (ArrayAttr hosts = use.getHosts())
    for (auto host : hosts.getAsRange<UseAttr>())
      forEachUse(host, callback);
}

/// Calls back for the uses in the functions of an encoding.
static void
forEachUse(EncodingOp encoding,
           llvm::function_ref<void(Operation *, UseAttr)> callback) {
  encoding.walk([&](SitesOwnerInterface owner) {
    if (ArrayAttr uses = owner.getPendingUses())
      for (auto use : uses.getAsRange<UseAttr>())
        forEachUse(use, [&](UseAttr each) { callback(owner, each); });
  });
}

static Names getReferences(UseAttr use) {
  Names names;
  if (DictionaryAttr options = use.getOptions())
    for (NamedAttribute option : options)
      if (auto symbol = dyn_cast<FlatSymbolRefAttr>(option.getValue()))
        names.insert(symbol.getAttr());
  return names;
}

UseAttr pos::getExtended(EncodingOp encoding) {
  return encoding->getAttrOfType<UseAttr>(kExtendsAttr);
}

Names pos::getOptionReferences(EncodingOp encoding) {
  Names names;
  forEachUse(encoding, [&](Operation *, UseAttr use) {
    names.insert_range(getReferences(use));
  });
  return names;
}

Names pos::getUsedEncodings(EncodingOp encoding) {
  Names names;
  forEachUse(encoding, [&](Operation *, UseAttr use) {
    names.insert(use.getEncoding().getAttr());
  });
  return names;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

static UseAttr replace(UseAttr use, StringAttr option, Attribute value) {
  DictionaryAttr options = use.getOptions();
  if (options) {
    SmallVector<NamedAttribute> entries(options.getValue());
    for (NamedAttribute &entry : entries)
      if (auto symbol = dyn_cast<FlatSymbolRefAttr>(entry.getValue());
          symbol && symbol.getAttr() == option)
        entry.setValue(value);
    options = DictionaryAttr::get(use.getContext(), entries);
  }
  ArrayAttr hosts = use.getHosts();
  if (hosts)
    hosts = ArrayAttr::get(use.getContext(),
                           llvm::map_to_vector(hosts.getAsRange<UseAttr>(),
                                               [&](UseAttr host) -> Attribute {
                                                 return replace(host, option,
                                                                value);
                                               }));
  return UseAttr::get(use.getContext(), use.getEncoding(), use.getInstance(),
                      options, hosts);
}

void pos::replaceOptionReferences(EncodingOp encoding, StringAttr option,
                                  Attribute value) {
  if (UseAttr use = getExtended(encoding))
    encoding->setAttr(kExtendsAttr, replace(use, option, value));
  encoding.walk([&](SitesOwnerInterface owner) {
    ArrayAttr uses = owner.getPendingUses();
    if (!uses)
      return;
    SmallVector<Attribute> replaced;
    for (auto use : uses.getAsRange<UseAttr>())
      replaced.push_back(replace(use, option, value));
    owner.setPendingUses(ArrayAttr::get(encoding.getContext(), replaced));
  });
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

/// Whether an option can be given this: a number, a choice by its name, or, in
/// a definition, an option that is handed on.
static bool isOptionValue(Attribute value) {
  if (auto integer = dyn_cast<IntegerAttr>(value))
    return integer.getType().isSignlessIntOrIndex() &&
           integer.getValue().getBitWidth() <= 64;
  return isa<FloatAttr, StringAttr, FlatSymbolRefAttr>(value);
}

/// Verifies the values that an extended encoding's options are given. They are
/// read before anything is linked, which compares others with their options.
static LogicalResult verifyValues(EncodingOp encoding, UseAttr use) {
  if (DictionaryAttr options = use.getOptions())
    for (NamedAttribute option : options)
      if (!isOptionValue(option.getValue()))
        return encoding.emitOpError("extends ")
               << use.getEncoding() << " whose option '"
               << option.getName().getValue()
               << "' is no number, name or option, but " << option.getValue();
  return success();
}

LogicalResult pos::verifyOptionReferences(EncodingOp encoding) {
  Names options;
  for (auto option : encoding.getOps<OptionOp>())
    options.insert(option.getNameAttr());
  LogicalResult result = success();
  auto verify = [&](Operation *user, UseAttr use) {
    for (StringAttr name : getReferences(use)) {
      if (options.contains(name) || failed(result))
        continue;
      result = user->emitOpError("hands @")
               << name.getValue() << " on to " << use.getEncoding()
               << ", which is no option of @" << encoding.getSymName();
    }
  };
  if (Attribute extended = encoding->getAttr(kExtendsAttr)) {
    auto use = dyn_cast<UseAttr>(extended);
    if (!use)
      return encoding.emitOpError("attribute '")
             << kExtendsAttr << "' must be a #pos.use, got " << extended;
    if (failed(verifyValues(encoding, use)))
      return failure();
    forEachUse(use, [&](UseAttr each) { verify(encoding, each); });
  }
  forEachUse(encoding, verify);
  return result;
}

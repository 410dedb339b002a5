//===- Specialize.cpp - Bodies of the functions that a model calls --------===//
//
// A declaration names the use of an encoding whose function it is, and the
// extents of the model. It gets the function's body, made for them.
//
//===----------------------------------------------------------------------===//

#include "dialects/Nn/IR/Nn.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"
#include "passes/Encoding/CopyDefinition.h"
#include "passes/Encoding/EncodingLibrary.h"
#include "passes/Encoding/FoldOptions.h"
#include "passes/Encoding/SpecializeFunction.h"
#include "passes/Passes.h"

namespace sextant::passes {
#define GEN_PASS_DEF_SPECIALIZE
#include "passes/Passes.h.inc"
} // namespace sextant::passes

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

/// Values of extents from the attribute of a declaration.
static ExtentValues getExtents(DictionaryAttr extents) {
  return [extents](pos::Extent extent) -> std::optional<int64_t> {
    auto value = extents
                     ? extents.getAs<IntegerAttr>(pos::stringifyExtent(extent))
                     : IntegerAttr();
    return value ? std::optional(value.getInt()) : std::nullopt;
  };
}

/// The copy of the function that a declaration stands for.
static FailureOr<OwningOpRef<func::FuncOp>>
makeBody(func::FuncOp declaration, pos::UseAttr use, EncodingLibrary &library) {
  Location user = declaration.getLoc();
  auto definition = library.find(use.getEncoding().getValue(), user);
  if (failed(definition))
    return failure();
  auto values = getOptionValues(*definition, use.getOptions(), user);
  if (failed(values))
    return failure();
  auto copy = copyDefinition(*definition, *values, user);
  if (failed(copy))
    return failure();
  StringRef name = declaration.getSymName();
  func::FuncOp function;
  if (name.consume_front(use.getInstance().getValue()) &&
      name.consume_front("."))
    function = (*copy)->lookupSymbol<func::FuncOp>(name);
  if (!function) {
    auto error = declaration.emitError("'@")
                 << declaration.getSymName() << "' is not '@"
                 << use.getInstance().getValue() << ".' and a function of "
                 << use.getEncoding();
    if ((*definition)->getParentOp() == declaration->getParentOp())
      error.attachNote((*definition)->getLoc())
          << "this is the module's own definition; one that "
             "--pos-link-encodings has brought has no functions left: run "
             "--pos-specialize first";
    return error;
  }
  auto extents = declaration->getAttrOfType<DictionaryAttr>(kExtentsAttr);
  FailureOr<OwningOpRef<func::FuncOp>> special = failure();
  {
    // What is wrong stands in the definition; whose sizes it is, here.
    ScopedDiagnosticHandler handler(
        declaration.getContext(), [&](Diagnostic &diagnostic) {
          diagnostic.attachNote(user)
              << "in '@" << declaration.getSymName() << "' of the model";
          return failure(); // others print it
        });
    special = specializeFunction(
        function, declaration.getSymName(),
        SmallVector<Type>(declaration.getArgumentTypes()), getExtents(extents));
  }
  if (failed(special))
    return failure();
  if ((*special)->getFunctionType() == declaration.getFunctionType())
    return special;
  return declaration.emitError("'@")
         << declaration.getSymName() << "' gives "
         << (*special)->getResultTypes() << ", but is declared to give "
         << declaration.getResultTypes();
}

namespace {
/// Gives bodies to the declarations of a module.
struct Specialize : passes::impl::SpecializeBase<Specialize> {
  using SpecializeBase::SpecializeBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    EncodingLibrary library(&getContext(), SearchPath(searchPath), module);
    for (auto declaration :
         llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
      auto use = declaration->getAttrOfType<pos::UseAttr>(kUseAttr);
      if (!use || !declaration.isDeclaration())
        continue;
      auto body = makeBody(declaration, use, library);
      if (failed(body))
        return signalPassFailure();
      remark::passed(
          declaration.getLoc(),
          remark::RemarkOpts::name("specialized").category(getArgument()))
          << declaration.getSymName();
      module.insert(declaration, body->release());
      declaration.erase();
      ++numFunctions;
    }
  }
};
} // namespace

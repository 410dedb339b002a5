//===- EncodingLibrary.cpp - Definitions of encodings by name -------------===//
//
// A definition of the module comes before one of the same name in a file.
//
//===----------------------------------------------------------------------===//

#include "passes/Encoding/EncodingLibrary.h"
#include "dialects/Nn/IR/Nn.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Encoding/NearestNames.h"
#include "passes/Encoding/ParseText.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

void passes::registerEncodingDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, func::FuncDialect, math::MathDialect,
                  nn::NnDialect, pos::PosDialect, scf::SCFDialect,
                  tensor::TensorDialect>();
}

EncodingLibrary::EncodingLibrary(MLIRContext *context, SearchPath path,
                                 ModuleOp module)
    : context(context), path(std::move(path)), module(module) {
  if (module)
    for (auto encoding : module.getOps<pos::EncodingOp>())
      known.try_emplace(encoding.getSymName(), encoding);
}

FailureOr<pos::EncodingOp> EncodingLibrary::find(StringRef name,
                                                 Location user) {
  if (pos::EncodingOp encoding = known.lookup(name))
    return encoding;
  std::optional<std::string> path = this->path.find(name);
  if (!path)
    return emitError(user, "unknown encoding @")
           << name << nearestNames(name, list()) << "; its file would be "
           << name << ".mlir in a folder of SEXTANT_PATH"
           << this->path.describeMissing();
  OwningOpRef<ModuleOp> file = parseTextFile(*path, context);
  if (!file)
    return emitError(user, "encoding @") << name << ": cannot use " << *path;
  for (auto encoding : file->getOps<pos::EncodingOp>()) {
    if (encoding.getSymName() != name)
      continue;
    files.push_back(std::move(file));
    known.try_emplace(name, encoding);
    return encoding;
  }
  return emitError(user, "expected @")
         << name << " in " << *path << ", which does not define it";
}

SmallVector<std::string> EncodingLibrary::list() const {
  SmallVector<std::string> names = path.list();
  for (const auto &entry : known)
    names.push_back(entry.getKey().str());
  llvm::sort(names);
  names.erase(llvm::unique(names), names.end());
  return names;
}

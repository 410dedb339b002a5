//===- TableReads.cpp - Where a model reads tables ------------------------===//
//
// The model is taken as far as its sites, and each op that indexes a table is
// judged by what its index is made of.
//
//===----------------------------------------------------------------------===//

#include "tools/support/TableReads.h"
#include "dialects/Pos/IR/Pos.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"
#include "tools/support/InputFile.h"
#include "tools/support/ParsedModel.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace sextant;

/// Whether an index is inside of every dimension that is made for it.
static bool isInside(Value index) {
  if (auto argument = dyn_cast<BlockArgument>(index))
    return isa<pos::SumOp>(argument.getOwner()->getParentOp());
  return isa<pos::HeadOp, pos::BatchOp>(index.getDefiningOp());
}

static bool mayBeOutside(Operation *op) {
  if (auto payloadOp = dyn_cast<pos::PayloadOpInterface>(op))
    return !llvm::all_of(
        payloadOp.getTableReads(),
        [](const pos::TableRead &read) { return isInside(read.index); });
  return isa<pos::WeightedRowsOp>(op);
}

/// The place in the text, and the op.
static std::string spell(Operation *op) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  op->getLoc()->walk([&](Location location) {
    auto place = dyn_cast<FileLineColLoc>(location);
    if (!place)
      return WalkResult::advance();
    stream << place.getFilename().getValue() << ':' << place.getLine() << ':'
           << place.getColumn() << ": ";
    return WalkResult::interrupt();
  });
  stream << '\'' << op->getName() << '\'';
  return text;
}

std::vector<std::string>
tools::findTableReads(const std::string &path,
                      const codegen::CompileOptions &options) {
  runtime::Result<std::string> file = readInputFile(path);
  if (!file || isArtifact(*file))
    return {}; // compiled code does not say
  ParsedModel model(*file, path);
  if (!model.get())
    return {};
  passes::LinkEncodingsOptions link;
  link.searchPath = options.searchPath;
  PassManager manager(&model.getContext());
  manager.addPass(passes::createLinkEncodings(link));
  manager.addPass(passes::createInlineEncodings());
  if (failed(manager.run(model.get())))
    return {};
  std::vector<std::string> found;
  model.get().walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (!mayBeOutside(op))
      return;
    std::string text = spell(op);
    if (!llvm::is_contained(found, text))
      found.push_back(text);
  });
  return found;
}

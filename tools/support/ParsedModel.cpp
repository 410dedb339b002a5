//===- ParsedModel.cpp - A model of a file, ready to compile --------------===//

#include "tools/support/ParsedModel.h"
#include "codegen/Driver/Compile.h"
#include "mlir/Bytecode/BytecodeReader.h"
#include "passes/Encoding/ParseText.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::tools;

static DialectRegistry makeRegistry() {
  DialectRegistry registry;
  codegen::registerCompilerDialects(registry);
  return registry;
}

ParsedModel::ParsedModel(StringRef bytes, StringRef path)
    : context(makeRegistry(), MLIRContext::Threading::DISABLED),
      handler(sources, &context) {
  context.printOpOnDiagnostic(false); // whose text the user did not write
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBuffer(bytes, path),
                             llvm::SMLoc());
  module = passes::parseText(sources, &context);
}

bool tools::isBytecode(StringRef bytes) {
  return mlir::isBytecode(llvm::MemoryBufferRef(bytes, ""));
}

//===- ParseText.cpp - Modules and definitions as they are written --------===//
//
// A literal of type f32 is rounded by MLIR's parser. Here its number is read
// again, from where the parser found the op in the text, and kept in f64 beside
// it. Values of options are treated likewise.
//
//===----------------------------------------------------------------------===//

#include "passes/Encoding/ParseText.h"
#include "dialects/Pos/IR/Literals.h"
#include "dialects/Pos/IR/Pos.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/AsmParser/AsmParserState.h"
#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

//===----------------------------------------------------------------------===//
// Literals
//===----------------------------------------------------------------------===//

/// Takes the text of a dictionary of attributes away, if one comes next.
static StringRef skipDictionary(StringRef text) {
  text = text.ltrim();
  if (!text.starts_with("{"))
    return text;
  int depth = 0;
  bool isString = false;
  for (size_t at = 0; at < text.size(); ++at) {
    char c = text[at];
    if (c == '\\' && isString)
      ++at;
    else if (c == '"')
      isString = !isString;
    else if (!isString && c == '{')
      ++depth;
    else if (!isString && c == '}' && --depth == 0)
      return text.drop_front(at + 1).ltrim();
  }
  return {};
}

/// The text from an op's attribute `value` on: after the name in the pretty
/// form, after its own name in the generic one.
static StringRef findValue(Operation *op, StringRef text) {
  if (text.starts_with("\"")) {
    size_t properties = text.find("<{");
    size_t value = text.find("value = ", properties);
    return properties == StringRef::npos || value == StringRef::npos
               ? StringRef()
               : text.drop_front(value + StringRef("value = ").size());
  }
  if (isa<pos::OptionOp>(op)) // Its type has no "=".
    return text.split(" = ").second.ltrim();
  return skipDictionary(text.drop_front(op->getName().getStringRef().size()));
}

/// The decimal number that a text begins with; none for bits and integers.
static std::optional<double> readDecimal(StringRef text) {
  if (text.starts_with("0x"))
    return std::nullopt;
  StringRef number = text.take_while([](char c) {
    return llvm::isDigit(c) || c == '.' || c == 'e' || c == 'E' || c == '+' ||
           c == '-';
  });
  double value = 0;
  if (number.empty() || number.getAsDouble(value))
    return std::nullopt;
  return value;
}

/// The elements that a text begins with, in f64; null for bits.
static DenseElementsAttr readElements(StringRef text, DenseElementsAttr as) {
  auto [elements, rest] = text.split('>');
  if (!elements.starts_with("dense<") || elements.contains('"') ||
      elements.contains("0x"))
    return {};
  Type type = as.getType().clone(Float64Type::get(as.getContext()));
  return dyn_cast_or_null<DenseElementsAttr>(
      parseAttribute((elements + ">").str(), as.getContext(), type));
}

static void keepLiteral(Operation *op, StringRef text) {
  if (pos::getExact(op)) // printed beside the literal, which was rounded
    return;
  Attribute value;
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    value = constant.getValue();
  else if (auto option = dyn_cast<pos::OptionOp>(op))
    value = option.getValue();
  auto typed = dyn_cast_or_null<TypedAttr>(value);
  if (!typed || !getElementTypeOrSelf(typed.getType()).isF32())
    return;
  StringRef literal = findValue(op, text);
  if (auto elements = dyn_cast<DenseElementsAttr>(typed)) {
    if (DenseElementsAttr exact = readElements(literal, elements))
      pos::keepExact(op, elements, exact);
  } else if (std::optional<double> number = readDecimal(literal)) {
    pos::keepExact(op, cast<FloatAttr>(typed),
                   FloatAttr::get(Float64Type::get(op->getContext()), *number));
  }
}

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

OwningOpRef<ModuleOp> passes::parseText(const llvm::SourceMgr &sources,
                                        MLIRContext *context) {
  const llvm::MemoryBuffer *buffer =
      sources.getMemoryBuffer(sources.getMainFileID());
  ParserConfig config(context);
  if (buffer->getBuffer().starts_with("\xef\xbb\xbf")) {
    emitError(
        FileLineColLoc::get(context, buffer->getBufferIdentifier(), 1, 1),
        "the text begins with a byte order mark, which MLIR has not: save "
        "it as UTF-8 without one");
    return {};
  }
  if (isBytecode(*buffer))
    return parseSourceFile<ModuleOp>(sources, config);
  Block block;
  AsmParserState state;
  if (failed(parseAsmSourceFile(sources, &block, config, &state)))
    return {};
  for (const AsmParserState::OperationDefinition &found : state.getOpDefs()) {
    const char *begin = found.scopeLoc.Start.getPointer();
    keepLiteral(found.op,
                StringRef(begin, found.scopeLoc.End.getPointer() - begin));
  }
  auto location = FileLineColLoc::get(context, buffer->getBufferIdentifier(),
                                      /*line=*/0, /*column=*/0);
  if (llvm::hasSingleElement(block) && isa<ModuleOp>(block.front())) {
    auto module = cast<ModuleOp>(block.front());
    module->remove();
    return module;
  }
  OwningOpRef<ModuleOp> module = ModuleOp::create(location);
  module->getBody()->getOperations().splice(module->getBody()->end(),
                                            block.getOperations());
  return module;
}

OwningOpRef<ModuleOp> passes::parseText(StringRef text, StringRef name,
                                        MLIRContext *context) {
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBuffer(text, name),
                             llvm::SMLoc());
  return parseText(sources, context);
}

OwningOpRef<ModuleOp> passes::parseTextFile(StringRef path,
                                            MLIRContext *context) {
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> buffer = openInputFile(path, &message);
  if (!buffer) {
    emitError(UnknownLoc::get(context), message);
    return {};
  }
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  return parseText(sources, context);
}

//===- OptionReferences.h - Options that are handed on ----------*- C++ -*-===//
//
// A function of an encoding may use encodings (`pos.map_rows`), and an encoding
// may say by the attribute `extends` as which use it starts. The options of
// such a use are numbers and names, or symbols that stand for options of the
// encoding itself, whose values are then handed on:
//
//   pos.map_rows %x of query uses [#pos.use<@turned, "start", {base = @base}>]
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_DIALECTS_POS_IR_OPTIONREFERENCES_H
#define SEXTANT_DIALECTS_POS_IR_OPTIONREFERENCES_H

#include "dialects/Pos/IR/Pos.h"
#include "llvm/ADT/SetVector.h"

namespace sextant::pos {

/// The attribute of an encoding that holds the use as which it starts.
inline constexpr llvm::StringLiteral kExtendsAttr = "extends";

/// The use as which an encoding starts, or null.
UseAttr getExtended(EncodingOp encoding);

/// The names of the options that functions of an encoding hand on.
llvm::SetVector<mlir::StringAttr> getOptionReferences(EncodingOp encoding);

/// The names of the encodings that functions of an encoding use.
llvm::SetVector<mlir::StringAttr> getUsedEncodings(EncodingOp encoding);

/// Replaces an option by its value where an encoding hands it on. The value of
/// an option with choices is the name of one.
void replaceOptionReferences(EncodingOp encoding, mlir::StringAttr option,
                             mlir::Attribute value);

/// Verifies that what is handed on are options of the encoding.
mlir::LogicalResult verifyOptionReferences(EncodingOp encoding);

} // namespace sextant::pos

#endif // SEXTANT_DIALECTS_POS_IR_OPTIONREFERENCES_H

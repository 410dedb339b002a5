//===- FoldOptions.h - Values of an encoding's options ----------*- C++ -*-===//
//
// A use gives values for some options of an encoding, the others have defaults.
// Linking makes constants of all.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_ENCODING_FOLDOPTIONS_H
#define SEXTANT_PASSES_ENCODING_FOLDOPTIONS_H

#include "dialects/Pos/IR/Pos.h"

namespace sextant::passes {

/// The constant that `option` stands for when a use gives it `value` (null: the
/// default). Choices are given by name; numbers are converted where the value
/// is kept and must lie in the option's range. A number for an option of f32
/// that f32 does not hold is one of f64. Fails with a diagnostic at `user`.
mlir::FailureOr<mlir::TypedAttr> getOptionValue(pos::OptionOp option,
                                                mlir::Attribute value,
                                                mlir::Location user);

/// Values of all options of a definition for a use that gives `given`, in the
/// order of declaration. A name that is no option is an error at `user`.
mlir::FailureOr<llvm::SmallVector<mlir::TypedAttr>>
getOptionValues(pos::EncodingOp encoding, mlir::DictionaryAttr given,
                mlir::Location user);

/// Replaces an option by a constant: where the definition uses it or hands it
/// on, and where an argument of a function stands for it.
void foldOption(pos::OptionOp option, mlir::TypedAttr value);

/// Replaces the options of a definition by constants.
void foldOptions(pos::EncodingOp encoding,
                 llvm::ArrayRef<mlir::TypedAttr> values);

} // namespace sextant::passes

#endif // SEXTANT_PASSES_ENCODING_FOLDOPTIONS_H

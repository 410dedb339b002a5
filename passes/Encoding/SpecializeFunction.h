//===- SpecializeFunction.h - A function for a model ------------*- C++ -*-===//
//
// A function of an encoding is written for any options and sizes. A model calls
// a copy of it that is made for its own.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_ENCODING_SPECIALIZEFUNCTION_H
#define SEXTANT_PASSES_ENCODING_SPECIALIZEFUNCTION_H

#include "dialects/Pos/IR/PosFunctions.h"
#include "mlir/IR/OwningOpRef.h"
#include "passes/Analysis/Evaluate.h"

namespace sextant::passes {

/// The attributes of the declaration of a specialised function: the use whose
/// function it is, and the extents of the model.
inline constexpr llvm::StringLiteral kUseAttr = "pos.use";
inline constexpr llvm::StringLiteral kExtentsAttr = "pos.extents";

using ExtentValues = std::function<std::optional<int64_t>(pos::Extent)>;

/// A private copy, called `symbol`, of a function of a definition whose options
/// are folded: for arguments of these types, with extents as constants, without
/// calls of helpers. Types of results follow. Fails with a diagnostic at the op
/// or argument that does not fit.
mlir::FailureOr<mlir::OwningOpRef<mlir::func::FuncOp>>
specializeFunction(mlir::func::FuncOp function, llvm::StringRef symbol,
                   llvm::ArrayRef<mlir::Type> arguments,
                   const ExtentValues &extents);

/// The tensors of a model by their roles.
struct ModelTensors {
  mlir::RankedTensorType positions;
  mlir::RankedTensorType input;
  mlir::RankedTensorType attention;
  mlir::RankedTensorType mlp;
};

/// A function of an encoding as a model calls it.
struct FunctionCopy {
  pos::ModelFunction which;
  mlir::OwningOpRef<mlir::func::FuncOp> function; ///< keeps the roles
};

/// Copies of all functions of a definition that a model calls, in the order
/// initial_state, produce, after_attention, after_mlp, auxiliary_loss, each
/// called `<instance>.<function>`. A state that changes its type is an error.
mlir::FailureOr<std::vector<FunctionCopy>>
specializeFunctions(pos::EncodingOp definition, llvm::StringRef instance,
                    const ModelTensors &tensors, const ExtentValues &extents,
                    Evaluator &evaluator);

} // namespace sextant::passes

#endif // SEXTANT_PASSES_ENCODING_SPECIALIZEFUNCTION_H

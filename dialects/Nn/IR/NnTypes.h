//===- NnTypes.h - Questions about types of operands ------------*- C++ -*-===//
//
// The types of results are inferred with these functions. A dynamic dimension
// matches any; where two operands share a dimension, a static size wins.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_DIALECTS_NN_IR_NNTYPES_H
#define SEXTANT_DIALECTS_NN_IR_NNTYPES_H

#include "dialects/Nn/IR/Nn.h"

namespace sextant::nn {

using Where = std::optional<mlir::Location>;
using Types = llvm::SmallVectorImpl<mlir::Type>;
using Shape = llvm::SmallVector<int64_t>;

mlir::RankedTensorType typeOf(mlir::Value value);

/// A tensor of the elements of `like`.
mlir::RankedTensorType tensorOf(llvm::ArrayRef<int64_t> shape,
                                mlir::Value like);

llvm::LogicalResult expectRank(Where loc, llvm::StringRef what,
                               mlir::Value value, int64_t rank);
llvm::LogicalResult expectSize(Where loc, llvm::StringRef what,
                               int64_t expected, int64_t got);
llvm::LogicalResult expectSameElements(Where loc, mlir::ValueRange values);
llvm::LogicalResult expectDim(Where loc, int64_t dim, mlir::Value value);
llvm::LogicalResult expectDims(Where loc, llvm::ArrayRef<int64_t> dims,
                               mlir::Value value);
llvm::LogicalResult expectNotScalar(Where loc, llvm::StringRef what,
                                    mlir::Value value);

/// Combines one more shape with `shape`, as PyTorch broadcasts; false if they
/// do not fit.
bool broadcastInto(Shape &shape, llvm::ArrayRef<int64_t> more);

/// The shape of several values combined, as PyTorch broadcasts.
llvm::FailureOr<Shape> broadcast(Where loc, mlir::ValueRange values);

/// The result has the broadcast shape of the operands and their element type.
llvm::LogicalResult inferBroadcast(Where loc, mlir::ValueRange operands,
                                   Types &types);

/// Both operands have the type of the result.
llvm::LogicalResult inferSame(Where loc, mlir::Value a, mlir::Value b,
                              Types &types);

} // namespace sextant::nn

#endif // SEXTANT_DIALECTS_NN_IR_NNTYPES_H

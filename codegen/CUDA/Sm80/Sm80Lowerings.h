//===- Sm80Lowerings.h - Attention on tensor cores --------------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_SM80LOWERINGS_H
#define SEXTANT_CODEGEN_CUDA_SM80_SM80LOWERINGS_H

#include "codegen/Emit/Lowering.h"

namespace sextant::codegen::sm80 {

/// Why tensor cores do not compute a forward, as a part of a sentence; an empty
/// text if they do.
std::string findForwardObstacle(const Lowering &lowering);
/// Likewise a backward; what obstructs its forward does, too.
std::string findBackwardObstacle(const Lowering &lowering);

/// Of a score of all heads, which has kernels of its own. What obstructs any
/// forward is no question here, nor what obstructs this one in its backward.
std::string findAllHeadsObstacle(const Lowering &lowering);
std::string findAllHeadsBackwardObstacle(const Lowering &lowering);
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerAllHeadsForward(const Lowering &lowering);
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerAllHeadsBackward(const Lowering &lowering);

/// Lowers a forward without an obstacle.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerForward(const Lowering &lowering);

/// Lowers a backward without an obstacle.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerBackward(const Lowering &lowering);

} // namespace sextant::codegen::sm80

#endif // SEXTANT_CODEGEN_CUDA_SM80_SM80LOWERINGS_H

//===- ColumnLoop.h - A loop over columns of scores -------------*- C++ -*-===//
//
// Scores of a thread lie in registers, which have no numbers at run time, so
// what is done to them is written once for each. A large payload would be most
// of a kernel then, and a compiler that moves its operations about needs more
// registers than there are. So it stands in a loop, and the scores wait in
// memory of the thread meanwhile.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CUDA_SM80_COLUMNLOOP_H
#define SEXTANT_CODEGEN_CUDA_SM80_COLUMNLOOP_H

#include "codegen/CUDA/Sm80/FragmentPoint.h"

namespace sextant::codegen {

/// Whether a payload is so large that it stands in a loop.
bool standsInLoop(mlir::Block &payload);

/// Memory of the thread for so many f32, at the start of the function.
mlir::Value reserveNumbers(KernelBuilder &kernel, int64_t count,
                           mlir::Block &start);

/// Goes through the scores of a thread, those of 8 columns of a tile at a time.
class ColumnLoop {
public:
  using Values = KernelBuilder::Values;
  /// Makes of numbers at the element where the point stands others.
  using Body = llvm::function_ref<Values(mlir::ValueRange numbers)>;

  /// `start`: the first block of the function, where its memory is reserved.
  ColumnLoop(KernelBuilder &kernel, FragmentPoint &point, const ScoreTile &tile,
             mlir::Block &start)
      : kernel(kernel), point(point), tile(tile), start(start) {}

  /// `given`: numbers at all elements of the tile, one after the other. Gives
  /// `results` numbers likewise, the first ones of all elements first.
  Values run(llvm::ArrayRef<mlir::ValueRange> given, size_t results, Body body);

private:
  mlir::Value getGroups();
  int64_t getFirst(int64_t group, int64_t block) const;
  void emitColumns(mlir::Value group, llvm::ArrayRef<mlir::Value> from,
                   llvm::ArrayRef<mlir::Value> to, Body body);

  KernelBuilder &kernel;
  FragmentPoint &point;
  const ScoreTile &tile;
  mlir::Block &start;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_SM80_COLUMNLOOP_H

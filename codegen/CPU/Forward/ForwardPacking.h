//===- ForwardPacking.h - Operands as the forward's products read them ----===//

#ifndef SEXTANT_CODEGEN_CPU_FORWARD_FORWARDPACKING_H
#define SEXTANT_CODEGEN_CPU_FORWARD_FORWARDPACKING_H

#include "codegen/CPU/Forward/ForwardItem.h"

namespace sextant::codegen {

/// Packs query rows, transposed and with their factor, and the rows of keys and
/// values of a block, which are used in place where rows lie one behind the
/// other.
class ForwardPacking {
public:
  explicit ForwardPacking(ForwardItem &item);

  /// The row maps of an operand stand at the head at hand.
  void enterHead(pos::RowOperand operand);
  /// Packs the vector of queries that begins at row `first` of the tensor to
  /// the lanes of the panel from `lane` on.
  void packQueries(Index lane, Index first);
  /// Packs the positions of the item's first `count` queries for a point.
  void packPositions(ForwardPoint &point, Index count);
  /// The rows of the block, `keyWords` and `valueWords` apart.
  mlir::Value prepareKeys();
  mlir::Value prepareValues();
  /// V^T as a matrix unit reads it, which prepareValues has made for the head.
  mlir::Value getTurnedValues();
  /// Asks for rows of the next block of keys, of the first one after the last:
  /// the share of the group of keys at `part`, of all there are.
  void prefetchShare(Index part, Index all);

private:
  mlir::Value prepareRows(unsigned tensor, int64_t dim,
                          llvm::ArrayRef<RowMap> maps, RowPoint &point,
                          bool alwaysCopies, int64_t multiple, int64_t to,
                          int64_t rowWords);
  mlir::Value interleaveRows(mlir::Value rows, int64_t rowWords);
  mlir::Value turnRows(mlir::Value rows, int64_t rowWords);
  int64_t getPairedWords() const;
  void emitPrefetch(Index part, Index all);

  ForwardItem &item;
  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  const ForwardLaunch &launch;
  RowPoint queryPoint, keyPoint, valuePoint;
  // Places in scratch memory.
  int64_t rows;         ///< rows of Q, before they are transposed
  int64_t keys;         ///< copied rows of K
  int64_t values;       ///< copied rows of V
  int64_t pairs;        ///< rows of V, interleaved in pairs, or V^T [heads]
  int64_t keyTerms = 0; ///< terms of rows of K
  int64_t mappedRow;    ///< one row of f32
  int64_t positions;    ///< i32 [axes][panels * panel]
};

/// Transposes a vector of rows of `words` words each: word k of row l, times
/// the factor, goes to to[k * panel + l].
void packTransposed(KernelBuilder &kernel, llvm::ArrayRef<mlir::Value> rows,
                    int64_t words, int64_t panel, mlir::Value to,
                    double factor = 1.0);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_FORWARD_FORWARDPACKING_H

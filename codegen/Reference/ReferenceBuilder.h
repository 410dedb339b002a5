//===- ReferenceBuilder.h - What the reference writes with ------*- C++ -*-===//
//
// Internal to codegen/Reference: scalars of the compute type, matrices of them
// in scratch memory, and rows of tensors.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_REFERENCE_REFERENCEBUILDER_H
#define SEXTANT_CODEGEN_REFERENCE_REFERENCEBUILDER_H

#include "codegen/Emit/KernelFunction.h"

namespace sextant::codegen {

class ReferencePoint;

/// A matrix of the compute type in scratch memory, row by row.
struct Matrix {
  mlir::Value base;
  Index width = 1;
};

/// Writes the scalar loops of a reference kernel.
class ReferenceBuilder {
public:
  /// `point` is where payloads stand.
  ReferenceBuilder(KernelBuilder &kernel, ArgumentBlock &arguments,
                   ReferencePoint &point, mlir::Value scratch);

  KernelBuilder &k;
  ArgumentBlock &arguments;
  ReferencePoint &point;
  const mlir::FloatType type;

  mlir::Value constant(double value);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  /// What `next` makes of each number below `count` and of what came before.
  mlir::Value
  fold(Index count, mlir::Value initial,
       llvm::function_ref<mlir::Value(mlir::Value number, mlir::Value sofar)>
           next);
  /// The sum of a term per number below `count`.
  mlir::Value sum(Index count,
                  llvm::function_ref<mlir::Value(mlir::Value number)> term);

  /// The next rows x width elements of scratch memory.
  Matrix allocate(Index rows, Index width);
  mlir::Value load(const Matrix &matrix, Index row, Index column);
  void store(const Matrix &matrix, Index row, Index column, mlir::Value value);
  void addTo(const Matrix &matrix, Index row, Index column, mlir::Value value);
  void clear(const Matrix &matrix, Index rows);
  /// The sum over columns of a[row] times b[row].
  mlir::Value dot(const Matrix &a, Index rowA, const Matrix &b, Index rowB);
  /// target[row] += factor * source[from], as long as the first.
  void addRow(const Matrix &target, Index row, mlir::Value factor,
              const Matrix &source, Index from);

  /// An element of a tensor in the compute type, and back.
  mlir::Value loadElement(unsigned tensor, llvm::ArrayRef<Index> indices);
  void storeElement(unsigned tensor, llvm::ArrayRef<Index> indices,
                    mlir::Value value);
  /// Row tensor[indices] to the first columns of a row of a matrix, and back.
  void loadRow(unsigned tensor, llvm::ArrayRef<Index> indices,
               const Matrix &matrix, Index row);
  void storeRow(unsigned tensor, llvm::ArrayRef<Index> indices,
                const Matrix &matrix, Index row);

private:
  mlir::Value getAddress(const Matrix &matrix, Index row, Index column);

  mlir::Value scratch;
  Index used = 0;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_REFERENCE_REFERENCEBUILDER_H

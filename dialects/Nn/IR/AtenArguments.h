//===- AtenArguments.h - Arguments of a call of ATen ------------*- C++ -*-===//
//
// An op of the model describes the call of ATen that it stands for with this
// class, and the passes of the schedule make an instruction of the description.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_DIALECTS_NN_IR_ATENARGUMENTS_H
#define SEXTANT_DIALECTS_NN_IR_ATENARGUMENTS_H

#include "mlir/IR/Builders.h"

namespace sextant::nn {

/// One argument: tensors, integers known at run time, or a constant.
struct AtenArgument {
  enum class Kind { Tensor, Tensors, Integer, Sizes, Constant };
  Kind kind;
  llvm::SmallVector<mlir::Value> values = {};
  mlir::Attribute constant = {};
};

/// The form of an operator that writes its first result over an operand.
struct InPlaceForm {
  llvm::StringRef name = ""; ///< empty: there is none
  unsigned operand = 0;      ///< the operand that is overwritten
  bool appendsOut = false;   ///< whether that operand is given again as `out`
};

/// The arguments of one call, appended in the order of the operator's schema.
class AtenArguments {
public:
  explicit AtenArguments(mlir::OpBuilder &builder) : builder(builder) {}

  /// A tensor; a null value is an absent one.
  void tensor(mlir::Value value);
  void tensors(mlir::ValueRange values);
  void integer(int64_t value);
  /// A number, or an index value.
  void integer(mlir::OpFoldResult value);
  /// Where a range of one dimension ends, as ATen counts: from the end where
  /// the start does.
  void endOf(mlir::OpFoldResult start, mlir::OpFoldResult length);
  void real(const llvm::APFloat &value);
  void boolean(bool value);
  void integers(llvm::ArrayRef<int64_t> values);
  /// One flag per optional result that is asked for.
  void mask(llvm::ArrayRef<bool> values);
  void string(llvm::StringRef value);
  void dtype(mlir::Type type);
  void none();
  /// The shape of a type whose dynamic dimensions are given by index values.
  void shape(mlir::Type type, mlir::ValueRange dynamicSizes);
  /// The shape of a value.
  void shapeOf(mlir::Value value);
  /// One of its dimensions, as an integer.
  void dimensionOf(mlir::Value value, int64_t dimension);

  llvm::ArrayRef<AtenArgument> get() const { return arguments; }

private:
  mlir::OpBuilder &builder;
  llvm::SmallVector<AtenArgument> arguments;
};

} // namespace sextant::nn

#endif // SEXTANT_DIALECTS_NN_IR_ATENARGUMENTS_H

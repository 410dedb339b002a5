//===- DenseCalls.cpp - Creation of calls of ATen -------------------------===//
//
// Operands of a call are numbered, and attributes say which of them each
// argument of the operator takes.
//
//===----------------------------------------------------------------------===//

#include "passes/Schedule/DenseCalls.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sextant;

exec::DenseOp passes::createDense(OpBuilder &builder, Location loc,
                                  StringRef op,
                                  ArrayRef<nn::AtenArgument> arguments,
                                  TypeRange results) {
  using Kind = nn::AtenArgument::Kind;
  MLIRContext *context = builder.getContext();
  SmallVector<Value> operands;
  SmallVector<Attribute> attributes;
  for (const nn::AtenArgument &argument : arguments) {
    int64_t first = operands.size();
    llvm::append_range(operands, argument.values);
    auto numbers = llvm::to_vector(
        llvm::seq<int64_t>(first, static_cast<int64_t>(operands.size())));
    switch (argument.kind) {
    case Kind::Tensor:
      attributes.push_back(exec::TensorAttr::get(context, first));
      break;
    case Kind::Tensors:
      attributes.push_back(exec::TensorsAttr::get(context, numbers));
      break;
    case Kind::Integer:
      attributes.push_back(exec::IntegerAttr::get(context, first));
      break;
    case Kind::Sizes:
      attributes.push_back(exec::IntegersAttr::get(context, numbers));
      break;
    case Kind::Constant:
      attributes.push_back(argument.constant);
      break;
    }
  }
  return exec::DenseOp::create(builder, loc, results, op, operands,
                               builder.getArrayAttr(attributes));
}

Value passes::createDenseValue(OpBuilder &builder, Location loc, StringRef op,
                               ArrayRef<nn::AtenArgument> arguments,
                               Type result) {
  return createDense(builder, loc, op, arguments, result).getResult(0);
}

Value passes::createScalar(OpBuilder &builder, Location loc, Type elementType,
                           double value) {
  auto type = RankedTensorType::get({}, elementType);
  return arith::ConstantOp::create(
      builder, loc,
      DenseElementsAttr::get(type, builder.getFloatAttr(elementType, value)));
}

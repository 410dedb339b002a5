//===- Lowering.cpp - An op that becomes launches of kernels --------------===//

#include "codegen/Emit/Lowering.h"
#include "dialects/Exec/IR/Exec.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

ModuleOp codegen::getKernelsModule(ModuleOp module) {
  if (auto kernels = module.lookupSymbol<ModuleOp>(kernelsName))
    return kernels;
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  return ModuleOp::create(builder, module.getLoc(), kernelsName);
}

Value Lowering::getDim(Value tensor, int64_t dim) const {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (!type.isDynamicDim(dim))
    return arith::ConstantIndexOp::create(builder, getLoc(),
                                          type.getDimSize(dim));
  return tensor::DimOp::create(builder, getLoc(), tensor, dim);
}

Value Lowering::allocate(RankedTensorType type, ValueRange sizes,
                         bool zero) const {
  SmallVector<Value> dynamic;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (type.isDynamicDim(dim))
      dynamic.push_back(sizes[dim]);
  return exec::AllocOp::create(builder, getLoc(), type, dynamic, zero);
}

Value Lowering::allocateLike(Value tensor, Type type, bool zero) const {
  auto ranked = cast<RankedTensorType>(type);
  SmallVector<Value> sizes(ranked.getRank());
  for (int64_t dim = 0; dim < ranked.getRank(); ++dim)
    if (ranked.isDynamicDim(dim))
      sizes[dim] = getDim(tensor, dim);
  return allocate(ranked, sizes, zero);
}

std::string Lowering::getKernelName(StringRef suffix) const {
  return (prefix + suffix).str();
}

SymbolRefAttr Lowering::getKernel(StringRef suffix) const {
  MLIRContext *context = builder.getContext();
  return SymbolRefAttr::get(
      context, kernelsName,
      FlatSymbolRefAttr::get(context, getKernelName(suffix)));
}

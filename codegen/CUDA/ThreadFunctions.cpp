//===- ThreadFunctions.cpp - Functions that a warp's threads run ----------===//

#include "codegen/CUDA/ThreadFunctions.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace sextant::codegen;

/// Marks them, in LLVM IR too.
static constexpr llvm::StringLiteral kOfThreads = "sextant-threads";
/// "WARPS BYTES": the shape of a block.
static constexpr llvm::StringLiteral kShape = "sextant-block";

/// Adds an attribute that LLVM IR keeps.
static void addAttribute(mlir::LLVM::LLVMFuncOp function,
                         mlir::Attribute attribute) {
  llvm::SmallVector<mlir::Attribute> all;
  if (mlir::ArrayAttr known = function.getPassthroughAttr())
    llvm::append_range(all, known);
  all.push_back(attribute);
  function.setPassthroughAttr(mlir::ArrayAttr::get(function.getContext(), all));
}

void sextant::codegen::emitWarpCall(KernelBuilder &kernel,
                                    mlir::LLVM::LLVMFuncOp function,
                                    mlir::ValueRange arguments) {
  mlir::OpBuilder &builder = kernel.builder;
  function.setNoInline(true);
  function.setDenormalFpMath("preserve-sign,preserve-sign");
  addAttribute(function, builder.getStringAttr(kOfThreads));
  mlir::LLVM::CallOp::create(builder, kernel.loc, function, arguments);
}

void sextant::codegen::setBlockShape(mlir::LLVM::LLVMFuncOp function,
                                     const BlockShape &shape) {
  mlir::Builder builder(function.getContext());
  std::string text =
      (llvm::Twine(shape.warps) + " " + llvm::Twine(shape.sharedBytes)).str();
  addAttribute(function, builder.getStrArrayAttr({kShape, text}));
}

llvm::SmallVector<llvm::Function *>
sextant::codegen::getThreadFunctions(llvm::Module &kernels) {
  llvm::SmallVector<llvm::Function *> found;
  for (llvm::Function &function : kernels)
    if (function.hasFnAttribute(kOfThreads))
      found.push_back(&function);
  return found;
}

std::optional<BlockShape>
sextant::codegen::findBlockShape(const llvm::Function &function) {
  if (!function.hasFnAttribute(kShape))
    return std::nullopt;
  BlockShape shape;
  auto [warps, bytes] =
      function.getFnAttribute(kShape).getValueAsString().split(' ');
  if (warps.getAsInteger(10, shape.warps) ||
      bytes.getAsInteger(10, shape.sharedBytes))
    llvm_unreachable("setBlockShape writes numbers");
  return shape;
}

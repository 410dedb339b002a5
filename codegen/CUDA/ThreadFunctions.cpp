//===- ThreadFunctions.cpp - Functions that a warp's threads run ----------===//

#include "codegen/CUDA/ThreadFunctions.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace sextant::codegen;

/// Marks them, in LLVM IR too.
static constexpr llvm::StringLiteral kOfThreads = "sextant-threads";
/// "WARPS BYTES BLOCKS": the shape of a block.
static constexpr llvm::StringLiteral kShape = "sextant-block";
/// "BYTES" of shared memory of a function that is written for vectors.
static constexpr llvm::StringLiteral kNearBytes = "sextant-near";
static constexpr int64_t sharedAlignment = 128;

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
      (llvm::Twine(shape.warps) + " " + llvm::Twine(shape.sharedBytes) + " " +
       llvm::Twine(shape.residentBlocks))
          .str();
  addAttribute(function, builder.getStrArrayAttr({kShape, text}));
}

mlir::Value sextant::codegen::getSharedMemory(mlir::OpBuilder &builder,
                                              mlir::Location loc,
                                              mlir::ModuleOp kernels) {
  if (!kernels.lookupSymbol(sharedMemoryName)) {
    auto start = mlir::OpBuilder::atBlockBegin(kernels.getBody());
    auto type = mlir::LLVM::LLVMArrayType::get(start.getI8Type(), 0);
    mlir::LLVM::GlobalOp::create(start, loc, type, /*isConstant=*/false,
                                 mlir::LLVM::Linkage::External,
                                 sharedMemoryName, /*value=*/mlir::Attribute(),
                                 sharedAlignment, sharedMemorySpace);
  }
  auto pointer =
      mlir::LLVM::LLVMPointerType::get(builder.getContext(), sharedMemorySpace);
  return mlir::LLVM::AddressOfOp::create(builder, loc, pointer,
                                         sharedMemoryName);
}

/// As an address of any memory, which products also read operands through:
/// where the space is known again, so do the instructions of the GPU.
static mlir::Value getNearAddress(KernelBuilder &kernel) {
  mlir::OpBuilder &builder = kernel.builder;
  auto kernels = builder.getInsertionBlock()
                     ->getParentOp()
                     ->getParentOfType<mlir::ModuleOp>();
  return mlir::LLVM::AddrSpaceCastOp::create(
      builder, kernel.loc, kernel.pointer,
      getSharedMemory(builder, kernel.loc, kernels));
}

static void setNearBytes(mlir::LLVM::LLVMFuncOp function, int64_t bytes) {
  mlir::Builder builder(function.getContext());
  addAttribute(function,
               builder.getStrArrayAttr({kNearBytes, std::to_string(bytes)}));
}

NearMemory sextant::codegen::getNearMemoryOfWarps(int64_t blockBytes) {
  return {int64_t(48) << 10, blockBytes, getNearAddress, setNearBytes};
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
  auto [warps, rest] =
      function.getFnAttribute(kShape).getValueAsString().split(' ');
  auto [bytes, blocks] = rest.split(' ');
  if (warps.getAsInteger(10, shape.warps) ||
      bytes.getAsInteger(10, shape.sharedBytes) ||
      blocks.getAsInteger(10, shape.residentBlocks))
    llvm_unreachable("setBlockShape writes numbers");
  return shape;
}

BlockShape sextant::codegen::getBlockShape(const llvm::Function &function) {
  if (std::optional<BlockShape> shape = findBlockShape(function))
    return *shape;
  BlockShape warp;
  if (function.hasFnAttribute(kNearBytes) &&
      function.getFnAttribute(kNearBytes)
          .getValueAsString()
          .getAsInteger(10, warp.sharedBytes))
    llvm_unreachable("setNearBytes writes a number");
  return warp;
}

//===- KernelFunction.cpp - The three functions of a kernel ---------------===//

#include "codegen/Emit/KernelFunction.h"
#include "codegen/Emit/KernelNumber.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace sextant::codegen;

unsigned KernelOperands::add(Type tensor) {
  tensors.push_back(cast<RankedTensorType>(tensor));
  return tensors.size() - 1;
}

int64_t KernelOperands::countWords() const {
  int64_t words = scalars;
  for (RankedTensorType tensor : tensors)
    words += 1 + 2 * tensor.getRank();
  return words;
}

ArgumentBlock::ArgumentBlock(KernelBuilder &kernel, Value block,
                             const KernelOperands &operands)
    : kernel(kernel), block(block), operands(operands) {
  unsigned word = 0;
  for (RankedTensorType tensor : operands.tensors) {
    firstWord.push_back(word);
    word += 1 + 2 * tensor.getRank();
  }
  firstWord.push_back(word);
  words.resize(word + operands.scalars);
}

Value ArgumentBlock::getWord(unsigned number, Type type) {
  Value &word = words[number];
  if (!word) {
    OpBuilder::InsertionGuard guard(kernel.builder);
    kernel.builder.setInsertionPointToStart(block.getParentBlock());
    Value address = kernel.advance(block, {number}, kernel.i64);
    word = LLVM::LoadOp::create(kernel.builder, kernel.loc, type, address,
                                /*alignment=*/8, /*isVolatile=*/false,
                                /*isNonTemporal=*/false, /*isInvariant=*/true);
  }
  return word;
}

Value ArgumentBlock::getPointer(unsigned tensor) {
  return getWord(firstWord[tensor], kernel.pointer);
}

Index ArgumentBlock::getSize(unsigned tensor, unsigned dim) {
  RankedTensorType type = operands.tensors[tensor];
  if (!type.isDynamicDim(dim))
    return type.getDimSize(dim);
  return getWord(firstWord[tensor] + 1 + dim, kernel.i64);
}

Index ArgumentBlock::getStride(unsigned tensor, unsigned dim) {
  unsigned rank = operands.tensors[tensor].getRank();
  return getWord(firstWord[tensor] + 1 + rank + dim, kernel.i64);
}

Index ArgumentBlock::getScalar(unsigned scalar) {
  return getWord(firstWord.back() + scalar, kernel.i64);
}

Value ArgumentBlock::getAddress(unsigned tensor, ArrayRef<Index> indices) {
  SmallVector<Index> offsets;
  for (auto [dim, index] : llvm::enumerate(indices))
    offsets.push_back(kernel.mul(index, getStride(tensor, dim)));
  return kernel.advance(getPointer(tensor), offsets,
                        operands.tensors[tensor].getElementType());
}

/// Adds a function of the given type, with an entry block, and calls `body`
/// with a builder of its instructions.
static LLVM::LLVMFuncOp createFunction(
    ModuleOp kernels, Location loc, const Twine &name, Type result,
    ArrayRef<Type> arguments, const VectorTarget &target,
    function_ref<SmallVector<Value>(KernelBuilder &, ValueRange)> body) {
  OpBuilder builder = OpBuilder::atBlockEnd(kernels.getBody());
  auto type = LLVM::LLVMFunctionType::get(result, arguments);
  SmallString<32> storage;
  auto function =
      LLVM::LLVMFuncOp::create(builder, loc, name.toStringRef(storage), type);
  for (auto [number, argument] : llvm::enumerate(arguments))
    if (isa<LLVM::LLVMPointerType>(argument))
      function.setArgAttr(number, LLVM::LLVMDialect::getNoAliasAttrName(),
                          builder.getUnitAttr());
  Block &entry = *function.addEntryBlock(builder);
  builder.setInsertionPointToStart(&entry);
  KernelBuilder kernel(builder, loc, entry, target);
  SmallVector<Value> results = body(kernel, entry.getArguments());
  builder.setInsertionPointToEnd(&entry);
  LLVM::ReturnOp::create(builder, loc, results);
  return function;
}

void sextant::codegen::createNumber(
    const Lowering &lowering, const Twine &name, const KernelOperands &operands,
    const VectorTarget &target,
    function_ref<Index(KernelBuilder &, ArgumentBlock &)> number) {
  ModuleOp kernels = lowering.kernels;
  SmallString<32> storage;
  if (kernels.lookupSymbol(name.toStringRef(storage)))
    return;
  MLIRContext *context = kernels.getContext();
  createFunction(kernels, lowering.getLoc(), name,
                 IntegerType::get(context, 64),
                 {LLVM::LLVMPointerType::get(context)}, target,
                 [&](KernelBuilder &kernel, ValueRange arguments) {
                   ArgumentBlock block(kernel, arguments[0], operands);
                   Index result = number(kernel, block);
                   lowering.check(kernel.getStatus());
                   return SmallVector<Value>{kernel.value(result)};
                 });
}

void sextant::codegen::createKernel(const Lowering &lowering, StringRef suffix,
                                    const KernelOperands &operands,
                                    const VectorTarget &target,
                                    const KernelBody &body) {
  ModuleOp kernels = lowering.kernels;
  Location loc = lowering.getLoc();
  std::string name = lowering.getKernelName(suffix);
  if (failed(lowering.status) || kernels.lookupSymbol(name))
    return;
  MLIRContext *context = kernels.getContext();
  Type pointer = LLVM::LLVMPointerType::get(context);
  Type i64 = IntegerType::get(context, 64);
  auto createRun = [&](const Twine &name, auto run) {
    return createFunction(kernels, loc, name, LLVM::LLVMVoidType::get(context),
                          {pointer, i64, i64, pointer}, target,
                          [&](KernelBuilder &kernel, ValueRange arguments) {
                            run(kernel, arguments);
                            return SmallVector<Value>{};
                          });
  };
  auto emitRange = [&](KernelBuilder &kernel, ValueRange arguments) {
    ArgumentBlock block(kernel, arguments[0], operands);
    auto getSpace = [&] { return body.items(kernel, block); };
    body.run(kernel, block, {getSpace, arguments[1], arguments[2]},
             arguments[3]);
    lowering.check(kernel.getStatus());
  };
  if (target.flushingCall) {
    LLVM::LLVMFuncOp range = createRun(name + Twine("_range"), emitRange);
    range.setLinkage(LLVM::Linkage::Internal);
    if (int64_t bytes = 8 * operands.countWords())
      range.setArgAttr(0, LLVM::LLVMDialect::getDereferenceableAttrName(),
                       OpBuilder(range).getI64IntegerAttr(bytes));
    if (int64_t bytes = body.nearBytes ? body.nearBytes() : 0) {
      target.near.setBytes(range, bytes);
      createNumber(
          lowering, name + "_shared", operands, target,
          [&](KernelBuilder &, ArgumentBlock &) { return Index(bytes); });
    }
    createRun(name, [&](KernelBuilder &kernel, ValueRange arguments) {
      target.flushingCall(kernel, range, arguments);
    });
  } else {
    createRun(name, emitRange);
  }
  createNumber(lowering, name + "_items", operands, target,
               [&](KernelBuilder &kernel, ArgumentBlock &block) {
                 return body.items(kernel, block).count();
               });
  createNumber(lowering, name + "_scratch", operands, target,
               body.scratchBytes);
  if (body.together)
    createNumber(lowering, name + "_together", operands, target, body.together);
}

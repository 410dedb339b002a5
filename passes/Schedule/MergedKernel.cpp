//===- MergedKernel.cpp - Kernels over the items of several ---------------===//
//
// Bodies are copied into the new functions instead of called: a target may give
// the threads of a warp one function to run. A body is one block with loops and
// conditions inside, and takes its argument block apart at its start.
//
//===----------------------------------------------------------------------===//

#include "passes/Schedule/MergedKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// The word of the argument block at an address that is computed from it; null
/// for other uses of the block.
static std::optional<unsigned> getWord(LLVM::GEPOp address) {
  ArrayRef<int32_t> indices = address.getRawConstantIndices();
  if (!address.getElemType().isInteger(64) || indices.size() != 1 ||
      !address.getDynamicIndices().empty() || indices.front() < 0)
    return std::nullopt;
  return indices.front();
}

static llvm::Error makeError(const Twine &text) {
  return llvm::createStringError(text);
}

/// Whether a function is one block that reads its argument block word by word.
static llvm::Error checkBody(LLVM::LLVMFuncOp function) {
  if (!function.getBody().hasOneBlock())
    return makeError("'" + function.getName() + "' has several blocks");
  for (Operation *user : function.getArgument(0).getUsers()) {
    auto address = dyn_cast<LLVM::GEPOp>(user);
    if (!isa<LLVM::LoadOp>(user) && !(address && getWord(address)))
      return makeError("'" + function.getName() +
                       "' does more with its arguments than to load them");
  }
  return llvm::Error::success();
}

/// The function that `run` hands its arguments to.
static LLVM::LLVMFuncOp findRange(ModuleOp kernels, LLVM::LLVMFuncOp run) {
  LLVM::LLVMFuncOp range;
  run.walk([&](LLVM::CallOp call) {
    if (call.getCallee() &&
        llvm::equal(call.getArgOperands(), run.getArguments()))
      range = kernels.lookupSymbol<LLVM::LLVMFuncOp>(*call.getCallee());
  });
  return range;
}

llvm::Expected<KernelFunctions> passes::findKernel(ModuleOp kernels,
                                                   StringRef name) {
  auto find = [&](const Twine &symbol) {
    SmallString<64> storage;
    return kernels.lookupSymbol<LLVM::LLVMFuncOp>(symbol.toStringRef(storage));
  };
  KernelFunctions found{
      find(name), find(name + "_items"), find(name + "_scratch"), {}};
  if (!found.run || !found.items || !found.scratch)
    return makeError("'" + name + "' is not a kernel of this module");
  found.range = findRange(kernels, found.run);
  for (LLVM::LLVMFuncOp function :
       {found.getBody(), found.items, found.scratch})
    if (llvm::Error error = checkBody(function))
      return error;
  return found;
}

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

/// Copies the body of a part's function to the builder's place; gives what it
/// returns. Its argument block is `block`, its other arguments are `rest`.
static SmallVector<Value> copyBody(OpBuilder &builder, const KernelPart &part,
                                   LLVM::LLVMFuncOp function, Value block,
                                   ValueRange rest) {
  IRMapping mapping;
  auto getAddress = [&](unsigned word) -> Value {
    return LLVM::GEPOp::create(builder, function.getLoc(), block.getType(),
                               builder.getI64Type(), block,
                               ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(
                                   static_cast<int32_t>(part.words[word]))},
                               LLVM::GEPNoWrapFlags::inbounds);
  };
  if (!function.getArgument(0).use_empty())
    mapping.map(function.getArgument(0), getAddress(0));
  for (auto [argument, value] :
       llvm::zip_equal(function.getArguments().drop_front(), rest))
    mapping.map(argument, value);
  for (Operation &op : function.getBody().front().without_terminator()) {
    auto address = dyn_cast<LLVM::GEPOp>(op);
    if (address && address.getBase() == function.getArgument(0))
      mapping.map(address.getResult(), getAddress(*getWord(address)));
    else
      builder.clone(op, mapping);
  }
  Operation *end = function.getBody().front().getTerminator();
  return llvm::map_to_vector(end->getOperands(), [&](Value value) {
    return mapping.lookupOrDefault(value);
  });
}

/// Adds a function like one of the first part, with a body that `emit` writes;
/// it gives what the function returns.
static LLVM::LLVMFuncOp
createLike(LLVM::LLVMFuncOp model, const Twine &name,
           function_ref<SmallVector<Value>(OpBuilder &, Block &)> emit) {
  auto module = model->getParentOfType<ModuleOp>();
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto function = cast<LLVM::LLVMFuncOp>(builder.cloneWithoutRegions(*model));
  function.setName((name).str());
  Block &entry = *function.addEntryBlock(builder);
  builder.setInsertionPointToStart(&entry);
  SmallVector<Value> results = emit(builder, entry);
  LLVM::ReturnOp::create(builder, model.getLoc(), results);
  return function;
}

/// A function of the argument block that combines the numbers of the parts.
template <typename OpTy>
static void createNumber(ArrayRef<KernelPart> parts,
                         LLVM::LLVMFuncOp KernelFunctions::*function,
                         const Twine &name) {
  createLike(
      parts.front().functions.*function, name,
      [&](OpBuilder &builder, Block &entry) {
        Value all;
        for (const KernelPart &part : parts) {
          Value own = copyBody(builder, part, part.functions.*function,
                               entry.getArgument(0), {})
                          .front();
          all = all ? OpTy::create(builder, own.getLoc(), all, own).getResult()
                    : own;
        }
        return SmallVector<Value>{all};
      });
}

/// Runs the items of each part that lie in the range.
static void emitRange(OpBuilder &builder, ArrayRef<KernelPart> parts,
                      Block &entry) {
  Value block = entry.getArgument(0), begin = entry.getArgument(1);
  Value end = entry.getArgument(2), scratch = entry.getArgument(3);
  for (const KernelPart &part : parts) {
    Location loc = block.getLoc();
    Value zero =
        arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(0));
    Value items =
        copyBody(builder, part, part.functions.items, block, {}).front();
    Value first = arith::MaxSIOp::create(builder, loc, begin, zero);
    Value last = arith::MinSIOp::create(builder, loc, end, items);
    Value isAny = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt,
                                        first, last);
    scf::IfOp::create(builder, loc, isAny, [&](OpBuilder &inner, Location) {
      copyBody(inner, part, part.functions.getBody(), block,
               {first, last, scratch});
      scf::YieldOp::create(inner, loc);
    });
    begin = arith::SubIOp::create(builder, loc, begin, items);
    end = arith::SubIOp::create(builder, loc, end, items);
  }
}

void passes::createMergedKernel(StringRef name, ArrayRef<KernelPart> parts,
                                unsigned words) {
  createNumber<arith::AddIOp>(parts, &KernelFunctions::items, name + "_items");
  createNumber<arith::MaxSIOp>(parts, &KernelFunctions::scratch,
                               name + "_scratch");
  KernelFunctions first = parts.front().functions;
  auto emit = [&](OpBuilder &builder, Block &entry) {
    emitRange(builder, parts, entry);
    return SmallVector<Value>{};
  };
  if (!first.range) {
    createLike(first.run, name, emit);
    return;
  }
  LLVM::LLVMFuncOp range = createLike(first.range, name + "_range", emit);
  OpBuilder builder(range);
  // How long the argument block is, for those who copy it.
  StringRef size = LLVM::LLVMDialect::getDereferenceableAttrName();
  if (range.getArgAttr(0, size))
    range.setArgAttr(0, size, builder.getI64IntegerAttr(8 * words));
  auto run = cast<LLVM::LLVMFuncOp>(builder.clone(*first.run));
  run.setName(name);
  run.walk([&](LLVM::CallOp call) {
    if (call.getCallee() == first.range.getName())
      call.setCallee(range.getName());
  });
}

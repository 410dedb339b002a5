//===- ThreadBuilder.cpp - What a thread of a block can do ----------------===//

#include "codegen/CUDA/Sm80/ThreadBuilder.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace sextant::codegen;

using Values = ThreadBuilder::Values;

/// Address spaces of NVPTX.
static constexpr unsigned globalSpace = 1, sharedSpace = 3;
static constexpr int64_t sharedAlignment = 128;
static constexpr int32_t allThreads = -1;
static constexpr int32_t lastLane = warpLanes - 1;

/// Its size is given when a kernel is launched.
static void declareSharedMemory(ModuleOp kernels, Location loc) {
  if (kernels.lookupSymbol(sharedMemoryName))
    return;
  OpBuilder builder = OpBuilder::atBlockBegin(kernels.getBody());
  auto type = LLVM::LLVMArrayType::get(builder.getI8Type(), 0);
  LLVM::GlobalOp::create(builder, loc, type, /*isConstant=*/false,
                         LLVM::Linkage::External, sharedMemoryName,
                         /*value=*/Attribute(), sharedAlignment, sharedSpace);
}

ThreadBuilder::ThreadBuilder(KernelBuilder &kernel, ModuleOp kernels,
                             const BlockShape &shape)
    : ThreadArithmetic(kernel), sharedPointer(LLVM::LLVMPointerType::get(
                                    builder.getContext(), sharedSpace)) {
  auto function = cast<LLVM::LLVMFuncOp>(
      builder.getInsertionBlock()->getParent()->getParentOp());
  setBlockShape(function, shape);
  declareSharedMemory(kernels, loc);
  shared =
      LLVM::AddressOfOp::create(builder, loc, sharedPointer, sharedMemoryName);
  thread = call("llvm.nvvm.read.ptx.sreg.tid.x", kernel.i32, {});
  lane = rem(thread, warpLanes);
  warp = div(thread, warpLanes);
}

Value ThreadBuilder::call(StringRef intrinsic, Type result,
                          ValueRange arguments) {
  return LLVM::CallIntrinsicOp::create(
             builder, loc, result, builder.getStringAttr(intrinsic), arguments)
      .getResult(0);
}

void ThreadBuilder::call(StringRef intrinsic, ValueRange arguments) {
  LLVM::CallIntrinsicOp::create(builder, loc, builder.getStringAttr(intrinsic),
                                arguments);
}

Values ThreadBuilder::callForWords(StringRef intrinsic, Type word,
                                   ValueRange arguments) {
  SmallVector<Type> words(4, word);
  Value all = call(
      intrinsic, LLVM::LLVMStructType::getLiteral(builder.getContext(), words),
      arguments);
  Values results;
  for (int64_t number = 0; number < 4; ++number)
    results.push_back(LLVM::ExtractValueOp::create(builder, loc, all, number));
  return results;
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

Value ThreadBuilder::getShared(Value bytes) { return advance(shared, bytes); }

Value ThreadBuilder::advance(Value address, Value bytes) {
  return LLVM::GEPOp::create(builder, loc, sharedPointer, builder.getI8Type(),
                             address,
                             ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(bytes)},
                             LLVM::GEPNoWrapFlags::inbounds);
}

Value ThreadBuilder::advance(Value address, int64_t bytes) {
  if (bytes == 0)
    return address;
  return LLVM::GEPOp::create(
      builder, loc, sharedPointer, builder.getI8Type(), address,
      ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(static_cast<int32_t>(bytes))},
      LLVM::GEPNoWrapFlags::inbounds);
}

Value ThreadBuilder::loadShared(Type type, Value address) {
  return LLVM::LoadOp::create(builder, loc, type, address);
}

void ThreadBuilder::storeShared(Value value, Value address) {
  LLVM::StoreOp::create(builder, loc, value, address);
}

/// Accesses of a known space have instructions of their own.
Value ThreadBuilder::toGlobal(Value address) {
  auto type = cast<LLVM::LLVMPointerType>(address.getType());
  if (type.getAddressSpace() != 0)
    return address;
  return LLVM::AddrSpaceCastOp::create(
      builder, loc,
      LLVM::LLVMPointerType::get(builder.getContext(), globalSpace), address);
}

std::pair<Value, Value> ThreadBuilder::loadPair(Value address) {
  Value both =
      LLVM::LoadOp::create(builder, loc, VectorType::get(2, kernel.f32),
                           toGlobal(address), /*alignment=*/8);
  auto extract = [&](int64_t lane) -> Value {
    return LLVM::ExtractElementOp::create(builder, loc, both, constant(lane));
  };
  return {extract(0), extract(1)};
}

void ThreadBuilder::storePair(Value low, Value high, Value address) {
  Value both =
      LLVM::PoisonOp::create(builder, loc, VectorType::get(2, kernel.f32));
  for (auto [lane, value] : llvm::enumerate(ArrayRef{low, high}))
    both = LLVM::InsertElementOp::create(builder, loc, both, value,
                                         constant(lane));
  LLVM::StoreOp::create(builder, loc, both, toGlobal(address),
                        /*alignment=*/8);
}

void ThreadBuilder::clear(Value base, Index words, int64_t threads) {
  constexpr int64_t perStore = 4;
  Value zero = kernel.zero(VectorType::get(perStore, kernel.f32));
  Index first = kernel.mul(kernel.fromI32(thread), perStore);
  kernel.loop(first, words, perStore * threads, [&](Value word) {
    LLVM::StoreOp::create(builder, loc, zero,
                          toGlobal(kernel.advance(base, {word})),
                          /*alignment=*/4 * perStore);
  });
}

void ThreadBuilder::copy(Value to, Value from, int64_t bytes, Value given) {
  Value global = toGlobal(from);
  assert((bytes == 16 || bytes == 8 || bytes == 4) && "sizes of copies");
  // Rows pass by the first cache; what is smaller may share its lines.
  StringRef cache = bytes == 16 ? "cg" : "ca";
  call(("llvm.nvvm.cp.async." + cache + ".shared.global." + Twine(bytes) + ".s")
           .str(),
       {to, global, given});
}

void ThreadBuilder::commitCopies() {
  call("llvm.nvvm.cp.async.commit.group", {});
}

void ThreadBuilder::waitForCopies(int64_t groups) {
  call("llvm.nvvm.cp.async.wait.group", constant(groups));
}

//===----------------------------------------------------------------------===//
// Together
//===----------------------------------------------------------------------===//

void ThreadBuilder::synchronizeBlock() {
  call("llvm.nvvm.barrier.cta.sync.aligned.all", constant(0));
}

Value ThreadBuilder::shuffleXor(Value value, int64_t mask) {
  Value word = arith::BitcastOp::create(builder, loc, kernel.i32, value);
  Value moved =
      call("llvm.nvvm.shfl.sync.bfly.i32", kernel.i32,
           {constant(allThreads), word, constant(mask), constant(lastLane)});
  return arith::BitcastOp::create(builder, loc, value.getType(), moved);
}

Value ThreadBuilder::ballot(Value condition) {
  return call("llvm.nvvm.vote.ballot.sync", kernel.i32,
              {constant(allThreads), condition});
}

Values ThreadBuilder::loadMatrices(Value row, bool isTransposed) {
  StringRef form = isTransposed ? "x4.trans.b16" : "x4.b16";
  return callForWords(("llvm.nvvm.ldmatrix.sync.aligned.m8n8." + form).str(),
                      kernel.i32, row);
}

Values ThreadBuilder::multiply(ValueRange a, ValueRange b, ValueRange sums) {
  Values operands(a);
  llvm::append_range(operands, b);
  llvm::append_range(operands, sums);
  return callForWords("llvm.nvvm.mma.m16n8k16.row.col.bf16", kernel.f32,
                      operands);
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

Value ThreadBuilder::exp2(Value x) {
  return call("llvm.nvvm.ex2.approx.ftz.f32", kernel.f32, x);
}

/// An approximation is what `afn` allows, and a GPU has one.
Value ThreadBuilder::tanh(Value x) {
  auto allowed = LLVM::FastmathFlagsAttr::get(builder.getContext(),
                                              LLVM::FastmathFlags::afn);
  return LLVM::CallIntrinsicOp::create(builder, loc, TypeRange(kernel.f32),
                                       builder.getStringAttr("llvm.tanh.f32"),
                                       x, allowed)
      .getResult(0);
}

Value ThreadBuilder::toBf16(Value low, Value high) {
  Value pair = call("llvm.nvvm.ff2bf16x2.rn", VectorType::get(2, kernel.bf16),
                    {high, low});
  return LLVM::BitcastOp::create(builder, loc, kernel.i32, pair);
}

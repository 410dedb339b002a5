//===- ThreadBuilder.cpp - What a thread of a block can do ----------------===//

#include "codegen/CUDA/Sm80/ThreadBuilder.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace sextant::codegen;

using Values = ThreadBuilder::Values;

/// An address space of NVPTX.
static constexpr unsigned globalSpace = 1;
static constexpr int32_t allThreads = -1;
static constexpr int32_t lastLane = warpLanes - 1;

static void setNumber(ThreadBuilder &thread, Value number) {
  thread.thread = number;
  thread.lane = thread.rem(number, warpLanes);
  thread.warp = thread.div(number, warpLanes);
}

void sextant::codegen::storeElement(ThreadBuilder &thread, Value number,
                                    Value address) {
  KernelBuilder &kernel = thread.kernel;
  Value word = thread.toElements(number, kernel.constantF32(0));
  thread.storeShared(
      arith::TruncIOp::create(kernel.builder, kernel.loc, kernel.i16, word),
      address);
}

void sextant::codegen::keepNumber(ThreadBuilder &thread) {
  setNumber(thread, thread.shuffleXor(thread.thread, 0));
}

ThreadBuilder::ThreadBuilder(KernelBuilder &kernel, ModuleOp kernels,
                             const BlockShape &shape, FloatType element)
    : ThreadArithmetic(kernel), element(element),
      sharedPointer(
          LLVM::LLVMPointerType::get(builder.getContext(), sharedMemorySpace)),
      parts(shape.parts), bytesOfPart(shape.sharedBytes / shape.parts) {
  assert(element.getWidth() == 16 && "tensor cores multiply f16 and bf16");
  assert((parts == 1 || parts == shape.warps) &&
         "one barrier is for all warps of a block: a part is one warp");
  auto function = cast<LLVM::LLVMFuncOp>(
      builder.getInsertionBlock()->getParent()->getParentOp());
  setBlockShape(function, shape);
  shared = getSharedMemory(builder, loc, kernels);
  setNumber(*this, call("llvm.nvvm.read.ptx.sreg.tid.x", kernel.i32, {}));
  part = constant(0);
  if (parts == 1)
    return;
  std::swap(part, warp);
  thread = lane;
  shared = getShared(constant(0), part);
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

Value ThreadBuilder::getShared(Value bytes, Value further) {
  Value start = shared;
  if (further)
    start = advance(start, mul(further, bytesOfPart));
  return advance(start, bytes);
}

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

/// Nobody waits for the sum: another launch reads it.
void ThreadBuilder::addAtomically(Value value, Value address) {
  LLVM::AtomicRMWOp::create(builder, loc, LLVM::AtomicBinOp::fadd,
                            toGlobal(address), value,
                            LLVM::AtomicOrdering::monotonic, "device");
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

void ThreadBuilder::synchronizeBlock(bool ofAllParts) {
  if (parts > 1 && !ofAllParts)
    return synchronizeWarp();
  call("llvm.nvvm.barrier.cta.sync.aligned.all", constant(0));
}

void ThreadBuilder::synchronizeWarp() {
  call("llvm.nvvm.bar.warp.sync", constant(allThreads));
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
  // Words of f16 are pairs of it to the intrinsic, those of bf16 words.
  if (element.isF16())
    for (Value &word : operands)
      word = LLVM::BitcastOp::create(builder, loc, VectorType::get(2, element),
                                     word);
  llvm::append_range(operands, sums);
  StringRef types = element.isF16() ? "f32.f32" : "bf16";
  return callForWords(("llvm.nvvm.mma.m16n8k16.row.col." + types).str(),
                      kernel.f32, operands);
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

Value ThreadBuilder::reciprocal(Value x) {
  return call("llvm.nvvm.rcp.approx.ftz.f", kernel.f32, x);
}

Value ThreadBuilder::toElements(Value low, Value high) {
  StringRef type = element.isF16() ? "f16" : "bf16";
  Value pair = call(("llvm.nvvm.ff2" + type + "x2.rn").str(),
                    VectorType::get(2, element), {high, low});
  return LLVM::BitcastOp::create(builder, loc, kernel.i32, pair);
}

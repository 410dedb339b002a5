//===- X86Instructions.cpp - Vector instructions of x86 -------------------===//

#include "codegen/CPU/MachineCode/X86Instructions.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace sextant::codegen;

/// Round to nearest, no traps, results and operands below 2^-126 are 0.
static constexpr int32_t flushingMode = 0x9fc0;

static Value callIntrinsic(KernelBuilder &kernel, StringRef name, Type result,
                           ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(kernel.builder, kernel.loc, result,
                                       kernel.builder.getStringAttr(name),
                                       operands)
      .getResult(0);
}

Value x86::emitScalef(KernelBuilder &kernel, Value x, Value power) {
  Value allLanes = kernel.constant(kernel.builder.getI16IntegerAttr(-1));
  Value currentRounding = kernel.constantI32(4);
  return callIntrinsic(kernel, "llvm.x86.avx512.mask.scalef.ps.512",
                       kernel.vf32, {x, power, x, allLanes, currentRounding});
}

Value x86::emitFraction(KernelBuilder &kernel, Value x) {
  Value toFloor = kernel.constantI32(9); // without exception flags
  Value allLanes = kernel.constant(kernel.builder.getI16IntegerAttr(-1));
  Value currentRounding = kernel.constantI32(4);
  return callIntrinsic(kernel, "llvm.x86.avx512.mask.reduce.ps.512",
                       kernel.vf32, {x, toFloor, x, allLanes, currentRounding});
}

Value x86::emitLookUp(KernelBuilder &kernel, Value table, Value number) {
  return callIntrinsic(kernel, "llvm.x86.avx2.permd", kernel.vi32,
                       {table, number});
}

Value x86::emitBf16Dot(KernelBuilder &kernel, Value sum, Value a, Value b) {
  return callIntrinsic(kernel, "llvm.x86.avx512bf16.dpbf16ps.512", kernel.vf32,
                       {sum, a, b});
}

void x86::emitFlushingCall(KernelBuilder &kernel, LLVM::LLVMFuncOp function,
                           ValueRange arguments) {
  function.setNoInline(true);
  function.setDenormalFpMath("preserve-sign,preserve-sign");
  OpBuilder &builder = kernel.builder;
  auto allocate = [&]() -> Value {
    return LLVM::AllocaOp::create(builder, kernel.loc, kernel.pointer,
                                  kernel.i32, kernel.constantI32(1));
  };
  auto access = [&](StringRef intrinsic, Value address) {
    LLVM::CallIntrinsicOp::create(builder, kernel.loc,
                                  builder.getStringAttr(intrinsic), address);
  };
  Value before = allocate(), during = allocate();
  access("llvm.x86.sse.stmxcsr", before);
  kernel.store(kernel.constantI32(flushingMode), during);
  access("llvm.x86.sse.ldmxcsr", during);
  LLVM::CallOp::create(builder, kernel.loc, function, arguments);
  access("llvm.x86.sse.ldmxcsr", before);
}

void x86::emitYield(KernelBuilder &kernel) {
  constexpr int64_t schedYield = 24;
  LLVM::InlineAsmOp::create(
      kernel.builder, kernel.loc, TypeRange(kernel.i64),
      kernel.constantI64(schedYield), /*asm_string=*/"syscall",
      /*constraints=*/"={rax},{rax},~{rcx},~{r11},~{memory}",
      /*has_side_effects=*/true, /*is_align_stack=*/false,
      LLVM::TailCallKind::None, LLVM::AsmDialectAttr(), ArrayAttr());
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

static constexpr StringLiteral tileInstructions[] = {
    "llvm.x86.tilezero", "llvm.x86.tileloadd64", "llvm.x86.tilestored64",
    "llvm.x86.tdpbf16ps"};

/// Its first operands are numbers of tiles, which the instruction is made of.
static void callTiles(KernelBuilder &kernel, StringRef name,
                      ArrayRef<int64_t> tiles, ValueRange operands = {}) {
  SmallVector<Value> all;
  for (int64_t tile : tiles)
    all.push_back(
        kernel.constant(kernel.builder.getI8IntegerAttr(int8_t(tile))));
  llvm::append_range(all, operands);
  LLVM::CallIntrinsicOp::create(kernel.builder, kernel.loc,
                                kernel.builder.getStringAttr(name), all);
}

static Value getBytes(KernelBuilder &kernel, Value words) {
  return kernel.value(kernel.mul(words, 4));
}

const MatrixUnit &x86::getTiles() {
  static constexpr MatrixUnit unit = {
      [](KernelBuilder &kernel, int64_t tile) {
        callTiles(kernel, tileInstructions[0], tile);
      },
      [](KernelBuilder &kernel, int64_t tile, Value address, Value stride) {
        callTiles(kernel, tileInstructions[1], tile,
                  {address, getBytes(kernel, stride)});
      },
      [](KernelBuilder &kernel, int64_t tile, Value address, Value stride) {
        callTiles(kernel, tileInstructions[2], tile,
                  {address, getBytes(kernel, stride)});
      },
      [](KernelBuilder &kernel, int64_t sum, int64_t a, int64_t b) {
        callTiles(kernel, tileInstructions[3], {sum, a, b});
      }};
  return unit;
}

static bool usesTiles(LLVM::LLVMFuncOp function) {
  return function
      .walk([](LLVM::CallIntrinsicOp call) {
        return llvm::is_contained(tileInstructions, call.getIntrin())
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

void x86::emitFlushingCallWithTiles(KernelBuilder &kernel,
                                    LLVM::LLVMFuncOp function,
                                    ValueRange arguments) {
  if (!usesTiles(function))
    return emitFlushingCall(kernel, function, arguments);
  // Palette 1; from byte 16 on the bytes of a row of each tile, from byte 48 on
  // the rows of each.
  constexpr int64_t bytesOfRows = 0x0040004000400040, rows = 0x1010101010101010;
  constexpr int64_t configuration[] = {1, 0, bytesOfRows, bytesOfRows,
                                       0, 0, rows,        0};
  OpBuilder &builder = kernel.builder;
  Value memory =
      LLVM::AllocaOp::create(builder, kernel.loc, kernel.pointer, kernel.i64,
                             kernel.constantI32(std::size(configuration)));
  for (auto [place, word] : llvm::enumerate(configuration))
    kernel.store(kernel.constantI64(word),
                 kernel.advance(memory, {place}, kernel.i64));
  LLVM::CallIntrinsicOp::create(
      builder, kernel.loc, builder.getStringAttr("llvm.x86.ldtilecfg"), memory);
  emitFlushingCall(kernel, function, arguments);
  LLVM::CallIntrinsicOp::create(builder, kernel.loc,
                                builder.getStringAttr("llvm.x86.tilerelease"),
                                ValueRange());
}

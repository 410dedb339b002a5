//===- EmulatedTiles.cpp - A matrix unit in memory ------------------------===//

#include "codegen/CPU/EmulatedTiles.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace sextant::codegen;

static constexpr int64_t side = MatrixUnit::side;

/// Register `tile`: memory that the function takes once, where it begins.
static Value getRegister(KernelBuilder &kernel, int64_t tile) {
  constexpr StringLiteral mark = "sextant.tiles";
  OpBuilder &builder = kernel.builder;
  Value words = kernel.constantI32(MatrixUnit::registers * side * side);
  Block *entry = words.getDefiningOp()->getBlock();
  auto isRegisters = [&](LLVM::AllocaOp op) { return op->hasAttr(mark); };
  auto allocations = entry->getOps<LLVM::AllocaOp>();
  auto found = llvm::find_if(allocations, isRegisters);
  Value memory;
  if (found != allocations.end()) {
    memory = *found;
  } else {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(words);
    auto allocation = LLVM::AllocaOp::create(builder, kernel.loc,
                                             kernel.pointer, kernel.f32, words);
    allocation->setAttr(mark, builder.getUnitAttr());
    memory = allocation;
  }
  return kernel.advance(memory, {tile * side * side});
}

static void forRows(KernelBuilder &kernel, function_ref<void(Value row)> body) {
  kernel.rolledLoop(0, side, 1, {}, [&](Value row, ValueRange) {
    body(row);
    return KernelBuilder::Values();
  });
}

/// One of each pair, as f32.
static Value getHalf(KernelBuilder &kernel, Value pairs, bool isHigh) {
  OpBuilder &builder = kernel.builder;
  Value words =
      vector::BitCastOp::create(builder, kernel.loc, kernel.vi32, pairs);
  Value bits = isHigh
                   ? arith::AndIOp::create(builder, kernel.loc, words,
                                           kernel.splatI32(int32_t(0xffff0000)))
                         .getResult()
                   : arith::ShLIOp::create(builder, kernel.loc, words,
                                           kernel.splatI32(16))
                         .getResult();
  return vector::BitCastOp::create(builder, kernel.loc, kernel.vf32, bits);
}

Value sextant::codegen::emulateBf16Dot(KernelBuilder &kernel, Value sum,
                                       Value a, Value b) {
  for (bool isHigh : {false, true})
    sum =
        kernel.fma(getHalf(kernel, a, isHigh), getHalf(kernel, b, isHigh), sum);
  return sum;
}

static void multiply(KernelBuilder &kernel, int64_t sum, int64_t a, int64_t b) {
  Value to = getRegister(kernel, sum);
  Value left = getRegister(kernel, a), right = getRegister(kernel, b);
  forRows(kernel, [&](Value row) {
    Index first = kernel.mul(row, side);
    Value zero = kernel.splatF32(0);
    auto addPair = [&](Value k, ValueRange sums) -> KernelBuilder::Values {
      Value factor = kernel.loadBroadcast(left, {first, k});
      Value factors = kernel.loadVector(right, {kernel.mul(k, side)});
      KernelBuilder::Values next;
      for (bool isHigh : {false, true})
        next.push_back(kernel.fma(getHalf(kernel, factor, isHigh),
                                  getHalf(kernel, factors, isHigh),
                                  sums[isHigh]));
      return next;
    };
    auto sums = kernel.rolledLoop(0, side, 1, {zero, zero}, addPair);
    kernel.storeVector(kernel.addF(kernel.loadVector(to, {first}),
                                   kernel.addF(sums[0], sums[1])),
                       to, {first});
  });
}

const MatrixUnit &sextant::codegen::getEmulatedTiles() {
  static constexpr MatrixUnit unit = {
      [](KernelBuilder &kernel, int64_t tile) {
        kernel.clear(getRegister(kernel, tile), side * side);
      },
      [](KernelBuilder &kernel, int64_t tile, Value address, Value stride) {
        Value to = getRegister(kernel, tile);
        forRows(kernel, [&](Value row) {
          kernel.storeVector(
              kernel.loadVector(address, {kernel.mul(row, stride)}), to,
              {kernel.mul(row, side)});
        });
      },
      [](KernelBuilder &kernel, int64_t tile, Value address, Value stride) {
        Value from = getRegister(kernel, tile);
        forRows(kernel, [&](Value row) {
          kernel.storeVector(kernel.loadVector(from, {kernel.mul(row, side)}),
                             address, {kernel.mul(row, stride)});
        });
      },
      multiply};
  return unit;
}

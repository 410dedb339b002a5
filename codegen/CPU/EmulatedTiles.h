//===- EmulatedTiles.h - A matrix unit in memory ----------------*- C++ -*-===//
//
// What AMX does with tiles and pairs of bf16, written with vectors that any
// processor of x86-64 runs: kernels for it are the same but for these
// instructions. For tests, not for speed.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_CODEGEN_CPU_EMULATEDTILES_H
#define SEXTANT_CODEGEN_CPU_EMULATEDTILES_H

#include "codegen/Emit/KernelBuilder.h"

namespace sextant::codegen {

/// Its registers are memory of the function that uses them.
const MatrixUnit &getEmulatedTiles();

/// sum + a.low * b.low + a.high * b.high.
mlir::Value emulateBf16Dot(KernelBuilder &kernel, mlir::Value sum,
                           mlir::Value a, mlir::Value b);

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_EMULATEDTILES_H

// `cpu` means the target whose unit was measured to be faster, for the type of
// the rows. The probe is replaced by numbers of two kinds of processors.
// REQUIRES: avx512bf16
// RUN: rm -rf %t.cache && env XDG_CACHE_HOME=%t.cache SEXTANT_TARGET= sextant-prof --machine --json > %t.json
// DEFINE: %{probed} = %python %S/Inputs/probed.py %t.cache/sextant
// DEFINE: %{asm} = env XDG_CACHE_HOME=%t.cache SEXTANT_TARGET= sextant-compile --emit=asm

// Dot products at half the rate of multiply-adds.
// RUN: %{probed} 1e11 2e11 1e11 && %{asm} %s | FileCheck %s --check-prefix=ADDS
// ADDS-NOT: vdpbf16ps
// ADDS: vfmadd{{.*}}zmm
// ADDS-NOT: vdpbf16ps

// Dot products at twice their rate.
// RUN: %{probed} 1e11 1e11 2e11 && %{asm} %s | FileCheck %s --check-prefix=DOTS
// DOTS: vdpbf16ps

// Rows of f32 have no use for them.
// RUN: sed s/bf16/f32/g %s > %t.f32.mlir
// RUN: %{asm} %t.f32.mlir | FileCheck %s --check-prefix=ADDS

// Vectors of 512 bits at half the rate of those of 256.
// RUN: %{probed} 2e11 1e11 1e11 && %{asm} %s | FileCheck %s --check-prefix=NARROW
// NARROW-NOT: zmm
// NARROW: vfmadd{{.*}}ymm
// NARROW-NOT: zmm

// What `cpu` meant is part of what the cache finds an artifact by.
// RUN: rm -f %t.cache/sextant/*.entry
// RUN: %{probed} 1e11 2e11 1e11 && env XDG_CACHE_HOME=%t.cache SEXTANT_TARGET= sextant-compile %s -o %t.adds.sxt
// RUN: %{probed} 1e11 1e11 2e11 && env XDG_CACHE_HOME=%t.cache SEXTANT_TARGET= sextant-compile %s -o %t.dots.sxt
// RUN: ls %t.cache/sextant/*.entry | wc -l | FileCheck %s --check-prefix=TWO
// TWO: 2
// RUN: sextant-compile %s --no-cache --target=cpu:avx512 -o %t.named.sxt && cmp %t.named.sxt %t.adds.sxt
// RUN: sextant-compile %s --no-cache --target=cpu:avx512bf16 -o %t.named.sxt && cmp %t.named.sxt %t.dots.sxt

func.func @forward(%x: tensor<1x1x?x32xbf16>) -> tensor<1x1x?x32xbf16> {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<1x1x?x32xbf16>, tensor<1x1x?x32xbf16>, (tensor<1x1x?x32xbf16>)
    -> (tensor<1x1x?x32xbf16>), tensor<1x1x?xf32>
  return %o : tensor<1x1x?x32xbf16>
}

// Where tiles are faster than vectors, `cpu` means them for rows of bf16, and for
// long ones of f32, of which a product is six of bf16.
// REQUIRES: amx
// RUN: rm -rf %t.cache && env XDG_CACHE_HOME=%t.cache SEXTANT_TARGET= sextant-prof --machine --json > %t.json
// DEFINE: %{probed} = %python %S/Inputs/probed.py %t.cache/sextant
// DEFINE: %{machine} = env XDG_CACHE_HOME=%t.cache SEXTANT_TARGET= sextant-prof --machine

// RUN: %{probed} 1e11 2e11 1e11 3e12 && %{machine} | FileCheck %s --check-prefix=TILES
// TILES: target cpu: cpu:avx512 for f32, cpu:amx for f32 from 1024 queries on, cpu:amx for bf16

// Five times as fast as vectors.
// RUN: %{probed} 1e11 2e11 1e11 10e11 && %{machine} | FileCheck %s --check-prefix=MIXED
// MIXED: target cpu: cpu:avx512 for f32, cpu:avx512 for f32 from 1024 queries on, cpu:amx for bf16

// Tiles that are emulated.
// RUN: %{probed} 1e11 2e11 1e11 1e10 && %{machine} | FileCheck %s --check-prefix=VECTORS
// VECTORS: target cpu: cpu:avx512 for f32, cpu:avx512 for f32 from 1024 queries on, cpu:avx512 for bf16

// Of a program the types say how long rows are, or the module does.
// DEFINE: %{asm} = env XDG_CACHE_HOME=%t.cache SEXTANT_TARGET= sextant-compile - --no-cache --emit=asm
// RUN: %{probed} 1e11 2e11 1e11 3e12
// RUN: sed s/LENGTH/1024/g %s | %{asm} | FileCheck %s --check-prefix=LONG
// RUN: sed 's/LENGTH/?/g; s/^module/module attributes {pos.long_rows}/' %s | %{asm} | FileCheck %s --check-prefix=LONG
// LONG: tdpbf16ps
// RUN: sed s/LENGTH/1023/g %s | %{asm} | FileCheck %s --check-prefix=SHORT
// RUN: sed s/LENGTH/?/g %s | %{asm} | FileCheck %s --check-prefix=SHORT
// SHORT-NOT: tdpbf16ps

module {
  func.func @forward(%x: tensor<1x1xLENGTHx32xf32>, %k: tensor<1x1x?x32xf32>) -> tensor<1x1xLENGTHx32xf32> {
    %o, %lse = pos.attention %x, %k, (%k)
      : tensor<1x1xLENGTHx32xf32>, tensor<1x1x?x32xf32>, (tensor<1x1x?x32xf32>)
      -> (tensor<1x1xLENGTHx32xf32>), tensor<1x1xLENGTHxf32>
    return %o : tensor<1x1xLENGTHx32xf32>
  }
}

// Passes out of order say which one is missing, and change nothing.
// DEFINE: %{code} = %python %S/../runtime/Inputs/code.py
// DEFINE: %{opt} = %{code} 1 sextant-opt %s
// RUN: %{opt} --pos-inline-encodings 2>&1 | FileCheck %s --check-prefix=LINK
// LINK: error: 'pos.attention' op uses @causal, which is not linked: inlining comes after pos-link-encodings
// RUN: %{opt} --pos-fuse-sites 2>&1 | FileCheck %s --check-prefix=INLINE
// RUN: %{opt} --pos-drop-row-constants 2>&1 | FileCheck %s --check-prefix=INLINE
// RUN: %{opt} --pos-form-piecewise-linear 2>&1 | FileCheck %s --check-prefix=INLINE
// RUN: %{opt} --pos-hoist 2>&1 | FileCheck %s --check-prefix=INLINE
// RUN: %{opt} --pos-hoist-vectors 2>&1 | FileCheck %s --check-prefix=INLINE
// RUN: %{opt} --pos-link-encodings --pos-lower-attention 2>&1 | FileCheck %s --check-prefix=INLINE
// INLINE: order-errors.mlir:{{.*}}error: {{.*}}after inlining
// INLINE: note: {{[a-z-]+}} comes after pos-inline-encodings
// RUN: %{opt} --pos-link-encodings --pos-inline-encodings --pos-hoist 2>&1 | FileCheck %s --check-prefix=FUSE
// RUN: %{opt} --pos-link-encodings --pos-inline-encodings --pos-lower-attention=target=reference 2>&1 | FileCheck %s --check-prefix=FUSE
// FUSE: error: 'pos.score' op is left after fusing
// FUSE: note: {{[a-z-]+}} comes after pos-fuse-sites
// RUN: %{opt} --pos-link-encodings --pos-inline-encodings --pos-fuse-sites --pos-lower-attention=target=reference 2>&1 | FileCheck %s --check-prefix=HOIST
// HOIST: error: 'pos.read' op is left in a payload
// HOIST: note: pos-lower-attention comes after pos-hoist
// RUN: %{opt} --exec-release-tensors --exec-verify-instructions 2>&1 | FileCheck %s --check-prefix=LOWER
// LOWER: error: 'pos.attention' op is not an instruction of the exec level: pos-lower-attention comes before

func.func @forward(%x: tensor<1x4x?x32xf32>, %slopes: tensor<4xf32>, %p: tensor<4xf32>) -> tensor<1x4x?x32xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@causal, "causal">, #pos.use<@alibi, "alibi">, #pos.use<@alibi, "again">]
    params(%slopes, %p : tensor<4xf32>, tensor<4xf32>)
    : tensor<1x4x?x32xf32>, tensor<1x4x?x32xf32>, (tensor<1x4x?x32xf32>)
    -> (tensor<1x4x?x32xf32>), tensor<1x4x?xf32>
  return %o : tensor<1x4x?x32xf32>
}

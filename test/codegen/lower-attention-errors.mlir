// RUN: sextant-opt %s --lower-attention=target=cpu:avx512 --split-input-file --verify-diagnostics
// RUN: not sextant-opt %s --lower-attention=target=gpu --split-input-file 2>&1 | FileCheck %s

// CHECK: unknown target 'gpu', expected one of reference, cpu, cpu:avx512bf16, cpu:avx512, cpu:avx2

// C8: f64 is for the reference.
func.func @double(%x: tensor<?x?x?x8xf64>) -> tensor<?x?x?x8xf64> {
  // expected-error @below {{'pos.attention' op kernels of the CPU compute f32 and bf16, not 'f64'; the target 'reference' computes f64}}
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf64>, tensor<?x?x?x8xf64>, (tensor<?x?x?x8xf64>)
    -> (tensor<?x?x?x8xf64>), tensor<?x?x?xf64>
  return %o : tensor<?x?x?x8xf64>
}

// -----

func.func @half(%x: tensor<?x?x?x8xf16>) -> tensor<?x?x?x8xf16> {
  // expected-error @below {{not 'f16'; the target 'reference' computes f64}}
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf16>, tensor<?x?x?x8xf16>, (tensor<?x?x?x8xf16>)
    -> (tensor<?x?x?x8xf16>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf16>
}

// -----

// Encodings come in before.
func.func @uses(%x: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  // expected-error @below {{expected uses of encodings to be inlined before lowering}}
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@causal, "causal">]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

// -----

// Positions of an axis more than kernels keep at hand.
func.func @axes(%x: tensor<?x?x?x8xf32>, %p: tensor<?x?x5xi32>) -> tensor<?x?x?x8xf32> {
  // expected-error @below {{kernels of the CPU take positions of up to 4 axes, got 5}}
  %o, %lse = pos.attention %x, %x, (%x)
    query_positions(%p : tensor<?x?x5xi32>) key_positions(%p : tensor<?x?x5xi32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

// -----

// All heads at once.
func.func @allHeads(%x: tensor<?x2x?x8xf32>) -> tensor<?x2x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32> {
    // expected-error @below {{of all heads has no kernel on this target}}
    pos.score {
    ^bb0(%s: tensor<2xf32>):
      %t = arith.mulf %s, %s : tensor<2xf32>
      pos.yield %t : tensor<2xf32>
    }
  }
  return %o : tensor<?x2x?x8xf32>
}

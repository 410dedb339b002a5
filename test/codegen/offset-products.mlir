// RUN: sextant-opt %s --sextant-encoding-pipeline=offset-products=true --pos-lower-attention=target=cpu:avx2 --split-input-file | FileCheck %s

// An index that determines the offset takes one row per offset; no product with the
// whole table is made.
pos.encoding @behind {
  %d = pos.extent head_dim
  %n = pos.option "n" : i32 = 64 : i32
  %zero = arith.constant 0.0 : f32
  %e = pos.param "e" : tensor<?x?xf32> dims(%n, %d) init constant(%zero)
  pos.score {
  ^bb0(%s: f32):
    %o = pos.offset
    %none = arith.constant 0 : i32
    %i = arith.subi %none, %o : i32
    %z = pos.query_dot %e[%i] : tensor<?x?xf32>
    %t = arith.addf %s, %z : f32
    pos.yield %t : f32
  }
}
// CHECK-LABEL: func.func @by_offset
// CHECK-NOT:   products_0
// CHECK:       exec.launch @kernels::@attention_0_offset_seen_0
// CHECK-NOT:   offset_factors
// CHECK:       exec.launch @kernels::@attention_0_offset_rows_0
// CHECK:       exec.launch @kernels::@attention_0_forward
func.func @by_offset(%q: tensor<2x2x?x8xf32>, %e: tensor<64x8xf32>) -> tensor<2x2x?x8xf32> {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@behind, "behind">]
    params(%e : tensor<64x8xf32>)
    : tensor<2x2x?x8xf32>, tensor<2x2x?x8xf32>, (tensor<2x2x?x8xf32>)
    -> (tensor<2x2x?x8xf32>), tensor<2x2x?xf32>
  return %o : tensor<2x2x?x8xf32>
}

// Positions have gaps: rows of offsets would be too many.
// CHECK-LABEL: func.func @by_positions
// CHECK-NOT:   offset_rows
// CHECK:       exec.launch @kernels::@attention_1_products_0
// CHECK:       exec.launch @kernels::@attention_1_forward
func.func @by_positions(%q: tensor<2x2x?x8xf32>, %e: tensor<64x8xf32>, %p: tensor<1x?x1xi32>)
    -> tensor<2x2x?x8xf32> {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@behind, "behind">]
    params(%e : tensor<64x8xf32>) query_positions(%p : tensor<1x?x1xi32>)
    key_positions(%p : tensor<1x?x1xi32>)
    : tensor<2x2x?x8xf32>, tensor<2x2x?x8xf32>, (tensor<2x2x?x8xf32>)
    -> (tensor<2x2x?x8xf32>), tensor<2x2x?xf32>
  return %o : tensor<2x2x?x8xf32>
}

// -----

// A clipped index has few values: products with all rows, made once per query.
pos.encoding @clipped {
  %d = pos.extent head_dim
  %n = pos.option "n" : i32 = 9 : i32
  %zero = arith.constant 0.0 : f32
  %e = pos.param "e" : tensor<?x?xf32> dims(%n, %d) init constant(%zero)
  pos.score {
  ^bb0(%s: f32):
    %o = pos.offset
    %most = arith.constant 8 : i32
    %a = math.absi %o : i32
    %i = arith.minsi %a, %most : i32
    %z = pos.query_dot %e[%i] : tensor<?x?xf32>
    %t = arith.addf %s, %z : f32
    pos.yield %t : f32
  }
}
// CHECK-LABEL: func.func @by_clipped_offset
// CHECK-NOT:   offset_rows
// CHECK:       exec.launch @kernels::@attention_0_products_0
func.func @by_clipped_offset(%q: tensor<2x2x?x8xf32>, %e: tensor<9x8xf32>) -> tensor<2x2x?x8xf32> {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@clipped, "clipped">]
    params(%e : tensor<9x8xf32>)
    : tensor<2x2x?x8xf32>, tensor<2x2x?x8xf32>, (tensor<2x2x?x8xf32>)
    -> (tensor<2x2x?x8xf32>), tensor<2x2x?xf32>
  return %o : tensor<2x2x?x8xf32>
}

// -----

// Distances that are clipped far away: rows of offsets of the query and of the key.
// No buffer has a product per row of a table, nor one of their gradients.
// CHECK-LABEL: func.func @far_bounds
// CHECK-NOT:   products
// CHECK:       exec.launch @kernels::@attention_0_offset_ends_0
// CHECK:       exec.launch @kernels::@attention_0_offset_rows_0
// CHECK-NOT:   products
// CHECK:       exec.launch @kernels::@attention_0_offset_rows_1
// CHECK:       exec.launch @kernels::@attention_0_offset_transpose_1
// CHECK:       exec.launch @kernels::@attention_0_forward
func.func @far_bounds(%q: tensor<2x2x?x8xf32>, %kr: tensor<16x1024xf32>, %qr: tensor<16x1024xf32>) -> tensor<2x2x?x8xf32> {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@deberta, "deberta">]
    params(%kr, %qr : tensor<16x1024xf32>, tensor<16x1024xf32>)
    : tensor<2x2x?x8xf32>, tensor<2x2x?x8xf32>, (tensor<2x2x?x8xf32>)
    -> (tensor<2x2x?x8xf32>), tensor<2x2x?xf32>
  return %o : tensor<2x2x?x8xf32>
}

// CHECK-LABEL: func.func @far_bounds_backward
// CHECK-NOT:   products
// CHECK:       exec.launch @kernels::@attention_backward_1_main
// CHECK-NOT:   products
// CHECK:       exec.launch @kernels::@attention_backward_1_finish_key
// CHECK-NOT:   products
// CHECK:       return
func.func @far_bounds_backward(%q: tensor<2x2x?x8xf32>, %stats: tensor<2x2x?x2xf32>, %dlse: tensor<2x2x?xf32>,
                               %kr: tensor<16x1024xf32>, %qr: tensor<16x1024xf32>) -> (tensor<2x2x?x8xf32>, tensor<16x1024xf32>) {
  %dq, %dk, %dv, %d0, %d1 = pos.attention_backward %q, %q, (%q), (%q), %stats, (%q), %dlse
    uses [#pos.use<@deberta, "deberta">] params(%kr, %qr : tensor<16x1024xf32>, tensor<16x1024xf32>) gradients [0, 1]
    : tensor<2x2x?x8xf32>, tensor<2x2x?x8xf32>, (tensor<2x2x?x8xf32>), (tensor<2x2x?x8xf32>), tensor<2x2x?x2xf32>, (tensor<2x2x?x8xf32>), tensor<2x2x?xf32>
    -> tensor<2x2x?x8xf32>, tensor<2x2x?x8xf32>, (tensor<2x2x?x8xf32>), tensor<16x1024xf32>, tensor<16x1024xf32>
  return %dq, %d1 : tensor<2x2x?x8xf32>, tensor<16x1024xf32>
}

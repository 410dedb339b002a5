// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// Rotation and decay are one table per operand, centred on the range of the keys.
// The number of keys is checked when the program runs.
// CHECK-LABEL: func @xpos
// CHECK: pos.require_span at_most %{{.+}}, "positions of xpos span more than the safe range of its decay, 64 scale_base"
// CHECK: pos.hoist [self, lane] {
// CHECK-DAG: pos.bound least key
// CHECK-DAG: pos.bound greatest key
// CHECK: pos.rows of [query] interleaved {
// CHECK: pos.rows of [key] interleaved {
func.func @xpos(%x: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@xpos, "xpos">, #pos.use<@causal, "causal">]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

// -----

// CHECK-LABEL: func @window_hides_later_keys
func.func @window_hides_later_keys(%x: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@xpos, "xpos">, #pos.use<@window, "window">]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

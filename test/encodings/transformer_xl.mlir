// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// u is a map of query rows; the term of the distance sees the row without it,
// with v. The sum is as long as the heads' rows together, nothing of it hoisted.
// CHECK-LABEL: func @transformer_xl
// CHECK: ^bb0(%[[U:.+]]: tensor<2x8xf32>, %[[V:.+]]: tensor<2x8xf32>, %[[WR:.+]]: tensor<16x16xf32>):
// CHECK: pos.hoist [head, lane] {
// CHECK: pos.read %[[U]]
// CHECK: pos.rows of [query] single
// CHECK: pos.score {
// CHECK: pos.sum to %{{.+}} {
// CHECK: ^bb0(%[[C:.+]]: i32):
// CHECK: %[[Z:.+]] = pos.query_dot %[[WR]] columns[%[[C]]] plus %[[V]]
// CHECK: math.cos
// CHECK: %[[R:.+]] = arith.select
// CHECK: arith.mulf %[[Z]], %[[R]]
// CHECK: pos.scale
func.func @transformer_xl(%x: tensor<?x2x?x8xf32>, %u: tensor<2x8xf32>, %v: tensor<2x8xf32>, %wr: tensor<16x16xf32>) -> tensor<?x2x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@transformer_xl, "transformer_xl">]
    params(%u, %v, %wr : tensor<2x8xf32>, tensor<2x8xf32>, tensor<16x16xf32>)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32>
  return %o : tensor<?x2x?x8xf32>
}

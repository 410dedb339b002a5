// RUN: sextant-opt %s --sextant-encoding-pipeline | FileCheck %s

// One product per (query, key); scores before and after act at every head.
// CHECK-LABEL: func @among
// CHECK: %[[BIAS:.+]] = pos.hoist [head, offset] {
// CHECK: pos.score {
// CHECK-NEXT: ^bb0(%[[S:.+]]: tensor<3xf32>):
// CHECK-NEXT: %[[A:.+]] = pos.for_heads(%[[S]]) {
// CHECK:   arith.subf %{{.+}}, %[[BIAS]]
// CHECK: %[[B:.+]] = pos.contract %{{.+}}, %[[A]] : tensor<?x?xf32>, tensor<3xf32> -> tensor<3xf32>
// CHECK-NEXT: %[[C:.+]] = pos.for_heads(%[[B]]) {
// CHECK:   math.tanh
// CHECK: pos.yield %[[C]]
func.func @among(%x: tensor<?x3x?x8xf32>, %p0: tensor<?xf32>, %p1: tensor<?xf32>, %p2: tensor<?x?xf32>) -> tensor<?x3x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x)
    uses [#pos.use<@kerple_log, "k">, #pos.use<@talking_heads, "t">, #pos.use<@softcap, "s">]
    params(%p0, %p1, %p2 : tensor<?xf32>, tensor<?xf32>, tensor<?x?xf32>)
    : tensor<?x3x?x8xf32>, tensor<?x3x?x8xf32>, (tensor<?x3x?x8xf32>)
    -> (tensor<?x3x?x8xf32>), tensor<?x3x?xf32>
  return %o : tensor<?x3x?x8xf32>
}

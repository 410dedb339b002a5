// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// Ids become a vector over queries and one over keys.
// CHECK-LABEL: func @document
// CHECK: %[[OWN:.+]] = pos.hoist [batch, query] {
// CHECK: %[[OTHER:.+]] = pos.hoist [batch, key] {
// CHECK: pos.mask {
// CHECK-NEXT: %[[V:.+]] = arith.cmpi eq, %[[OWN]], %[[OTHER]] : i32
// CHECK-NEXT: pos.yield %[[V]]
func.func @document(%x: tensor<?x?x?x8xf32>, %p0: tensor<1x?xi32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@document, "document">]
    params(%p0 : tensor<1x?xi32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

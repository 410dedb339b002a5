// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// One running sum for the query's rows, which shifts the log-sum-exp only, and one
// for the keys'.
// CHECK-LABEL: func @forgetting
// CHECK: %[[Q:.+]] = pos.hoist [batch, head, query] {
// CHECK: pos.running_sum to query {
// CHECK: math.log1p
// CHECK: pos.row_term %[[Q]] : f32
// CHECK: %[[K:.+]] = pos.hoist [batch, head, key] {
// CHECK: pos.running_sum to key {
// CHECK: arith.subf %{{.+}}, %[[K]] : f32
func.func @forgetting(%x: tensor<?x?x?x8xf32>, %p0: tensor<?x?x?xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@forgetting, "forgetting">]
    params(%p0 : tensor<?x?x?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

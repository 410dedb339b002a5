// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// The logarithm of the distance is a table over offsets, the normaliser a vector
// over queries.
// CHECK-LABEL: func @fire
// CHECK-DAG: pos.hoist [offset] {
// CHECK-DAG: pos.hoist [query] {
// CHECK: pos.score {
func.func @fire(%x: tensor<?x?x?x8xf32>, %p0: tensor<f32>, %p1: tensor<f32>, %p2: tensor<?xf32>, %p3: tensor<?xf32>, %p4: tensor<?x?xf32>, %p5: tensor<?xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@fire, "fire">]
    params(%p0, %p1, %p2, %p3, %p4, %p5 : tensor<f32>, tensor<f32>, tensor<?xf32>, tensor<?xf32>, tensor<?x?xf32>, tensor<?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// Buckets are counted against integer thresholds, once for all heads; no logarithm.
// CHECK-LABEL: func @causal
// CHECK-NOT: math.log
// CHECK: %[[BUCKET:.+]] = pos.hoist [offset] {
// CHECK:   pos.sum to
// CHECK:     pos.read
// CHECK:     arith.cmpf oge
// CHECK:   pos.yield %{{.+}} : i32
// CHECK: %[[BIAS:.+]] = pos.hoist [head, offset] {
// CHECK:   pos.read %{{.+}}[%[[BUCKET]], %{{.+}}]
// CHECK: pos.score {
// CHECK: arith.addf %{{.+}}, %[[BIAS]]
func.func @causal(%x: tensor<?x?x?x8xf32>, %p0: tensor<32x?xf32>, %p1: tensor<16xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@t5_bias, "t5_bias">]
    params(%p0, %p1 : tensor<32x?xf32>, tensor<16xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

// -----

// Half of the buckets for each side.
// CHECK-LABEL: func @both
// CHECK: pos.hoist [offset] {
// CHECK:   math.absi
// CHECK:   arith.cmpi sgt
func.func @both(%x: tensor<?x?x?x8xf32>, %p0: tensor<32x?xf32>, %p1: tensor<8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@t5_bias, "t5_bias", {bidirectional = true}>]
    params(%p0, %p1 : tensor<32x?xf32>, tensor<8xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

// -----

// Times the root of the head dim.
// CHECK-LABEL: func @scaled
// CHECK: %[[BUCKET:.+]] = pos.hoist [offset] {
// CHECK: pos.hoist [head, offset] {
// CHECK:   pos.read
// CHECK:   arith.mulf
func.func @scaled(%x: tensor<?x?x?x8xf32>, %p0: tensor<32x?xf32>, %p1: tensor<16xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@t5_bias, "t5_bias", {times_sqrt_dim = true}>]
    params(%p0, %p1 : tensor<32x?xf32>, tensor<16xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// One load per score.
// CHECK-LABEL: func @plain
// CHECK: %[[BIAS:.+]] = pos.hoist [head, offset] {
// CHECK-NOT: pos.scale
// CHECK:   pos.read
// CHECK: pos.score {
// CHECK: ^bb0(%[[S:.+]]: f32):
// CHECK-NEXT: %[[T:.+]] = arith.subf %[[S]], %[[BIAS]]
// CHECK-NEXT: pos.yield %[[T]]
func.func @plain(%x: tensor<?x?x?x8xf32>, %p0: tensor<?xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@alibi, "alibi">]
    params(%p0 : tensor<?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

// -----

// The bias times the attention's scale.
// CHECK-LABEL: func @scaled
// CHECK: pos.hoist [head, offset] {
// CHECK:   pos.scale
func.func @scaled(%x: tensor<?x?x?x8xf32>, %p0: tensor<?xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@alibi, "alibi", {scaled = true}>]
    params(%p0 : tensor<?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

// -----

// Half a slope is added below the diagonal.
// CHECK-LABEL: func @later
// CHECK: pos.hoist [head, offset] {
// CHECK:   arith.cmpi slt
// CHECK:   arith.select
func.func @later(%x: tensor<?x?x?x8xf32>, %p0: tensor<?xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@alibi, "alibi", {later_half = true}>]
    params(%p0 : tensor<?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// The score is needed by every op: nothing leaves the tile.
// CHECK-LABEL: func @softcap
// CHECK-NOT: pos.hoist
// CHECK: pos.score {
// CHECK: ^bb0(%[[S:.+]]: f32):
// CHECK: %[[CAP:.+]] = arith.constant 3.000000e+01 : f32
// CHECK: %[[X:.+]] = arith.divf %[[S]], %[[CAP]]
// CHECK: %[[T:.+]] = math.tanh %[[X]]
// CHECK: arith.mulf %[[T]], %[[CAP]]
func.func @softcap(%x: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@softcap, "softcap", {cap = 30.0}>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

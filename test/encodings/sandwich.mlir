// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// The sum of cosines is made once for all heads.
// CHECK-LABEL: func @sandwich
// CHECK: %[[SUM:.+]] = pos.hoist [offset] {
// CHECK:   pos.sum to
// CHECK:     math.cos
// CHECK: %[[BIAS:.+]] = pos.hoist [head, offset] {
// CHECK:   arith.mulf %{{.+}}, %[[SUM]]
// CHECK: pos.score {
// CHECK: arith.addf %{{.+}}, %[[BIAS]]
func.func @sandwich(%x: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@sandwich, "sandwich">]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// The power never sees a distance of 0.
// CHECK-LABEL: func @kerple_power
// CHECK: %[[BIAS:.+]] = pos.hoist [head, offset] {
// CHECK:   arith.maxsi
// CHECK:   math.powf
// CHECK:   arith.select
// CHECK: pos.score {
// CHECK: arith.subf %{{.+}}, %[[BIAS]]
func.func @kerple_power(%x: tensor<?x?x?x8xf32>, %p0: tensor<?xf32>, %p1: tensor<?xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@kerple_power, "kerple_power">]
    params(%p0, %p1 : tensor<?xf32>, tensor<?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// One load per score; the parameters stand behind the table.
// CHECK-LABEL: func @kerple_log
// CHECK: %[[BIAS:.+]] = pos.hoist [head, offset] {
// CHECK:   math.log1p
// CHECK: pos.score {
// CHECK: ^bb0(%[[S:.+]]: f32):
// CHECK-NEXT: arith.subf %[[S]], %[[BIAS]]
func.func @kerple_log(%x: tensor<?x?x?x8xf32>, %p0: tensor<?xf32>, %p1: tensor<?xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@kerple_log, "kerple_log">]
    params(%p0, %p1 : tensor<?xf32>, tensor<?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

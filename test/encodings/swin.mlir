// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// Offsets on two axes: one table runs over both.
// CHECK-LABEL: func @swin
// CHECK: %[[BIAS:.+]] = pos.hoist [head, offset] {
// CHECK-DAG: pos.offset{{$}}
// CHECK-DAG: pos.offset axis 1
// CHECK: arith.maxsi
// CHECK: arith.minsi
// CHECK: pos.read %{{.+}}[%{{.+}}, %{{.+}}]
// CHECK: pos.score {
// CHECK-NEXT: ^bb0(%[[S:.+]]: f32):
// CHECK-NEXT: %[[T:.+]] = arith.addf %[[S]], %[[BIAS]]
// CHECK-NEXT: pos.yield %[[T]]
func.func @swin(%x: tensor<?x?x?x8xf32>, %p0: tensor<?x?xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@swin, "swin", {rows = 3, columns = 5}>]
    params(%p0 : tensor<?x?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

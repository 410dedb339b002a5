// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// The angle is made of learned frequencies: a table per head that has a gradient.
// CHECK-LABEL: func @rope_2d_mixed
// CHECK: pos.hoist [head, self, lane] {
// CHECK-DAG: pos.coord self axis 1
// CHECK-DAG: pos.read %{{.+}}[%{{.+}}, %{{.+}}, %{{.+}}]
// CHECK: math.cos
// CHECK: pos.rows of [query, key] interleaved {
func.func @rope_2d_mixed(%x: tensor<?x?x?x8xf32>, %p0: tensor<?x?x?xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@rope_2d_mixed, "rope_2d_mixed">]
    params(%p0 : tensor<?x?x?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

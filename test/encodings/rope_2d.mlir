// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// The first half of the pairs turns by the second axis, the column.
// CHECK-LABEL: func @rope_2d
// CHECK: pos.hoist [self, lane] {
// CHECK: %[[ROW:.+]] = pos.coord self
// CHECK: %[[COLUMN:.+]] = pos.coord self axis 1
// CHECK: arith.select %{{.+}}, %[[COLUMN]], %[[ROW]]
// CHECK: math.cos
// CHECK: pos.rows of [query, key] interleaved {
func.func @rope_2d(%x: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@rope_2d, "rope_2d">]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// Offsets on two axes: the index is computed in the tile and kept on the grid.
// CHECK-LABEL: func @swin
// CHECK: pos.score {
// CHECK: pos.offset axis 1
// CHECK: arith.maxsi
// CHECK: arith.minsi
// CHECK: pos.read %{{.+}}[%{{.+}}, %{{.+}}]
func.func @swin(%x: tensor<?x?x?x8xf32>, %p0: tensor<?x?xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@swin, "swin", {rows = 3, columns = 5}>]
    params(%p0 : tensor<?x?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// One value per key.
// CHECK-LABEL: func @padding
// CHECK: %[[KEY:.+]] = pos.hoist [batch, key] {
// CHECK: pos.mask {
// CHECK: arith.cmpi ne, %[[KEY]], %
func.func @padding(%x: tensor<?x?x?x8xf32>, %p0: tensor<?x?xi32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@padding, "padding">]
    params(%p0 : tensor<?x?xi32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

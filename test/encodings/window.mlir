// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// The last 64 keys; everything stays in the mask, for the classes of tiles.
// CHECK-LABEL: func @past
// CHECK-NOT: pos.hoist
// CHECK: pos.mask {
// CHECK: %[[SIZE:.+]] = arith.constant 64 : i32
// CHECK: %[[D:.+]] = arith.subi %{{.+}}, %{{.+}} : i32
// CHECK: arith.cmpi slt, %[[D]], %[[SIZE]]
// CHECK: arith.cmpi sge, %[[D]], %
func.func @past(%x: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@window, "window", {size = 64}>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

// -----

// Both sides.
// CHECK-LABEL: func @both
// CHECK: pos.mask {
// CHECK: arith.constant -64 : i32
// CHECK: arith.cmpi slt
// CHECK: arith.cmpi sgt
func.func @both(%x: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@window, "window", {size = 64, two_sided = true}>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

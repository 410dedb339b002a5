// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// The length is a scalar of the batch element.
// CHECK-LABEL: func @prefix
// CHECK: %[[LENGTH:.+]] = pos.hoist [batch] {
// CHECK:   pos.read
// CHECK: pos.mask {
// CHECK: %[[FIRST:.+]] = arith.cmpi slt, %{{.+}}, %[[LENGTH]] : i32
// CHECK: %[[PAST:.+]] = arith.cmpi sle
// CHECK: arith.ori %[[FIRST]], %[[PAST]]
func.func @prefix(%x: tensor<?x?x?x8xf32>, %p0: tensor<?xi32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@prefix, "prefix">]
    params(%p0 : tensor<?xi32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

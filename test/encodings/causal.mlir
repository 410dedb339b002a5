// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// Indices are compared, not coordinates.
// CHECK-LABEL: func @causal
// CHECK: pos.mask {
// CHECK-NEXT: %[[I:.+]] = pos.index query
// CHECK-NEXT: %[[J:.+]] = pos.index key
// CHECK-NEXT: %[[V:.+]] = arith.cmpi sle, %[[J]], %[[I]] : i32
// CHECK-NEXT: pos.yield %[[V]] : i1
func.func @causal(%x: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@causal, "causal">]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

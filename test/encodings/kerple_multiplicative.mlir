// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// Decay and bias are tables over offsets; the tile multiplies and subtracts. The
// powers never see a distance of 0.
// CHECK-LABEL: func @kerple_multiplicative
// CHECK-COUNT-2: pos.hoist [head, offset] {
// CHECK: pos.score {
// CHECK-NEXT: ^bb0(%[[S:.+]]: f32):
// CHECK-NEXT: %[[P:.+]] = arith.mulf %[[S]], %{{.+}} : f32
// CHECK-NEXT: %[[T:.+]] = arith.subf %[[P]], %{{.+}} : f32
// CHECK-NEXT: pos.yield %[[T]]
func.func @kerple_multiplicative(%x: tensor<?x?x?x8xf32>, %p0: tensor<?xf32>, %p1: tensor<?xf32>, %p2: tensor<?xf32>, %p3: tensor<?xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@kerple_multiplicative, "kerple_multiplicative">]
    params(%p0, %p1, %p2, %p3 : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

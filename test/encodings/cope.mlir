// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// Both reads are of one table, at the scanned position; the limit is a constant.
// CHECK-LABEL: func @cope
// CHECK-NOT: pos.hoist
// CHECK: ^bb0(%[[TABLE:.+]]: tensor<8x16xf32>):
// CHECK: pos.score {
// CHECK: %[[LIMIT:.+]] = arith.constant 1.500000e+01 : f32
// CHECK: %[[P:.+]] = pos.scan %{{.+}} leftward until %[[LIMIT]] : f32
// CHECK: math.floor %[[P]]
// CHECK: arith.minsi
// CHECK: pos.query_dot %[[TABLE]] columns[%{{.+}}]
// CHECK: pos.query_dot %[[TABLE]] columns[%{{.+}}]
func.func @cope(%x: tensor<?x?x?x8xf32>, %t: tensor<8x16xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@cope, "cope", {positions = 16 : i32}>]
    params(%t : tensor<8x16xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

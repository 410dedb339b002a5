// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// The key side is a term of the score, the value side a site of its own.
// CHECK-LABEL: func @shaw
// CHECK: ^bb0(%[[AK:.+]]: tensor<9x8xf32>, %[[AV:.+]]: tensor<9x8xf32>):
// CHECK: pos.score {
// CHECK: %[[Z:.+]] = pos.query_dot %[[AK]][%{{.+}}]
// CHECK: %[[T:.+]] = arith.mulf %[[Z]]
// CHECK: arith.addf %{{.+}}, %[[T]]
// CHECK: pos.weighted_rows %[[AV]] when
// CHECK: arith.minsi
func.func @shaw(%x: tensor<?x?x?x8xf32>, %ak: tensor<9x8xf32>, %av: tensor<9x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@shaw, "shaw", {reach = 4 : i32}>]
    params(%ak, %av : tensor<9x8xf32>, tensor<9x8xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// The query's row map adds u; the distance term sees the query as it entered.
// CHECK-LABEL: func @transformer_xl
// CHECK: ^bb0(%[[U:.+]]: tensor<2x8xf32>, %{{.+}}: tensor<2x8xf32>, %[[WR:.+]]: tensor<16x6xf32>):
// CHECK: pos.rows of [query] single
// CHECK: pos.score {
// CHECK: pos.sum
// CHECK: pos.query_dot %[[WR]] columns[%{{.+}}]
func.func @transformer_xl(%x: tensor<?x2x?x8xf32>, %u: tensor<2x8xf32>, %v: tensor<2x8xf32>, %wr: tensor<16x6xf32>) -> tensor<?x2x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@transformer_xl, "xl", {width = 6 : i32}>]
    params(%u, %v, %wr : tensor<2x8xf32>, tensor<2x8xf32>, tensor<16x6xf32>)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32>
  return %o : tensor<?x2x?x8xf32>
}

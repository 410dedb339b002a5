// RUN: sextant-opt %s --pos-fuse-row-gathers --split-input-file | FileCheck %s
// RUN: sextant-opt %s --pos-fuse-row-gathers --split-input-file --remarks-filter=pos-fuse-row-gathers -o /dev/null 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: sextant-opt %s --pos-fuse-row-gathers --pos-fuse-row-gathers --split-input-file | FileCheck %s

// A row map takes its rows itself, and so does its gradient: the rows are not
// there any more.
// COUNT: remark: [Passed] fused | Category:pos-fuse-row-gathers | Maps=2
// CHECK-LABEL: func @step
// CHECK-SAME:  (%[[TABLE:.+]]: tensor<9x8xf32>, %[[IDS:.+]]: tensor<?x?xi64>
// CHECK-NOT:   nn.embedding %
// CHECK:       %[[Y:.+]] = pos.map_rows %[[TABLE]][%[[IDS]]] of embedding
// CHECK-SAME:  : tensor<9x8xf32>[tensor<?x?xi64>] -> tensor<?x?x8xf32>
// CHECK:       %[[DX:.+]] = pos.map_rows_backward %[[TABLE]][%[[IDS]]], %[[Y]] of embedding
// CHECK-SAME:  : tensor<9x8xf32>[tensor<?x?xi64>], tensor<?x?x8xf32> -> tensor<?x?x8xf32>
// CHECK:       nn.embedding_backward %[[DX]], %[[IDS]], %[[TABLE]]
func.func @step(%table: tensor<9x8xf32>, %ids: tensor<?x?xi64>) -> tensor<9x8xf32> {
  %x = nn.embedding %table, %ids : (tensor<9x8xf32>, tensor<?x?xi64>) -> tensor<?x?x8xf32>
  %y = pos.map_rows %x of embedding : tensor<?x?x8xf32> -> tensor<?x?x8xf32> {
    pos.rows of [embedding] single {
    ^bb0(%a: f32):
      %b = arith.mulf %a, %a : f32
      pos.yield %b : f32
    }
  }
  %dx = pos.map_rows_backward %x, %y of embedding gradients []
    : tensor<?x?x8xf32>, tensor<?x?x8xf32> -> tensor<?x?x8xf32> {
    pos.rows of [embedding] single {
    ^bb0(%a: f32):
      %b = arith.mulf %a, %a : f32
      pos.yield %b : f32
    }
  }
  %dw = nn.embedding_backward %dx, %ids, %table
    : (tensor<?x?x8xf32>, tensor<?x?xi64>, tensor<9x8xf32>) -> tensor<9x8xf32>
  return %dw : tensor<9x8xf32>
}

// -----

// Rows that something else reads stay, and so does the gradient's other use of
// them.
// COUNT: remark: [Passed] fused | Category:pos-fuse-row-gathers | Maps=0
// CHECK-LABEL: func @read_elsewhere
// CHECK:       %[[X:.+]] = nn.embedding
// CHECK:       pos.map_rows %[[X]] of embedding
// CHECK-LABEL: func @gradient_of_itself
// CHECK:       %[[X:.+]] = nn.embedding
// CHECK:       pos.map_rows_backward %[[X]], %[[X]] of embedding
func.func @read_elsewhere(%table: tensor<9x8xf32>, %ids: tensor<?x?xi64>)
    -> (tensor<?x?x8xf32>, tensor<?x?x8xf32>) {
  %x = nn.embedding %table, %ids : (tensor<9x8xf32>, tensor<?x?xi64>) -> tensor<?x?x8xf32>
  %y = pos.map_rows %x of embedding : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  return %x, %y : tensor<?x?x8xf32>, tensor<?x?x8xf32>
}
func.func @gradient_of_itself(%table: tensor<9x8xf32>, %ids: tensor<?x?xi64>)
    -> tensor<?x?x8xf32> {
  %x = nn.embedding %table, %ids : (tensor<9x8xf32>, tensor<?x?xi64>) -> tensor<?x?x8xf32>
  %dx = pos.map_rows_backward %x, %x of embedding gradients []
    : tensor<?x?x8xf32>, tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  return %dx : tensor<?x?x8xf32>
}

// -----

// Rows of one sequence, or of more dimensions, are no rows of a map.
// COUNT: remark: [Passed] fused | Category:pos-fuse-row-gathers | Maps=0
// CHECK-LABEL: func @flat
// CHECK:       nn.embedding
func.func @flat(%table: tensor<9x8xf32>, %ids: tensor<?xi64>) -> tensor<?x8xf32> {
  %x = nn.embedding %table, %ids : (tensor<9x8xf32>, tensor<?xi64>) -> tensor<?x8xf32>
  return %x : tensor<?x8xf32>
}

// RUN: sextant-opt %s --exec-order-memory --split-input-file | FileCheck %s
// RUN: sextant-opt %s --exec-order-memory --split-input-file --remarks-filter=exec-order-memory -o /dev/null 2>&1 | FileCheck %s --check-prefix=COUNT

// What launches write by head and ATen reads by position is allocated by position;
// the launches, the one that reads it again as well, have a view.
// COUNT: remark: [Passed] ordered | Category:exec-order-memory | Tensors=1
// CHECK-LABEL: func @rows
// CHECK-SAME:  (%[[Q:.+]]: tensor<?x12x?x64xf32>, %[[B:.+]]: index, %[[N:.+]]: index)
// CHECK:       %[[MEMORY:.+]] = exec.alloc(%[[B]], %[[N]]) : tensor<?x?x12x64xf32>
// CHECK-NEXT:  %[[ROWS:.+]] = exec.view %[[MEMORY]] permuted [0, 2, 1, 3] sizes(%[[B]], %[[N]]) : tensor<?x?x12x64xf32> -> tensor<?x12x?x64xf32>
// CHECK-NEXT:  tensor.dim %[[ROWS]]
// CHECK-NEXT:  exec.launch @kernels::@forward reads(%[[Q]] : {{.*}}) writes(%[[ROWS]] :
// CHECK-NEXT:  exec.dense "aten::reshape"(%[[MEMORY]] :
// CHECK-NEXT:  exec.launch @kernels::@delta reads(%[[ROWS]] :
// CHECK-NEXT:  exec.dense "aten::reshape"(%[[MEMORY]] :
// CHECK-NEXT:  return
func.func @rows(%q: tensor<?x12x?x64xf32>, %b: index, %n: index)
    -> (tensor<?x768xf32>, tensor<?x768xf32>, index) {
  %c2 = arith.constant 2 : index
  %o = exec.alloc(%b, %n) : tensor<?x12x?x64xf32>
  %dim = tensor.dim %o, %c2 : tensor<?x12x?x64xf32>
  exec.launch @kernels::@forward reads(%q : tensor<?x12x?x64xf32>) writes(%o : tensor<?x12x?x64xf32>)
  %t = exec.dense "aten::transpose.int"(%o : tensor<?x12x?x64xf32>)
    arguments [#exec.tensor<0>, 1, 2] -> tensor<?x?x12x64xf32>
  %r = exec.dense "aten::reshape"(%t : tensor<?x?x12x64xf32>)
    arguments [#exec.tensor<0>, array<i64: -1, 768>] -> tensor<?x768xf32>
  exec.launch @kernels::@delta reads(%o : tensor<?x12x?x64xf32>)
  %again = exec.dense "aten::transpose.int"(%o : tensor<?x12x?x64xf32>)
    arguments [#exec.tensor<0>, 2, 1] -> tensor<?x?x12x64xf32>
  %r2 = exec.dense "aten::reshape"(%again : tensor<?x?x12x64xf32>)
    arguments [#exec.tensor<0>, array<i64: -1, 768>] -> tensor<?x768xf32>
  return %r, %r2, %dim : tensor<?x768xf32>, tensor<?x768xf32>, index
}

// -----

// Sizes go where their dimensions do; a reader's type may know less.
// COUNT: remark: [Passed] ordered | Category:exec-order-memory | Tensors=1
// CHECK-LABEL: func @sizes
// CHECK-SAME:  (%[[A:.+]]: index, %[[B:.+]]: index, %[[C:.+]]: index)
// CHECK:       %[[MEMORY:.+]] = exec.alloc(%[[C]], %[[B]], %[[A]]) zero : tensor<?x?x?x8xf32>
// CHECK-NEXT:  %[[CAST:.+]] = tensor.cast %[[MEMORY]] : tensor<?x?x?x8xf32> to tensor<?x?x?x?xf32>
// CHECK-NEXT:  exec.view %[[MEMORY]] permuted [2, 1, 0, 3] sizes(%[[A]], %[[B]], %[[C]])
// CHECK:       return %[[CAST]]
func.func @sizes(%a: index, %b: index, %c: index) -> tensor<?x?x?x?xf32> {
  %o = exec.alloc(%a, %b, %c) zero : tensor<?x?x?x8xf32>
  exec.launch @kernels::@forward writes(%o : tensor<?x?x?x8xf32>)
  %t = exec.dense "aten::transpose.int"(%o : tensor<?x?x?x8xf32>)
    arguments [#exec.tensor<0>, 0, 2] -> tensor<?x?x?x?xf32>
  return %t : tensor<?x?x?x?xf32>
}

// -----

// Left as they are: what is also read as it is, given back, transposed in two
// ways, or so that rows would come apart.
// COUNT-NOT: remark
// CHECK-LABEL: func @others
// CHECK-NOT:   exec.view
func.func @others(%n: index) -> (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<4x?x8xf32>) {
  %read = exec.alloc(%n) : tensor<4x?x8xf32>
  %given = exec.alloc(%n) : tensor<4x?x8xf32>
  %twice = exec.alloc(%n) : tensor<2x4x?x8xf32>
  %turned = exec.alloc(%n) : tensor<4x?x8xf32>
  exec.launch @kernels::@forward writes(%read, %given, %turned : tensor<4x?x8xf32>, tensor<4x?x8xf32>, tensor<4x?x8xf32>)
  %0 = exec.dense "aten::transpose.int"(%read : tensor<4x?x8xf32>) arguments [#exec.tensor<0>, 0, 1] -> tensor<?x4x8xf32>
  exec.dense "aten::exp_"(%read : tensor<4x?x8xf32>) arguments [#exec.tensor<0>]
  %1 = exec.dense "aten::transpose.int"(%given : tensor<4x?x8xf32>) arguments [#exec.tensor<0>, 0, 1] -> tensor<?x4x8xf32>
  %4 = exec.dense "aten::transpose.int"(%twice : tensor<2x4x?x8xf32>) arguments [#exec.tensor<0>, 0, 1] -> tensor<4x2x?x8xf32>
  %5 = exec.dense "aten::transpose.int"(%twice : tensor<2x4x?x8xf32>) arguments [#exec.tensor<0>, 1, 2] -> tensor<2x?x4x8xf32>
  %2 = exec.dense "aten::transpose.int"(%turned : tensor<4x?x8xf32>) arguments [#exec.tensor<0>, 1, 2] -> tensor<4x8x?xf32>
  %3 = exec.dense "aten::transpose.int"(%turned : tensor<4x?x8xf32>) arguments [#exec.tensor<0>, 0, -2] -> tensor<?x4x8xf32>
  return %0, %1, %given : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<4x?x8xf32>
}

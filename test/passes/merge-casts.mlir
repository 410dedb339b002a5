// RUN: sextant-opt %s --exec-merge-casts --split-input-file | FileCheck %s
// RUN: sextant-opt %s --exec-merge-casts --split-input-file --remarks-filter=exec-merge-casts -o /dev/null 2>&1 | FileCheck %s --check-prefix=COUNT

// Casts between the same types become one call, at the last of them; what needs no
// elements may stand between, and so may a cast of a large tensor, which stays.
// COUNT: remark: [Passed] merged | Category:exec-merge-casts | Casts=2
// CHECK-LABEL: func @parameters
// CHECK-SAME:  (%[[A:.+]]: tensor<8x8xf32>, %[[B:.+]]: tensor<8xf32>, %[[LARGE:.+]]: tensor<2048x1024xf32>, %[[C:.+]]: tensor<4xf32>, %[[X:.+]]: tensor<?x8xf32>)
// CHECK:       %[[A2:.+]] = exec.alloc() : tensor<8x8xbf16>
// CHECK-NEXT:  %[[B2:.+]] = exec.alloc() : tensor<8xbf16>
// CHECK-NEXT:  %[[LARGE2:.+]] = exec.dense "aten::_to_copy"(%[[LARGE]] :
// CHECK-NEXT:  tensor.dim
// CHECK-NEXT:  %[[C2:.+]] = exec.alloc() : tensor<4xbf16>
// CHECK-NEXT:  exec.dense "aten::_foreach_copy_"(%[[A2]], %[[B2]], %[[C2]], %[[A]], %[[B]], %[[C]] :
// CHECK-SAME:  arguments [#exec.tensors<[0, 1, 2]>, #exec.tensors<[3, 4, 5]>, false]
// CHECK-NEXT:  %[[X2:.+]] = exec.dense "aten::_to_copy"(%[[X]] :
// CHECK-NEXT:  exec.dense "aten::linear"(%[[X2]], %[[A2]], %[[B2]] :
// CHECK:       return %{{.+}}, %[[LARGE2]], %[[C2]], %{{.+}}
func.func @parameters(%a: tensor<8x8xf32>, %b: tensor<8xf32>, %large: tensor<2048x1024xf32>,
                      %c: tensor<4xf32>, %x: tensor<?x8xf32>)
    -> (tensor<?x8xbf16>, tensor<2048x1024xbf16>, tensor<4xbf16>, index) {
  %c0 = arith.constant 0 : index
  %0 = exec.dense "aten::_to_copy"(%a : tensor<8x8xf32>) arguments [#exec.tensor<0>, bf16] -> tensor<8x8xbf16>
  %1 = exec.dense "aten::_to_copy"(%b : tensor<8xf32>) arguments [#exec.tensor<0>, bf16] -> tensor<8xbf16>
  %2 = exec.dense "aten::_to_copy"(%large : tensor<2048x1024xf32>) arguments [#exec.tensor<0>, bf16] -> tensor<2048x1024xbf16>
  %n = tensor.dim %x, %c0 : tensor<?x8xf32>
  %3 = exec.dense "aten::_to_copy"(%c : tensor<4xf32>) arguments [#exec.tensor<0>, bf16] -> tensor<4xbf16>
  %4 = exec.dense "aten::_to_copy"(%x : tensor<?x8xf32>) arguments [#exec.tensor<0>, bf16] -> tensor<?x8xbf16>
  %5 = exec.dense "aten::linear"(%4, %0, %1 : tensor<?x8xbf16>, tensor<8x8xbf16>, tensor<8xbf16>)
    arguments [#exec.tensor<0>, #exec.tensor<1>, #exec.tensor<2>] -> tensor<?x8xbf16>
  return %5, %2, %3, %n : tensor<?x8xbf16>, tensor<2048x1024xbf16>, tensor<4xbf16>, index
}

// -----

// Each pair of types of floats has a call; a cast of what another one made comes
// after it.
// COUNT: remark: [Passed] merged | Category:exec-merge-casts | Casts=2
// CHECK-LABEL: func @types
// CHECK-SAME:  (%[[A:.+]]: tensor<8xf32>, %[[B:.+]]: tensor<8xf32>, %[[C:.+]]: tensor<8xi64>)
// CHECK:       exec.dense "aten::_to_copy"(%[[C]] :
// CHECK:       exec.dense "aten::_foreach_copy_"(%[[A2:.+]], %[[B2:.+]], %[[A]], %[[B]] :
// CHECK:       exec.dense "aten::_to_copy"(%[[C]] :
// CHECK:       exec.dense "aten::_foreach_copy_"(%{{.+}}, %{{.+}}, %[[A2]], %[[B2]] :
func.func @types(%a: tensor<8xf32>, %b: tensor<8xf32>, %c: tensor<8xi64>)
    -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0 = exec.dense "aten::_to_copy"(%a : tensor<8xf32>) arguments [#exec.tensor<0>, bf16] -> tensor<8xbf16>
  %1 = exec.dense "aten::_to_copy"(%c : tensor<8xi64>) arguments [#exec.tensor<0>, f32] -> tensor<8xf32>
  %2 = exec.dense "aten::_to_copy"(%b : tensor<8xf32>) arguments [#exec.tensor<0>, bf16] -> tensor<8xbf16>
  %3 = exec.dense "aten::_to_copy"(%0 : tensor<8xbf16>) arguments [#exec.tensor<0>, f32] -> tensor<8xf32>
  %5 = exec.dense "aten::_to_copy"(%c : tensor<8xi64>) arguments [#exec.tensor<0>, f32] -> tensor<8xf32>
  %4 = exec.dense "aten::_to_copy"(%2 : tensor<8xbf16>) arguments [#exec.tensor<0>, f32] -> tensor<8xf32>
  return %1, %3, %4 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// What reads or writes elements parts casts: the second one sees the new values.
// COUNT-NOT: remark
// CHECK-LABEL: func @apart
// CHECK:       exec.dense "aten::_to_copy"(%[[A:.+]] :
// CHECK-NEXT:  exec.dense "aten::exp_"(%[[B:.+]] :
// CHECK-NEXT:  exec.dense "aten::_to_copy"(%[[B]] :
func.func @apart(%a: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<8xbf16>, tensor<8xbf16>) {
  %0 = exec.dense "aten::_to_copy"(%a : tensor<8xf32>) arguments [#exec.tensor<0>, bf16] -> tensor<8xbf16>
  exec.dense "aten::exp_"(%b : tensor<8xf32>) arguments [#exec.tensor<0>]
  %1 = exec.dense "aten::_to_copy"(%b : tensor<8xf32>) arguments [#exec.tensor<0>, bf16] -> tensor<8xbf16>
  return %0, %1 : tensor<8xbf16>, tensor<8xbf16>
}

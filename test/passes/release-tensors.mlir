// RUN: sextant-opt %s --exec-release-tensors --exec-verify-instructions | FileCheck %s
// RUN: sextant-opt %s --exec-release-tensors --exec-release-tensors --exec-verify-instructions | FileCheck %s
// RUN: sextant-opt %s --exec-release-tensors --remarks-filter=exec-release-tensors -o /dev/null 2>&1 | FileCheck %s --check-prefix=COUNT

// A tensor goes after its last use and that of its views; arguments, constants
// and what is given back stay. A size is read where the tensor is made.
// COUNT: remark: [Passed] released | Category:exec-release-tensors | Tensors=3
// CHECK-LABEL: func @release
// CHECK:       %[[A:.+]] = exec.dense "aten::gelu"
// CHECK-NEXT:  %[[N:.+]] = tensor.dim %[[A]]
// CHECK-NEXT:  %[[V:.+]] = exec.view %[[A]]
// CHECK-NEXT:  %[[B:.+]] = exec.dense "aten::gelu"(%[[V]]
// CHECK-NEXT:  exec.release %[[A]], %[[V]]
// CHECK-NEXT:  %[[UNUSED:.+]] = exec.dense "aten::silu"(%[[B]]
// CHECK-NEXT:  exec.release %[[UNUSED]]
// CHECK-NEXT:  %[[C:.+]] = exec.alloc(%[[N]])
// CHECK-NEXT:  return %[[B]], %[[C]]
func.func @release(%x: tensor<?x8xf32>) -> (tensor<8x?xf32>, tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %a = exec.dense "aten::gelu"(%x : tensor<?x8xf32>) arguments [#exec.tensor<0>, "none"] -> tensor<?x8xf32>
  %v = exec.view %a permuted [1, 0] sizes(%c0) : tensor<?x8xf32> -> tensor<8x?xf32>
  %b = exec.dense "aten::gelu"(%v : tensor<8x?xf32>) arguments [#exec.tensor<0>, "none"] -> tensor<8x?xf32>
  %u = exec.dense "aten::silu"(%b : tensor<8x?xf32>) arguments [#exec.tensor<0>] -> tensor<8x?xf32>
  %n = tensor.dim %a, %c0 : tensor<?x8xf32>
  %c = exec.alloc(%n) : tensor<?xf32>
  return %b, %c : tensor<8x?xf32>, tensor<?xf32>
}

// A view that is given back keeps its memory.
// CHECK-LABEL: func @returned_view
// CHECK-NOT:   exec.release
func.func @returned_view(%n: index) -> tensor<8x?xf32> {
  %a = exec.alloc(%n) : tensor<?x8xf32>
  %v = exec.view %a permuted [1, 0] sizes(%n) : tensor<?x8xf32> -> tensor<8x?xf32>
  return %v : tensor<8x?xf32>
}

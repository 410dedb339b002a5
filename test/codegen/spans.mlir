// RUN: sextant-opt %s --sextant-encoding-pipeline --lower-attention=target=cpu:avx2 | FileCheck %s

pos.encoding @near {
  %most = arith.constant 9 : i32
  pos.require_span axis 1 at_most %most, "too far apart"
}

// Indices span the longer of the two lengths.
// CHECK-LABEL: func.func @indices
// CHECK-NOT: exec.element
// CHECK: %[[SPAN:.+]] = arith.maxsi
// CHECK: exec.check %[[SPAN]] at_most %{{.+}}, "too far apart"
// CHECK: exec.launch @kernels::@attention_0_forward
func.func @indices(%q: tensor<2x2x?x8xf32>, %k: tensor<2x2x?x8xf32>) -> tensor<2x2x?x8xf32> {
  %o, %lse = pos.attention %q, %k, (%k) uses [#pos.use<@near, "near">]
    : tensor<2x2x?x8xf32>, tensor<2x2x?x8xf32>, (tensor<2x2x?x8xf32>)
    -> (tensor<2x2x?x8xf32>), tensor<2x2x?xf32>
  return %o : tensor<2x2x?x8xf32>
}

// Positions are looked at before the kernel runs, those of both sides.
// CHECK-LABEL: func.func @positions
// CHECK: exec.launch @kernels::@attention_1_bounds {{.*}}writes(%[[BOUNDS:.+]] : tensor<8xi32>)
// CHECK-DAG: exec.element %[[BOUNDS]][4]
// CHECK-DAG: exec.element %[[BOUNDS]][5]
// CHECK-DAG: exec.element %[[BOUNDS]][6]
// CHECK-DAG: exec.element %[[BOUNDS]][7]
// CHECK: exec.check %{{.+}} at_most %{{.+}}, "too far apart"
// CHECK: exec.launch @kernels::@attention_1_forward
func.func @positions(%q: tensor<2x2x?x8xf32>, %p: tensor<1x?x2xi32>) -> tensor<2x2x?x8xf32> {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@near, "near">]
    query_positions(%p : tensor<1x?x2xi32>) key_positions(%p : tensor<1x?x2xi32>)
    : tensor<2x2x?x8xf32>, tensor<2x2x?x8xf32>, (tensor<2x2x?x8xf32>)
    -> (tensor<2x2x?x8xf32>), tensor<2x2x?xf32>
  return %o : tensor<2x2x?x8xf32>
}

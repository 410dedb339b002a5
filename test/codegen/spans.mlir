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

pos.encoding @between {
  %keys = pos.extent key
  %few = arith.constant 3 : i32
  %many = arith.constant 7 : i32
  pos.require %keys at_least %few, "too few keys"
  pos.require %keys at_most %many, "too many keys"
}

// Lengths that only the call knows.
// CHECK-LABEL: func.func @lengths
// CHECK: %[[KEYS:.+]] = tensor.dim %arg1
// CHECK: %[[FEW:.+]] = arith.constant 3 : index
// CHECK: exec.check %[[FEW]] at_most %[[KEYS]], "too few keys"
// CHECK: %[[KEYS2:.+]] = tensor.dim %arg1
// CHECK: %[[MANY:.+]] = arith.constant 7 : index
// CHECK: exec.check %[[KEYS2]] at_most %[[MANY]], "too many keys"
func.func @lengths(%q: tensor<2x2x1x8xf32>, %k: tensor<2x2x?x8xf32>) -> tensor<2x2x1x8xf32> {
  %o, %lse = pos.attention %q, %k, (%k) uses [#pos.use<@between, "between">]
    : tensor<2x2x1x8xf32>, tensor<2x2x?x8xf32>, (tensor<2x2x?x8xf32>)
    -> (tensor<2x2x1x8xf32>), tensor<2x2x1xf32>
  return %o : tensor<2x2x1x8xf32>
}

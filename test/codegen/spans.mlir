// RUN: sextant-opt %s --sextant-encoding-pipeline --pos-lower-attention=target=cpu:avx2 | FileCheck %s

pos.encoding @near {
  %most = arith.constant 9 : i32
  pos.require_span axis 1 at_most %most, "too far apart"
}

pos.encoding @close {
  %most = arith.constant 9 : i32
  pos.require_span at_most %most, "too far apart"
}

// Indices span the longer of the two lengths.
// CHECK-LABEL: func.func @indices
// CHECK-NOT: exec.check_data
// CHECK: %[[SPAN:.+]] = arith.maxsi
// CHECK: exec.check %[[SPAN]] at_most %{{.+}}, "too far apart"
// CHECK: exec.launch @kernels::@attention_0_forward
func.func @indices(%q: tensor<2x2x?x8xf32>, %k: tensor<2x2x?x8xf32>) -> tensor<2x2x?x8xf32> {
  %o, %lse = pos.attention %q, %k, (%k) uses [#pos.use<@close, "close">]
    : tensor<2x2x?x8xf32>, tensor<2x2x?x8xf32>, (tensor<2x2x?x8xf32>)
    -> (tensor<2x2x?x8xf32>), tensor<2x2x?xf32>
  return %o : tensor<2x2x?x8xf32>
}

// Queries that follow and are not given count; kernels read how many.
// CHECK-LABEL: func.func @chunk
// CHECK-SAME: %[[TAIL:[a-z0-9]+]]: tensor<?xi32>
// CHECK: %[[AFTER:.+]] = tensor.dim %[[TAIL]]
// CHECK: %[[QUERIES:.+]] = arith.addi %{{.+}}, %[[AFTER]]
// CHECK: %[[SPAN:.+]] = arith.maxsi %[[QUERIES]]
// CHECK: exec.check %[[SPAN]] at_most %{{.+}}, "too far apart"
// CHECK: exec.launch @kernels::@attention_1_forward reads({{.*}}%[[TAIL]]
func.func @chunk(%q: tensor<2x2x?x8xf32>, %k: tensor<2x2x?x8xf32>, %t: tensor<?xi32>) -> tensor<2x2x?x8xf32> {
  %o, %lse = pos.attention %q, %k, (%k) uses [#pos.use<@close, "close">]
    query_tail(%t : tensor<?xi32>)
    : tensor<2x2x?x8xf32>, tensor<2x2x?x8xf32>, (tensor<2x2x?x8xf32>)
    -> (tensor<2x2x?x8xf32>), tensor<2x2x?xf32>
  return %o : tensor<2x2x?x8xf32>
}

// Positions are looked at before the kernel runs, those of both sides.
// CHECK-LABEL: func.func @positions
// CHECK: exec.launch @kernels::@attention_2_spans {{.*}}writes(%[[SPANS:.+]] : tensor<6xi64>)
// CHECK: exec.check_data %[[SPANS]][3] at_most %{{.+}}, "too far apart"
// CHECK: exec.launch @kernels::@attention_2_forward
func.func @positions(%q: tensor<2x2x?x8xf32>, %p: tensor<1x?x2xi32>) -> tensor<2x2x?x8xf32> {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@near, "near">]
    query_positions(%p : tensor<1x?x2xi32>) key_positions(%p : tensor<1x?x2xi32>)
    : tensor<2x2x?x8xf32>, tensor<2x2x?x8xf32>, (tensor<2x2x?x8xf32>)
    -> (tensor<2x2x?x8xf32>), tensor<2x2x?xf32>
  return %o : tensor<2x2x?x8xf32>
}

pos.encoding @apart {
  pos.score {
  ^bb0(%s: f32):
    %o = pos.offset axis 1
    %d = arith.sitofp %o : i32 to f32
    %t = arith.addf %s, %d : f32
    pos.yield %t : f32
  }
}

// An offset has 32 bits: the greatest of one side less the least of the other, both
// ways, of the axis that is read. Offsets of indices always fit.
// CHECK-LABEL: func.func @offsets
// CHECK: exec.launch @kernels::@{{.+}}_spans {{.*}}writes(%[[SPANS:.+]] : tensor<6xi64>)
// CHECK: exec.check_data %[[SPANS]][4] at_most %{{.+}}, "key minus query positions do not fit 32 bits as a difference (axis 1)"
// CHECK: exec.check_data %[[SPANS]][5] at_most %{{.+}}, "query minus key positions do not fit 32 bits as a difference (axis 1)"
func.func @offsets(%q: tensor<2x2x?x8xf32>, %p: tensor<1x?x2xi32>) -> tensor<2x2x?x8xf32> {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@apart, "apart">]
    query_positions(%p : tensor<1x?x2xi32>) key_positions(%p : tensor<1x?x2xi32>)
    : tensor<2x2x?x8xf32>, tensor<2x2x?x8xf32>, (tensor<2x2x?x8xf32>)
    -> (tensor<2x2x?x8xf32>), tensor<2x2x?xf32>
  return %o : tensor<2x2x?x8xf32>
}

pos.encoding @beside {
  pos.score {
  ^bb0(%s: f32):
    %o = pos.offset
    %d = arith.sitofp %o : i32 to f32
    %t = arith.addf %s, %d : f32
    pos.yield %t : f32
  }
}

// CHECK-LABEL: func.func @offsets_of_indices
// CHECK-NOT: do not fit 32 bits
// CHECK: return
func.func @offsets_of_indices(%q: tensor<2x2x?x8xf32>) -> tensor<2x2x?x8xf32> {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@beside, "beside">]
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

// Sizes that only the types of results have are those of the call's operands.
// CHECK-LABEL: func.func @results
// CHECK: exec.check %{{.+}} equal %{{.+}}, "output and query differ in their shape"
// CHECK: exec.check %{{.+}} equal %{{.+}}, "output and query differ in their shape"
// CHECK: exec.check %{{.+}} equal %{{.+}}, "lse and query differ in their shape"
// CHECK-NOT: exec.check
// CHECK: exec.launch
func.func @results(%q: tensor<?x2x?x8xf32>) -> tensor<3x2x5x8xf32> {
  %o, %lse = pos.attention %q, %q, (%q)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<3x2x5x8xf32>), tensor<?x2x5xf32>
  return %o : tensor<3x2x5x8xf32>
}

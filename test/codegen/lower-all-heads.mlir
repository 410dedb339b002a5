// RUN: sextant-opt %s --pos-lower-attention=target=cpu:avx2 | FileCheck %s

// A score of all heads: weights are packed, the vector over offsets becomes a
// table with a row per unit, and one kernel computes all heads.
// CHECK-LABEL: func.func @forward
// CHECK: exec.launch @kernels::@attention_0_weights {{.*}}writes(%[[WEIGHTS:.+]] :
// CHECK: exec.launch @kernels::@attention_0_hoist0 {{.*}}writes(%[[HOST:.+]] :
// CHECK: exec.launch @kernels::@attention_0_hoist1 reads({{.*}}%[[HOST]], %[[WEIGHTS]]{{.*}}writes(%[[UNITS:.+]] : tensor<1x3x?xf32>)
// CHECK: exec.launch @kernels::@attention_0_forward reads({{.*}}%[[HOST]], %[[UNITS]], {{.*}}%[[WEIGHTS]]
func.func @forward(%x: tensor<?x2x?x8xf32>, %p: tensor<?xf32>, %w: tensor<?x?xf32>, %v: tensor<?x?xf32>) -> tensor<?x2x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x)
    params(%p, %w, %v : tensor<?xf32>, tensor<?x?xf32>, tensor<?x?xf32>)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32> {
  ^bb0(%slopes: tensor<?xf32>, %w1: tensor<?x?xf32>, %w2: tensor<?x?xf32>):
    %term = pos.hoist [head, offset] {
      %h = pos.head
      %d = pos.offset
      %f = arith.sitofp %d : i32 to f32
      %a = pos.read %slopes[%h] : tensor<?xf32>
      %t = arith.mulf %a, %f : f32
      pos.yield %t : f32
    } : f32
    %half = pos.hoist [offset] {
      %two = arith.constant 2 : i32
      %host = pos.for_heads () {
        pos.yield %term : f32
      } : () -> tensor<2xf32>
      %y = pos.contract %w1, %host columns from %two : tensor<?x?xf32>, tensor<2xf32> -> tensor<3xf32>
      pos.yield %y : tensor<3xf32>
    } : tensor<3xf32>
    pos.score {
    ^bb0(%s: tensor<2xf32>):
      %zero = arith.constant 0 : i32
      %host = pos.for_heads () {
        pos.yield %term : f32
      } : () -> tensor<2xf32>
      %seen = pos.contract %w1, %s columns from %zero : tensor<?x?xf32>, tensor<2xf32> -> tensor<3xf32>
      %pre = arith.addf %seen, %half : tensor<3xf32>
      %units = math.tanh %pre : tensor<3xf32>
      %out = pos.contract %w2, %units : tensor<?x?xf32>, tensor<3xf32> -> tensor<2xf32>
      %sum = arith.addf %host, %out : tensor<2xf32>
      %r = arith.addf %s, %sum : tensor<2xf32>
      pos.yield %r : tensor<2xf32>
    }
  }
  return %o : tensor<?x2x?x8xf32>
}

// Rows of heads in the sums of dQ are an odd number of 64 rows apart, so that a
// block of all heads lies in different sets of a cache.
// CHECK-LABEL: func.func @backward(
// CHECK-NOT: apart
// CHECK: exec.launch @kernels::@attention_backward_1_delta
// CHECK: %[[UNIT:.+]] = arith.constant 64 : index
// CHECK: %[[MORE:.+]] = arith.addi %{{.+}}, %[[UNIT]] : index
// CHECK: %[[TWO:.+]] = arith.constant 128 : index
// CHECK: %[[PAIRS:.+]] = arith.ceildivsi %[[MORE]], %[[TWO]] : index
// CHECK: %[[EVEN:.+]] = arith.muli %[[PAIRS]], %[[TWO]] : index
// CHECK: %[[LESS:.+]] = arith.constant -64 : index
// CHECK: %[[ODD:.+]] = arith.addi %[[EVEN]], %[[LESS]] : index
// CHECK: exec.alloc(%{{.+}}, %{{.+}}, %{{.+}}, %[[ODD]]) : tensor<?x?x?x?x8xf32>
func.func @backward(%x: tensor<?x2x?x8xf32>, %s: tensor<?x2x?x2xf32>, %dl: tensor<?x2x?xf32>, %w: tensor<?x?xf32>) -> tensor<?x2x?x8xf32> {
  %dq, %dk, %dv = pos.attention_backward %x, %x, (%x), (%x), %s, (%x), %dl
    params(%w : tensor<?x?xf32>) gradients []
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>), (tensor<?x2x?x8xf32>), tensor<?x2x?x2xf32>, (tensor<?x2x?x8xf32>), tensor<?x2x?xf32>
    -> tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>) {
  ^bb0(%w2: tensor<?x?xf32>):
    pos.score {
    ^bb0(%score: tensor<2xf32>):
      %out = pos.contract %w2, %score : tensor<?x?xf32>, tensor<2xf32> -> tensor<2xf32>
      pos.yield %out : tensor<2xf32>
    }
  }
  return %dq : tensor<?x2x?x8xf32>
}

// Of more than two heads there are copies of rows that are read in place, for
// heads that share sets of a cache.
// CHECK-LABEL: func.func @backward_of_four
// CHECK: exec.launch @kernels::@attention_backward_2_queries_apart reads(%{{.+}} : tensor<?x4x?x8xf32>) writes(%[[Q:.+]] : tensor<?x4x?x8xf32>)
// CHECK: exec.launch @kernels::@attention_backward_2_output_gradients_apart reads({{.+}}) writes(%[[DO:.+]] : tensor<?x4x?x8xf32>)
// CHECK: exec.launch @kernels::@attention_backward_2_main reads({{.*}}%[[Q]], %[[DO]]{{.*}})
func.func @backward_of_four(%x: tensor<?x4x?x8xf32>, %s: tensor<?x4x?x2xf32>, %dl: tensor<?x4x?xf32>, %w: tensor<?x?xf32>) -> tensor<?x4x?x8xf32> {
  %dq, %dk, %dv = pos.attention_backward %x, %x, (%x), (%x), %s, (%x), %dl
    params(%w : tensor<?x?xf32>) gradients []
    : tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, (tensor<?x4x?x8xf32>), (tensor<?x4x?x8xf32>), tensor<?x4x?x2xf32>, (tensor<?x4x?x8xf32>), tensor<?x4x?xf32>
    -> tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, (tensor<?x4x?x8xf32>) {
  ^bb0(%w2: tensor<?x?xf32>):
    pos.score {
    ^bb0(%score: tensor<4xf32>):
      %out = pos.contract %w2, %score : tensor<?x?xf32>, tensor<4xf32> -> tensor<4xf32>
      pos.yield %out : tensor<4xf32>
    }
  }
  return %dq : tensor<?x4x?x8xf32>
}

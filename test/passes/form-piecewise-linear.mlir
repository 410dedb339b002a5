// RUN: sextant-opt %s --split-input-file --pos-form-piecewise-linear | FileCheck %s
// RUN: sextant-opt %s --split-input-file --pos-form-piecewise-linear --pos-form-piecewise-linear | FileCheck %s
// RUN: sextant-opt %s --split-input-file --canonicalize --cse --pos-form-piecewise-linear --canonicalize --cse --pos-hoist --canonicalize --cse --pos-verify-hoisted -o /dev/null
// RUN: sextant-opt %s --split-input-file --pos-form-piecewise-linear --remarks-filter=pos-form-piecewise-linear -o /dev/null 2>&1 | FileCheck %s --check-prefix=COUNT

// A hidden layer of rectified units of one scalar. The scalar is a quotient by a
// vector over queries: what is left of the division is a product.
// COUNT: remark: [Passed] rewritten | Category:pos-form-piecewise-linear | Sums=1
// CHECK-LABEL: func @layer
// CHECK: ^bb0(%[[W1:.+]]: tensor<32xf32>, %[[B1:.+]]: tensor<32xf32>, %[[W2:.+]]: tensor<?x32xf32>):
// CHECK-NEXT: %[[F:.+]] = pos.hinges {
// CHECK-NEXT: ^bb0(%[[K:.+]]: i32):
// CHECK-DAG:    %[[H:.+]] = pos.head
// CHECK-DAG:    %[[W:.+]] = pos.read %[[W2]][%[[H]], %[[K]]]
// CHECK-DAG:    %[[A:.+]] = pos.read %[[W1]][%[[K]]]
// CHECK-DAG:    %[[B:.+]] = pos.read %[[B1]][%[[K]]]
// CHECK:        pos.yield %[[ZERO:.+]], %{{.+}}, %[[W]], %[[A]], %[[B]]
// CHECK: } : tensor<32x5xf32>
// CHECK: pos.score {
// CHECK-NOT: pos.sum
// CHECK: %[[INVERSE:.+]] = arith.divf %{{.+}}, %[[I:.+]] : f32
// CHECK: %[[X:.+]] = arith.mulf %{{.+}}, %[[INVERSE]] : f32
// CHECK: pos.hinge_sum %[[F]] at %[[X]] : tensor<32x5xf32>
func.func @layer(%x: tensor<?x?x?x8xf32>, %v1: tensor<32xf32>, %c1: tensor<32xf32>, %v2: tensor<?x32xf32>) {
  %o, %lse = pos.attention %x, %x, (%x) params(%v1, %c1, %v2 : tensor<32xf32>, tensor<32xf32>, tensor<?x32xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%w1: tensor<32xf32>, %b1: tensor<32xf32>, %w2: tensor<?x32xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = arith.constant 32 : i32
      %zero = arith.constant 0.0 : f32
      %h = pos.head
      %d = pos.offset
      %df = arith.sitofp %d : i32 to f32
      %i = pos.index query
      %if = arith.sitofp %i : i32 to f32
      %q = arith.divf %df, %if : f32
      %y = pos.sum to %n {
      ^bb0(%k: i32):
        %a = pos.read %w1[%k] : tensor<32xf32>
        %b = pos.read %b1[%k] : tensor<32xf32>
        %w = pos.read %w2[%h, %k] : tensor<?x32xf32>
        %ax = arith.mulf %a, %q : f32
        %z = arith.addf %ax, %b : f32
        %r = arith.maximumf %z, %zero : f32
        %t = arith.mulf %w, %r : f32
        pos.yield %t : f32
      } : f32
      %t = arith.addf %s, %y : f32
      pos.yield %t : f32
    }
  }
  return
}

// -----

// A leaky unit is a line and a unit: p = w leak a, and a is (1 - leak) of it,
// written as a difference.
// COUNT: Sums=1
// CHECK-LABEL: func @leaky
// CHECK: pos.hinges {
// CHECK: %[[A:.+]] = pos.read
// CHECK: %[[LEAKED:.+]] = arith.mulf %{{.+}}, %[[A]]
// CHECK: arith.subf %[[A]], %[[LEAKED]]
// CHECK: pos.hinge_sum
func.func @leaky(%x: tensor<?x?x?x8xf32>, %v1: tensor<7xf32>) {
  %o, %lse = pos.attention %x, %x, (%x) params(%v1 : tensor<7xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%w1: tensor<7xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = arith.constant 7 : i32
      %leak = arith.constant 0.01 : f32
      %i = pos.index query
      %j = pos.index key
      %p = arith.muli %i, %j : i32
      %q = arith.sitofp %p : i32 to f32
      %y = pos.sum to %n {
      ^bb0(%k: i32):
        %a = pos.read %w1[%k] : tensor<7xf32>
        %z = arith.mulf %a, %q : f32
        %l = arith.mulf %leak, %z : f32
        %r = arith.maximumf %z, %l : f32
        pos.yield %r : f32
      } : f32
      %t = arith.addf %s, %y : f32
      pos.yield %t : f32
    }
  }
  return
}

// -----

// Sums that stay: of the offset only (it becomes a table as it is), of the score,
// of two scalars, of two maxima, of another function, with a count that is not
// known.
// COUNT: Sums=0
// CHECK-LABEL: func @others
// CHECK-NOT: pos.hinge
func.func @others(%x: tensor<?x?x?x8xf32>, %v1: tensor<?xf32>) {
  %o, %lse = pos.attention %x, %x, (%x) params(%v1 : tensor<?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%w1: tensor<?xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = arith.constant 7 : i32
      %heads = pos.extent heads
      %zero = arith.constant 0.0 : f32
      %d = pos.offset
      %df = arith.sitofp %d : i32 to f32
      %i = pos.index query
      %if = arith.sitofp %i : i32 to f32
      %both = arith.mulf %df, %if : f32
      %offset = pos.sum to %n {
      ^bb0(%k: i32):
        %a = pos.read %w1[%k] : tensor<?xf32>
        %z = arith.mulf %a, %df : f32
        %r = arith.maximumf %z, %zero : f32
        pos.yield %r : f32
      } : f32
      %score = pos.sum to %n {
      ^bb0(%k: i32):
        %a = pos.read %w1[%k] : tensor<?xf32>
        %z = arith.mulf %a, %s : f32
        %r = arith.maximumf %z, %zero : f32
        pos.yield %r : f32
      } : f32
      %two = pos.sum to %n {
      ^bb0(%k: i32):
        %a = pos.read %w1[%k] : tensor<?xf32>
        %z = arith.mulf %a, %both : f32
        %u = arith.addf %z, %df : f32
        %r = arith.maximumf %u, %zero : f32
        pos.yield %r : f32
      } : f32
      %maxima = pos.sum to %n {
      ^bb0(%k: i32):
        %a = pos.read %w1[%k] : tensor<?xf32>
        %z = arith.mulf %a, %both : f32
        %r = arith.maximumf %z, %zero : f32
        %m = arith.maximumf %r, %a : f32
        pos.yield %m : f32
      } : f32
      %waves = pos.sum to %n {
      ^bb0(%k: i32):
        %a = pos.read %w1[%k] : tensor<?xf32>
        %z = arith.mulf %a, %both : f32
        %r = math.tanh %z : f32
        pos.yield %r : f32
      } : f32
      %unknown = pos.sum to %heads {
      ^bb0(%k: i32):
        %a = pos.read %w1[%k] : tensor<?xf32>
        %z = arith.mulf %a, %both : f32
        %r = arith.maximumf %z, %zero : f32
        pos.yield %r : f32
      } : f32
      %t0 = arith.addf %s, %offset : f32
      %t1 = arith.addf %t0, %score : f32
      %t2 = arith.addf %t1, %two : f32
      %t3 = arith.addf %t2, %maxima : f32
      %t4 = arith.addf %t3, %waves : f32
      %t5 = arith.addf %t4, %unknown : f32
      pos.yield %t5 : f32
    }
  }
  return
}

// -----

// In a score of all heads the bodies of `pos.for_heads`, which compute what they use
// of scalars around them. A sum that needs an input stays, whatever the input is.
// COUNT: Sums=1
// CHECK-LABEL: func @all_heads
// CHECK: ^bb0(%[[W1:.+]]: tensor<7xf32>):
// CHECK-NEXT: %[[F:.+]] = pos.hinges {
// CHECK: } : tensor<7x5xf32>
// CHECK: pos.for_heads() {
// CHECK-NOT: pos.sum
// CHECK: %[[X:.+]] = arith.mulf
// CHECK: %[[Y:.+]] = pos.hinge_sum %[[F]] at %[[X]] : tensor<7x5xf32>
// CHECK-NEXT: pos.yield %[[Y]]
// CHECK: pos.for_heads(
// CHECK-NOT: pos.hinge_sum
// CHECK: pos.sum
func.func @all_heads(%x: tensor<?x2x?x8xf32>, %v1: tensor<7xf32>) {
  %o, %lse = pos.attention %x, %x, (%x) params(%v1 : tensor<7xf32>)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>) -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32> {
  ^bb0(%w1: tensor<7xf32>):
    pos.score {
    ^bb0(%s: tensor<2xf32>):
      %n = arith.constant 7 : i32
      %zero = arith.constant 0.0 : f32
      %i = pos.index query
      %j = pos.index key
      %if = arith.sitofp %i : i32 to f32
      %jf = arith.sitofp %j : i32 to f32
      %q = arith.mulf %if, %jf : f32
      %b = pos.for_heads () {
        %y = pos.sum to %n {
        ^bb0(%k: i32):
          %a = pos.read %w1[%k] : tensor<7xf32>
          %z = arith.mulf %a, %q : f32
          %r = arith.maximumf %z, %zero : f32
          pos.yield %r : f32
        } : f32
        pos.yield %y : f32
      } : () -> tensor<2xf32>
      %p = pos.for_heads () {
        %h = pos.head
        %hf = arith.sitofp %h : i32 to f32
        %hq = arith.mulf %q, %hf : f32
        pos.yield %hq : f32
      } : () -> tensor<2xf32>
      %c = pos.for_heads (%p) {
      ^bb0(%e: f32):
        %y = pos.sum to %n {
        ^bb0(%k: i32):
          %a = pos.read %w1[%k] : tensor<7xf32>
          %z = arith.mulf %a, %e : f32
          %r = arith.maximumf %z, %zero : f32
          pos.yield %r : f32
        } : f32
        pos.yield %y : f32
      } : (tensor<2xf32>) -> tensor<2xf32>
      %t = arith.addf %s, %b : tensor<2xf32>
      %u = arith.addf %t, %c : tensor<2xf32>
      pos.yield %u : tensor<2xf32>
    }
  }
  return
}

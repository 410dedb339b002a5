// RUN: sextant-opt %s --split-input-file --pos-hoist-vectors | FileCheck %s
// RUN: sextant-opt %s --split-input-file --pos-hoist-vectors --pos-hoist-vectors | FileCheck %s
// RUN: sextant-opt %s --split-input-file --pos-hoist-vectors --canonicalize --cse --pos-verify-hoisted -o /dev/null
// RUN: sextant-opt %s --split-input-file --pos-hoist-vectors --remarks-filter=pos-hoist-vectors -o /dev/null 2>&1 | FileCheck %s --check-prefix=COUNT

// The half of a layer that sees no score becomes a table over offsets, bias
// included; the table entries that the residual adds stay as they are.
// COUNT: remark: [Passed] hoisted | Category:pos-hoist-vectors | Vectors=1
// CHECK-LABEL: func @static_half
// CHECK: %[[TERM:.+]] = pos.hoist [head, offset] {
// CHECK: %[[HALF:.+]] = pos.hoist [offset] {
// CHECK:   %[[B:.+]] = pos.for_heads() {
// CHECK:     pos.yield %[[TERM]]
// CHECK:   %[[X:.+]] = pos.contract %{{.+}}, %[[B]] columns from %{{.+}} -> tensor<3xf32>
// CHECK:   %[[B1:.+]] = pos.elements
// CHECK:   arith.addf %[[X]], %[[B1]]
// CHECK: } : tensor<3xf32>
// CHECK: pos.score {
// CHECK-NEXT: ^bb0(%[[S:.+]]: tensor<2xf32>):
// CHECK: pos.for_heads
// CHECK: %[[SEEN:.+]] = pos.contract %{{.+}}, %[[S]] columns from
// CHECK: arith.addf %[[SEEN]], %[[HALF]]
// CHECK: pos.contract
func.func @static_half(%x: tensor<?x2x?x8xf32>, %p: tensor<?xf32>, %w: tensor<?x?xf32>, %v: tensor<?x?xf32>, %b: tensor<?xf32>) {
  %o, %lse = pos.attention %x, %x, (%x)
    params(%p, %w, %v, %b : tensor<?xf32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?xf32>)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32> {
  ^bb0(%slopes: tensor<?xf32>, %w1: tensor<?x?xf32>, %w2: tensor<?x?xf32>, %b1: tensor<?xf32>):
    %term = pos.hoist [head, offset] {
      %h = pos.head
      %d = pos.offset
      %f = arith.sitofp %d : i32 to f32
      %a = pos.read %slopes[%h] : tensor<?xf32>
      %t = arith.mulf %a, %f : f32
      pos.yield %t : f32
    } : f32
    pos.score {
    ^bb0(%s: tensor<2xf32>):
      %zero = arith.constant 0 : i32
      %two = arith.constant 2 : i32
      %host = pos.for_heads () {
        pos.yield %term : f32
      } : () -> tensor<2xf32>
      %sum = arith.addf %s, %host : tensor<2xf32>
      %seen = pos.contract %w1, %s columns from %zero : tensor<?x?xf32>, tensor<2xf32> -> tensor<3xf32>
      %beside = pos.contract %w1, %host columns from %two : tensor<?x?xf32>, tensor<2xf32> -> tensor<3xf32>
      %bias = pos.elements %b1 : tensor<?xf32> -> tensor<3xf32>
      %static = arith.addf %beside, %bias : tensor<3xf32>
      %pre = arith.addf %seen, %static : tensor<3xf32>
      %units = math.tanh %pre : tensor<3xf32>
      %out = pos.contract %w2, %units : tensor<?x?xf32>, tensor<3xf32> -> tensor<2xf32>
      %r = arith.addf %sum, %out : tensor<2xf32>
      pos.yield %r : tensor<2xf32>
    }
  }
  return
}

// -----

// What varies with the query, or is cheap, is computed in place.
// COUNT: Vectors=0
// CHECK-LABEL: func @in_place
// CHECK-NOT: tensor<2xf32>{{$}}
// CHECK: pos.score
func.func @in_place(%x: tensor<?x2x?x8xf32>, %w: tensor<2x2xf32>, %b: tensor<2xf32>) {
  %o, %lse = pos.attention %x, %x, (%x) params(%w, %b : tensor<2x2xf32>, tensor<2xf32>)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32> {
  ^bb0(%w1: tensor<2x2xf32>, %b1: tensor<2xf32>):
    %row = pos.hoist [query] {
      %i = pos.index query
      %f = arith.sitofp %i : i32 to f32
      %t = math.sqrt %f : f32
      pos.yield %t : f32
    } : f32
    pos.score {
    ^bb0(%s: tensor<2xf32>):
      %host = pos.for_heads () {
        pos.yield %row : f32
      } : () -> tensor<2xf32>
      %beside = pos.contract %w1, %host : tensor<2x2xf32>, tensor<2xf32> -> tensor<2xf32>
      %bias = pos.elements %b1 : tensor<2xf32> -> tensor<2xf32>
      %twice = arith.addf %bias, %bias : tensor<2xf32>
      %t = arith.addf %s, %beside : tensor<2xf32>
      %u = arith.addf %t, %twice : tensor<2xf32>
      pos.yield %u : tensor<2xf32>
    }
  }
  return
}

// -----

// Given positions have gaps: a vector is computed where it is used.
// COUNT: remark: [Missed] not hoisted | Category:pos-hoist-vectors | Reason="positions are given: offsets have gaps"
// CHECK-LABEL: func @positions
// CHECK-NOT: pos.hoist
// CHECK: pos.contract
func.func @positions(%x: tensor<?x2x?x8xf32>, %w: tensor<?x?xf32>, %at: tensor<1x?x1xi32>) {
  %o, %lse = pos.attention %x, %x, (%x) params(%w : tensor<?x?xf32>)
    query_positions(%at : tensor<1x?x1xi32>) key_positions(%at : tensor<1x?x1xi32>)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32> {
  ^bb0(%mix: tensor<?x?xf32>):
    pos.score {
    ^bb0(%s: tensor<2xf32>):
      %b = pos.for_heads () {
        %d = pos.offset
        %f = arith.sitofp %d : i32 to f32
        pos.yield %f : f32
      } : () -> tensor<2xf32>
      %m = pos.contract %mix, %b : tensor<?x?xf32>, tensor<2xf32> -> tensor<2xf32>
      %t = arith.addf %s, %m : tensor<2xf32>
      pos.yield %t : tensor<2xf32>
    }
  }
  return
}

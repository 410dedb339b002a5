// RUN: sextant-opt %s --pos-drop-row-constants --split-input-file | FileCheck %s
// RUN: sextant-opt %s --pos-drop-row-constants --pos-drop-row-constants --split-input-file | FileCheck %s
// RUN: sextant-opt %s --canonicalize --cse --pos-drop-row-constants --canonicalize --cse --pos-hoist --pos-verify-hoisted --split-input-file -o /dev/null
// RUN: sextant-opt %s --pos-drop-row-constants --split-input-file --remarks-filter=pos-drop-row-constants -o /dev/null 2>&1 | FileCheck %s --check-prefix=COUNT

// What is the same for all keys of a row becomes one row term; the rest stays.
// COUNT: remark: [Passed] dropped | Category:pos-drop-row-constants | Terms=2
// CHECK-LABEL: func @additive
// CHECK: %[[TERM:.+]] = pos.hoist [head, query] {
// CHECK-NOT: pos.index key
// CHECK:   %[[A:.+]] = math.sqrt
// CHECK:   %[[P:.+]] = pos.read
// CHECK:   %[[N:.+]] = arith.negf %[[A]]
// CHECK:   %[[SUM:.+]] = arith.addf %[[N]], %[[P]]
// CHECK:   pos.yield %[[SUM]]
// CHECK: pos.row_term %[[TERM]] : f32
// CHECK: pos.score {
// CHECK-NEXT: ^bb0(%[[S:.+]]: f32):
// CHECK-NEXT:   pos.index key
// CHECK-NEXT:   %[[K:.+]] = arith.sitofp
// CHECK-NEXT:   %[[T:.+]] = arith.addf %[[S]], %[[K]]
// CHECK-NEXT:   pos.yield %[[T]]
func.func @additive(%x: tensor<?x?x?x8xf32>, %p: tensor<?xf32>) {
  %o, %lse = pos.attention %x, %x, (%x) params(%p : tensor<?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%r: tensor<?xf32>):
    pos.score {
    ^bb0(%s: f32):
      %i = pos.index query
      %fi = arith.sitofp %i : i32 to f32
      %a = math.sqrt %fi : f32
      %u = arith.subf %s, %a : f32
      %j = pos.index key
      %fj = arith.sitofp %j : i32 to f32
      %v = arith.addf %u, %fj : f32
      %h = pos.head
      %b = pos.read %r[%h] : tensor<?xf32>
      %w = arith.addf %b, %v : f32
      pos.yield %w : f32
    }
  }
  return
}

// -----

// A score that is left as it came needs no site; a number is a row term, too,
// with a constant that canonicalisation put before the site.
// CHECK-LABEL: func @whole
// CHECK: %[[TERM:.+]] = pos.hoist [query] {
// CHECK-NEXT: %[[TWO:.+]] = arith.constant 2.0
// CHECK: pos.row_term %[[TERM]]
// CHECK-NOT: pos.score
// CHECK: return
// COUNT: Terms=1
func.func @whole(%x: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    %two = arith.constant 2.0 : f32
    pos.score {
    ^bb0(%s: f32):
      %t = arith.addf %s, %two : f32
      pos.yield %t : f32
    }
  }
  return
}

// -----

// A soft cap sees the term before it, not the one after it.
// CHECK-LABEL: func @capped
// CHECK: pos.row_term
// CHECK: pos.score {
// CHECK-NEXT: ^bb0(%[[S:.+]]: f32):
// CHECK:   %[[T:.+]] = arith.addf %[[S]], %
// CHECK-NEXT: %[[C:.+]] = math.tanh %[[T]]
// CHECK-NEXT: pos.yield %[[C]]
// COUNT: Terms=1
func.func @capped(%x: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    pos.score {
    ^bb0(%s: f32):
      %i = pos.index query
      %f = arith.sitofp %i : i32 to f32
      %t = arith.addf %s, %f : f32
      %c = math.tanh %t : f32
      %u = arith.addf %c, %f : f32
      pos.yield %u : f32
    }
  }
  return
}

// -----

// Offsets and keys are not row constants; a factor of the score is no term, nor
// is anything inside a score of all heads.
// CHECK-LABEL: func @kept
// CHECK-NOT: pos.row_term
// CHECK: return
// COUNT: Terms=0
// COUNT: Terms=0
func.func @kept(%x: tensor<?x?x?x8xf32>, %y: tensor<?x2x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    pos.score {
    ^bb0(%s: f32):
      %d = pos.offset
      %f = arith.sitofp %d : i32 to f32
      %i = pos.index query
      %g = arith.sitofp %i : i32 to f32
      %t = arith.mulf %s, %g : f32
      %u = arith.addf %t, %f : f32
      pos.yield %u : f32
    }
  }
  %o2, %lse2 = pos.attention %y, %y, (%y)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32> {
    pos.score {
    ^bb0(%s: tensor<2xf32>):
      %t = pos.for_heads (%s) {
      ^bb0(%z: f32):
        %i = pos.index query
        %g = arith.sitofp %i : i32 to f32
        %u = arith.addf %z, %g : f32
        pos.yield %u : f32
      } : (tensor<2xf32>) -> tensor<2xf32>
      %c = math.tanh %t : tensor<2xf32>
      pos.yield %c : tensor<2xf32>
    }
  }
  return
}

// -----

// The gradient agrees with its forward; a row term that is there is added to.
// CHECK-LABEL: func @gradient
// CHECK: %[[OLD:.+]] = pos.hoist [batch, query]
// CHECK: %[[NEW:.+]] = pos.hoist [batch, query] {
// CHECK: arith.addf %[[OLD]], %
// CHECK: pos.row_term %[[NEW]]
// CHECK-NOT: pos.row_term
// CHECK: return
// COUNT: Terms=1
func.func @gradient(%x: tensor<?x?x?x8xf32>, %l: tensor<?x?x?xf32>, %stats: tensor<?x?x?x2xf32>) {
  %g:3 = pos.attention_backward %x, %x, (%x), (%x), %stats, (%x), %l gradients []
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>),
      (tensor<?x?x?x8xf32>), tensor<?x?x?x2xf32>, (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
    -> tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) {
    %old = pos.hoist [batch, query] {
      %b = pos.batch
      %f = arith.sitofp %b : i32 to f32
      pos.yield %f : f32
    } : f32
    pos.row_term %old : f32
    pos.score {
    ^bb0(%s: f32):
      %i = pos.index query
      %f = arith.sitofp %i : i32 to f32
      %t = arith.addf %s, %f : f32
      pos.yield %t : f32
    }
  }
  return
}

// -----

// A running sum keeps a hoist of its own: its kernel makes nothing beside it.
// CHECK-LABEL: func @running_sum
// CHECK: %[[SUM:.+]] = pos.hoist [batch, query] {
// CHECK:   %[[R:.+]] = pos.running_sum to query
// CHECK:   pos.yield %[[R]]
// CHECK: %[[TERM:.+]] = pos.hoist [batch, head, query] {
// CHECK-NOT: pos.running_sum
// CHECK:   arith.addf %[[SUM]], %
// CHECK: pos.row_term %[[TERM]]
// COUNT: Terms=2
func.func @running_sum(%x: tensor<?x?x?x8xf32>, %g: tensor<?x?xf32>, %p: tensor<?xf32>) {
  %o, %lse = pos.attention %x, %x, (%x) params(%g, %p : tensor<?x?xf32>, tensor<?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%gate: tensor<?x?xf32>, %level: tensor<?xf32>):
    pos.score {
    ^bb0(%s: f32):
      %b = pos.batch
      %r = pos.running_sum to query {
      ^bb0(%t: i32):
        %y = pos.read %gate[%b, %t] : tensor<?x?xf32>
        pos.yield %y : f32
      } : f32
      %h = pos.head
      %l = pos.read %level[%h] : tensor<?xf32>
      %u = arith.addf %s, %r : f32
      %v = arith.addf %u, %l : f32
      pos.yield %v : f32
    }
  }
  return
}

// RUN: sextant-opt %s --pos-fuse-sites --split-input-file | FileCheck %s
// RUN: sextant-opt %s --pos-fuse-sites --split-input-file --remarks-filter=pos-fuse-sites -o /dev/null 2>&1 | FileCheck %s --check-prefix=COUNT

// Scores are composed in list order; masks are conjoined; row maps stay.
// COUNT: remark: [Passed] fused | Category:pos-fuse-sites | Masks=1, Scores=2
// CHECK-LABEL: func @fuse
// CHECK-NOT: pos.score
// CHECK: pos.rows of [query]
// CHECK: pos.mask {
// CHECK:   %[[A:.+]] = arith.cmpi sle
// CHECK:   %[[B:.+]] = arith.cmpi sge
// CHECK:   %[[BOTH:.+]] = arith.andi %[[A]], %[[B]]
// CHECK:   pos.yield %[[BOTH]]
// CHECK: pos.rows of [query]
// CHECK: pos.score {
// CHECK: ^bb0(%[[S:.+]]: f32):
// CHECK:   %[[T:.+]] = math.tanh %[[S]]
// CHECK:   %[[U:.+]] = math.exp %[[T]]
// CHECK:   %[[V:.+]] = math.absf %[[U]]
// CHECK:   pos.yield %[[V]]
func.func @fuse(%q: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    pos.score {
    ^bb0(%s: f32):
      %t = math.tanh %s : f32
      pos.yield %t : f32
    }
    pos.mask {
      %i = pos.index query
      %j = pos.index key
      %v = arith.cmpi sle, %i, %j : i32
      pos.yield %v : i1
    }
    pos.score {
    ^bb0(%s: f32):
      %t = math.exp %s : f32
      pos.yield %t : f32
    }
    pos.rows of [query] single {
    ^bb0(%x: f32):
      %y = math.exp %x : f32
      pos.yield %y : f32
    }
    pos.mask {
      %i = pos.index query
      %j = pos.index key
      %v = arith.cmpi sge, %i, %j : i32
      pos.yield %v : i1
    }
    pos.rows of [query] single {
    ^bb0(%x: f32):
      %y = math.tanh %x : f32
      pos.yield %y : f32
    }
    pos.score {
    ^bb0(%s: f32):
      %t = math.absf %s : f32
      pos.yield %t : f32
    }
  }
  return
}

// -----

// A payload that gives its score back leaves nothing behind.
// CHECK-LABEL: func @identity
// CHECK: ^bb0(%[[S:.+]]: f32):
// CHECK-NEXT: %[[T:.+]] = arith.addf %[[S]], %[[S]]
// CHECK-NEXT: pos.yield %[[T]]
// COUNT: Masks=0, Scores=2
func.func @identity(%q: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    pos.score {
    ^bb0(%s: f32):
      pos.yield %s : f32
    }
    pos.score {
    ^bb0(%s: f32):
      %t = arith.addf %s, %s : f32
      pos.yield %t : f32
    }
    pos.score {
    ^bb0(%s: f32):
      pos.yield %s : f32
    }
  }
  return
}

// -----

// A scalar score beside one of all heads is its payload at every head.
// CHECK-LABEL: func @kinds
// CHECK: pos.score {
// CHECK-NEXT: ^bb0(%[[S:.+]]: tensor<2xf32>):
// CHECK-NEXT: %[[T:.+]] = pos.for_heads(%[[S]]) {
// CHECK-NEXT: ^bb0(%[[X:.+]]: f32):
// CHECK-NEXT:   %[[Y:.+]] = math.tanh %[[X]]
// CHECK-NEXT:   pos.yield %[[Y]]
// CHECK: %[[U:.+]] = math.exp %[[T]] : tensor<2xf32>
// CHECK: %[[V:.+]] = pos.for_heads(%[[U]]) {
// CHECK:   math.absf
// CHECK: pos.yield %[[V]] : tensor<2xf32>
// CHECK-NOT: pos.score
// COUNT: Masks=0, Scores=2
func.func @kinds(%q: tensor<?x2x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32> {
    pos.score {
    ^bb0(%s: f32):
      %t = math.tanh %s : f32
      pos.yield %t : f32
    }
    pos.score {
    ^bb0(%s: tensor<2xf32>):
      %t = math.exp %s : tensor<2xf32>
      pos.yield %t : tensor<2xf32>
    }
    pos.score {
    ^bb0(%s: f32):
      %t = math.absf %s : f32
      pos.yield %t : f32
    }
  }
  return
}

// RUN: sextant-opt %s --pos-fuse-sites --split-input-file | FileCheck %s
// RUN: sextant-opt %s --pos-fuse-sites --split-input-file --remarks-filter=pos-fuse-sites -o /dev/null 2>&1 | FileCheck %s --check-prefix=COUNT

// Scores are composed in list order; masks are conjoined; row maps stay.
// COUNT: remark: [Passed] fused | Category:pos-fuse-sites | ErasedRows=0, Masks=1, Scores=2
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

// -----

// Row maps of no lanes, and those that yield what they are given, also by a choice
// that is known, are nothing. A map of the lanes (0, 0) is one of the whole row, and
// one that exchanges what it is given stays.
// CHECK-LABEL: func @unchanged_rows
// CHECK:       pos.attention
// CHECK-NOT:   pos.rows of [key]
// CHECK-NOT:   pos.rows of [query] single lanes(%c8_i32, %c8_i32)
// CHECK-NOT:   pos.rows of [value]
// CHECK:       pos.rows of [query] single lanes(%c0_i32, %c0_i32)
// CHECK:       pos.rows of [query] half
// COUNT: ErasedRows=3, Masks=0, Scores=0
func.func @unchanged_rows(%q: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    %none = arith.constant 0 : i32
    %all = arith.constant 8 : i32
    %yes = arith.constant true
    pos.rows of [query] single lanes(%all, %all) {
    ^bb0(%x: f32):
      %y = math.exp %x : f32
      pos.yield %y : f32
    }
    pos.rows of [key] single {
    ^bb0(%x: f32):
      %y = math.exp %x : f32
      %z = arith.select %yes, %x, %y : f32
      pos.yield %z : f32
    }
    pos.rows of [value] interleaved {
    ^bb0(%x: f32, %y: f32):
      pos.yield %x, %y : f32, f32
    }
    pos.rows of [query] single lanes(%none, %none) {
    ^bb0(%x: f32):
      %y = math.exp %x : f32
      pos.yield %y : f32
    }
    pos.rows of [query] half {
    ^bb0(%x: f32, %y: f32):
      pos.yield %y, %x : f32, f32
    }
  }
  return
}

// RUN: sextant-opt %s --split-input-file --pos-hoist | FileCheck %s
// RUN: sextant-opt %s --split-input-file --pos-hoist --pos-hoist | FileCheck %s

// What varies with head and offset becomes one table, made from one that is the
// same for all heads; the score stays.
// CHECK-LABEL: func @offset_table
func.func @offset_table(%x: tensor<?x?x?x8xf32>, %r: tensor<?xf32>) {
  // CHECK: %[[LOG:.+]] = pos.hoist [offset] {
  // CHECK:   math.log1p
  // CHECK: %[[TABLE:.+]] = pos.hoist [head, offset] {
  // CHECK:   %[[A:.+]] = pos.read
  // CHECK:   %[[PRODUCT:.+]] = arith.mulf %[[A]], %[[LOG]]
  // CHECK:   pos.yield %[[PRODUCT]]
  // CHECK: pos.score {
  // CHECK-NEXT: ^bb0(%[[S:.+]]: f32):
  // CHECK-NEXT: %[[T:.+]] = arith.subf %[[S]], %[[TABLE]]
  // CHECK-NEXT: pos.yield %[[T]]
  %o, %lse = pos.attention %x, %x, (%x) params(%r : tensor<?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%p: tensor<?xf32>):
    pos.score {
    ^bb0(%s: f32):
      %h = pos.head
      %d = pos.offset
      %n = math.absi %d : i32
      %f = arith.sitofp %n : i32 to f32
      %a = pos.read %p[%h] : tensor<?xf32>
      %l = math.log1p %f : f32
      %y = arith.mulf %a, %l : f32
      %t = arith.subf %s, %y : f32
      pos.yield %t : f32
    }
  }
  return
}

// -----

// The part of a table that is the same for all heads becomes its own table;
// what a sum does not need its index for leaves the sum.
// CHECK-LABEL: func @nested
func.func @nested(%x: tensor<?x?x?x8xf32>, %r: tensor<?x?xf32>) {
  // CHECK: %[[BUCKET:.+]] = pos.hoist [offset] {
  // CHECK:   %[[D:.+]] = arith.sitofp
  // CHECK:   pos.sum
  // CHECK:   pos.yield {{.*}} : i32
  // CHECK: %[[BIAS:.+]] = pos.hoist [head, offset] {
  // CHECK:   pos.read %{{.+}}[%[[BUCKET]], %{{.+}}]
  // CHECK: arith.addf %{{.+}}, %[[BIAS]]
  %o, %lse = pos.attention %x, %x, (%x) params(%r : tensor<?x?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%p: tensor<?x?xf32>):
    pos.score {
    ^bb0(%s: f32):
      %four = arith.constant 4 : i32
      %h = pos.head
      %d = pos.offset
      %c = pos.sum to %four {
      ^bb0(%k: i32):
        %f = arith.sitofp %d : i32 to f32
        %g = arith.sitofp %k : i32 to f32
        %m = arith.minimumf %f, %g : f32
        pos.yield %m : f32
      } : f32
      %b = arith.fptosi %c : f32 to i32
      %y = pos.read %p[%b, %h] : tensor<?x?xf32>
      %t = arith.addf %s, %y : f32
      pos.yield %t : f32
    }
  }
  return
}

// -----

// Rows and columns become vectors; what needs both stays, and so do cheap ops.
// CHECK-LABEL: func @vectors
func.func @vectors(%x: tensor<?x?x?x8xf32>, %r: tensor<?xf32>) {
  // CHECK: %[[ROW:.+]] = pos.hoist [query] {
  // CHECK: %[[COLUMN:.+]] = pos.hoist [key] {
  // CHECK: pos.score {
  // CHECK: %[[Q:.+]] = pos.index query
  // CHECK: arith.sitofp %[[Q]]
  // CHECK: arith.mulf %[[ROW]], %[[COLUMN]]
  %o, %lse = pos.attention %x, %x, (%x) params(%r : tensor<?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%p: tensor<?xf32>):
    pos.score {
    ^bb0(%s: f32):
      %i = pos.index query
      %j = pos.index key
      %fi = arith.sitofp %i : i32 to f32
      %fj = arith.sitofp %j : i32 to f32
      %a = math.sqrt %fi : f32
      %b = math.sqrt %fj : f32
      %y = arith.mulf %a, %b : f32
      %t = arith.addf %s, %y : f32
      %u = arith.addf %t, %fi : f32
      pos.yield %u : f32
    }
  }
  return
}

// -----

// Both values of appended columns leave the payload, however cheap they are: as
// tables over row and column.
// CHECK-LABEL: func @columns
func.func @columns(%x: tensor<?x?x?x8xf32>, %r: tensor<?x?xf32>) {
  // CHECK: %[[A:.+]] = pos.hoist [head, query, lane] {
  // CHECK: %[[B:.+]] = pos.hoist [key, lane] {
  // CHECK-NEXT: arith.constant 1.0
  // CHECK: pos.columns %{{.+}} {
  // CHECK-NEXT: pos.yield %[[A]], %[[B]]
  %o, %lse = pos.attention %x, %x, (%x) params(%r : tensor<?x?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%p: tensor<?x?xf32>):
    %n = arith.constant 3 : i32
    %one = arith.constant 1.0 : f32
    pos.columns %n {
      %h = pos.head
      %i = pos.index query
      %a = pos.read %p[%h, %i] : tensor<?x?xf32>
      pos.yield %a, %one : f32, f32
    }
  }
  return
}

// -----

// With given positions a coordinate varies with the batch. Row maps are hoisted
// whole: the angle does not become a table of its own.
// CHECK-LABEL: func @rows
func.func @rows(%x: tensor<?x?x?x8xf32>, %q: tensor<?x?x1xi32>) {
  // CHECK: %[[COS:.+]] = pos.hoist [batch, self, lane] {
  // CHECK:   math.powf
  // CHECK:   math.cos
  // CHECK-NOT: pos.hoist
  // CHECK: pos.rows
  // CHECK: arith.mulf %{{.+}}, %[[COS]]
  %o, %lse = pos.attention %x, %x, (%x)
    query_positions(%q : tensor<?x?x1xi32>) key_positions(%q : tensor<?x?x1xi32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    pos.rows of [query] single {
    ^bb0(%v: f32):
      %p = pos.coord self
      %t = pos.lane
      %tf = arith.sitofp %t : i32 to f32
      %pf = arith.sitofp %p : i32 to f32
      %base = arith.constant 2.0 : f32
      %w = math.powf %base, %tf : f32
      %a = arith.mulf %pf, %w : f32
      %c = math.cos %a : f32
      %u = arith.mulf %v, %c : f32
      pos.yield %u : f32
    }
  }
  return
}

// -----

// A mask keeps its arithmetic on indices and lets go of its reads.
// CHECK-LABEL: func @mask
func.func @mask(%x: tensor<?x?x?x8xf32>, %ids: tensor<?x?xi32>) {
  // CHECK: %[[QUERY:.+]] = pos.hoist [batch, query] {
  // CHECK: %[[KEY:.+]] = pos.hoist [batch, key] {
  // CHECK: pos.mask {
  // CHECK: arith.addi
  // CHECK: arith.cmpi eq, %[[QUERY]], %[[KEY]]
  %o, %lse = pos.attention %x, %x, (%x) params(%ids : tensor<?x?xi32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%p: tensor<?x?xi32>):
    pos.mask {
      %one = arith.constant 1 : i32
      %b = pos.batch
      %i = pos.index query
      %j = pos.index key
      %k = arith.addi %j, %one : i32
      %near = arith.cmpi sle, %k, %i : i32
      %qi = pos.read %p[%b, %i] : tensor<?x?xi32>
      %kj = pos.read %p[%b, %j] : tensor<?x?xi32>
      %same = arith.cmpi eq, %qi, %kj : i32
      %v = arith.andi %near, %same : i1
      pos.yield %v : i1
    }
  }
  return
}

// -----

// Terms of one form are summed before the score: one table for two biases. What
// a soft cap sees stays apart.
// CHECK-LABEL: func @joined
// CHECK: %[[BOTH:.+]] = pos.hoist [head, offset] {
// CHECK:   %[[A:.+]] = pos.read
// CHECK:   %[[B:.+]] = arith.mulf
// CHECK:   %[[DIFFERENCE:.+]] = arith.subf
// CHECK:   pos.yield %[[DIFFERENCE]]
// CHECK: pos.score {
// CHECK: ^bb0(%[[S:.+]]: f32):
// CHECK-NEXT: %[[T:.+]] = arith.addf %[[S]], %[[BOTH]]
// CHECK-NEXT: pos.yield %[[T]]
func.func @joined(%x: tensor<?x?x?x8xf32>, %r: tensor<?xf32>) {
  %o, %lse = pos.attention %x, %x, (%x) params(%r : tensor<?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%p: tensor<?xf32>):
    pos.score {
    ^bb0(%s: f32):
      %h = pos.head
      %d = pos.offset
      %f = arith.sitofp %d : i32 to f32
      %m = pos.read %p[%h] : tensor<?xf32>
      %a = arith.mulf %m, %f : f32
      %t = arith.addf %s, %a : f32
      %b = arith.mulf %a, %f : f32
      %u = arith.subf %t, %b : f32
      pos.yield %u : f32
    }
  }
  return
}

// -----

// In a score of all heads the body at every head is hoisted from like a payload
// of one head, with what it uses of the scalars around it.
// CHECK-LABEL: func @at_heads
func.func @at_heads(%x: tensor<?x2x?x8xf32>, %r: tensor<?xf32>) {
  // CHECK: %[[ROOT:.+]] = pos.hoist [offset] {
  // CHECK:   math.sqrt
  // CHECK: %[[TABLE:.+]] = pos.hoist [head, offset] {
  // CHECK:   pos.head
  // CHECK:   arith.mulf %{{.+}}, %[[ROOT]]
  // CHECK: pos.score {
  // CHECK-NEXT: ^bb0(%[[S:.+]]: tensor<2xf32>):
  // CHECK: pos.for_heads(%[[S]]) {
  // CHECK-NEXT: ^bb0(%[[Y:.+]]: f32):
  // CHECK-NEXT:   %[[Z:.+]] = arith.addf %[[Y]], %[[TABLE]]
  // CHECK-NEXT:   pos.yield %[[Z]]
  %o, %lse = pos.attention %x, %x, (%x) params(%r : tensor<?xf32>)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32> {
  ^bb0(%p: tensor<?xf32>):
    pos.score {
    ^bb0(%s: tensor<2xf32>):
      %d = pos.offset
      %f = arith.sitofp %d : i32 to f32
      %t = pos.for_heads (%s) {
      ^bb0(%y: f32):
        %h = pos.head
        %a = pos.read %p[%h] : tensor<?xf32>
        %g = math.sqrt %f : f32
        %b = arith.mulf %a, %g : f32
        %z = arith.addf %y, %b : f32
        pos.yield %z : f32
      } : (tensor<2xf32>) -> tensor<2xf32>
      pos.yield %t : tensor<2xf32>
    }
  }
  return
}

// -----

// What is known of the values of one body is forgotten before the next, whose
// values may have the addresses of those that were erased.
// CHECK-LABEL: func @one_body_after_the_other
func.func @one_body_after_the_other(%x: tensor<?x2x?x8xf32>) {
  // CHECK: pos.hoist [offset]
  // CHECK: %[[ROW:.+]] = pos.hoist [query] {
  // CHECK:   arith.addf
  // CHECK:   arith.addf
  // CHECK: pos.score {
  // CHECK: pos.for_heads
  // CHECK: pos.for_heads
  // CHECK-NEXT: ^bb0(%[[S:.+]]: f32):
  // CHECK-NEXT:   arith.addf %[[S]], %[[ROW]]
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32> {
    pos.score {
    ^bb0(%s: tensor<2xf32>):
      %t = pos.for_heads (%s) {
      ^bb0(%y: f32):
        %d = pos.offset
        %f = arith.sitofp %d : i32 to f32
        %1 = arith.mulf %f, %f : f32
        %2 = arith.mulf %1, %f : f32
        %3 = arith.mulf %2, %f : f32
        %4 = arith.mulf %3, %f : f32
        %5 = arith.mulf %4, %f : f32
        %z = arith.addf %y, %5 : f32
        pos.yield %z : f32
      } : (tensor<2xf32>) -> tensor<2xf32>
      %u = pos.for_heads (%t) {
      ^bb0(%y: f32):
        %i = pos.index query
        %f = arith.sitofp %i : i32 to f32
        %1 = math.cos %f : f32
        %2 = math.sin %f : f32
        %3 = math.tanh %f : f32
        %4 = arith.addf %y, %1 : f32
        %5 = arith.addf %4, %2 : f32
        %z = arith.addf %5, %3 : f32
        pos.yield %z : f32
      } : (tensor<2xf32>) -> tensor<2xf32>
      pos.yield %u : tensor<2xf32>
    }
  }
  return
}

// RUN: sextant-opt %s --pos-inline-encodings --split-input-file | FileCheck %s
// RUN: sextant-opt %s --pos-inline-encodings --split-input-file --remarks-filter=pos-inline-encodings -o /dev/null 2>&1 | FileCheck %s --check-prefix=COUNT

// The region takes the parameters in the order of use, then of declaration.
// COUNT: remark: [Passed] inlined | Category:pos-inline-encodings | Sites=2, Uses=2
// CHECK-LABEL: func @params
// CHECK: pos.attention %{{.+}} params(%[[X:.+]], %[[A:.+]], %[[B:.+]] :
// CHECK-NOT: uses
// CHECK: ^bb0(%[[X0:.+]]: tensor<3xi32>, %[[A0:.+]]: tensor<?xf32>, %[[B0:.+]]: tensor<3xf32>):
// CHECK: pos.mask
// CHECK:   pos.read %[[X0]]
// CHECK: pos.score
// CHECK:   pos.read %[[A0]]
// CHECK:   pos.read %[[B0]]
// CHECK-NOT: pos.encoding
pos.encoding @two {
  %h = pos.extent heads
  %one = arith.constant 1.0 : f32
  %a = pos.param "a" : tensor<?xf32> dims(%h) init constant(%one)
  %b = pos.param "b" : tensor<?xf32> dims(%h) init constant(%one)
  pos.score {
  ^bb0(%s: f32):
    %n = pos.head
    %u = pos.read %a[%n] : tensor<?xf32>
    %v = pos.read %b[%n] : tensor<?xf32>
    %t = arith.addf %u, %v : f32
    %r = arith.addf %s, %t : f32
    pos.yield %r : f32
  }
}
pos.encoding @hidden {
  %n = pos.extent batch
  %x = pos.param "x" : tensor<?xi32> dims(%n)
  pos.mask {
    %b = pos.batch
    %v = pos.read %x[%b] : tensor<?xi32>
    %z = arith.constant 0 : i32
    %c = arith.cmpi ne, %v, %z : i32
    pos.yield %c : i1
  }
}
func.func @params(%q: tensor<6x3x?x8xf32>, %x: tensor<3xi32>, %a: tensor<?xf32>, %b: tensor<3xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@hidden, "h">, #pos.use<@two, "t">]
    params(%x, %a, %b : tensor<3xi32>, tensor<?xf32>, tensor<3xf32>)
    : tensor<6x3x?x8xf32>, tensor<6x3x?x8xf32>, (tensor<6x3x?x8xf32>)
    -> (tensor<6x3x?x8xf32>), tensor<6x3x?xf32>
  return
}

// -----

// What is known becomes a constant where it is used; what depends on a dynamic
// extent is computed in the payload.
// CHECK-LABEL: func @captured
// CHECK: pos.score
// CHECK:   %[[WIDTH:.+]] = arith.constant 16 : i32
// CHECK:   %[[HEADS:.+]] = pos.extent heads
// CHECK:   %[[TWICE:.+]] = arith.addi %[[HEADS]], %[[HEADS]]
// CHECK:   arith.addi %[[WIDTH]], %[[TWICE]]
pos.encoding @my_captured {
  %d = pos.extent head_dim
  %h = pos.extent heads
  %d2 = arith.addi %d, %d : i32
  %h2 = arith.addi %h, %h : i32
  pos.score {
  ^bb0(%s: f32):
    %n = arith.addi %d2, %h2 : i32
    %f = arith.sitofp %n : i32 to f32
    %t = arith.mulf %s, %f : f32
    pos.yield %t : f32
  }
}
func.func @captured(%q: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@my_captured, "c">]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

// Options of a row map become attributes and constants; all lanes are no range.
// CHECK-LABEL: func @rows
// CHECK: %[[C2:.+]] = arith.constant 2 : i32
// CHECK: %[[C6:.+]] = arith.constant 6 : i32
// CHECK: pos.rows of [query] interleaved lanes(%[[C2]], %[[C6]]) {
// CHECK: pos.rows of [key] half {
pos.encoding @my_rows {
  %g = arith.constant 1 : i32
  %g0 = arith.constant 0 : i32
  %b = arith.constant 2 : i32
  %d = pos.extent head_dim
  %e = arith.subi %d, %b : i32
  pos.rows of [query] grouping(%g) lanes(%b, %e) {
  ^bb0(%x: f32, %y: f32):
    pos.yield %y, %x : f32, f32
  }
  pos.rows of [key] grouping(%g0) lanes(%g0, %g0) {
  ^bb0(%x: f32, %y: f32):
    pos.yield %y, %x : f32, f32
  }
}
func.func @rows(%q: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@my_rows, "r">]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

// Without hosts, what they add is zero. No uses leave no region.
// CHECK-LABEL: func @host
// CHECK: pos.score
// CHECK: ^bb0(%[[S:.+]]: f32):
// CHECK:   %[[ZERO:.+]] = arith.constant 0.0
// CHECK:   arith.addf %[[S]], %[[ZERO]]
// CHECK: pos.attention
// CHECK-NOT: {
// CHECK: return
pos.encoding @my_host {
  pos.score {
  ^bb0(%s: f32):
    %b = pos.host : f32
    %t = arith.addf %s, %b : f32
    pos.yield %t : f32
  }
}
func.func @host(%q: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@my_host, "h">]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  %o1, %lse1 = pos.attention %q, %q, (%q) uses []
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

// A parameter of the float64 reference reads as the compute type (C1).
// CHECK-LABEL: func @double
// CHECK: ^bb0(%[[A:.+]]: tensor<?xf64>):
// CHECK: %[[V:.+]] = pos.read %[[A]][%{{.+}}] : tensor<?xf64>
// CHECK: arith.addf %{{.+}}, %[[V]] : f32
pos.encoding @my_double {
  %h = pos.extent heads
  %one = arith.constant 1.0 : f32
  %a = pos.param "a" : tensor<?xf32> dims(%h) init constant(%one)
  pos.score {
  ^bb0(%s: f32):
    %n = pos.head
    %u = pos.read %a[%n] : tensor<?xf32>
    %r = arith.addf %s, %u : f32
    pos.yield %r : f32
  }
}
func.func @double(%q: tensor<?x?x?x8xf64>, %a: tensor<?xf64>) {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@my_double, "d">] params(%a : tensor<?xf64>)
    : tensor<?x?x?x8xf64>, tensor<?x?x?x8xf64>, (tensor<?x?x?x8xf64>)
    -> (tensor<?x?x?x8xf64>), tensor<?x?x?xf64>
  return
}

// -----

// Vectors get static extents: the heads of the query, the rows of a matrix, what
// an option says. A parameter of one dimension is asked for its elements.
// CHECK-LABEL: func @vectors
// CHECK: ^bb0(%[[W:.+]]: tensor<?x?xf64>, %[[B:.+]]: tensor<?xf64>):
// CHECK: ^bb0(%[[S:.+]]: tensor<2xf32>):
// CHECK: %[[TWO:.+]] = arith.constant 2 : i32
// CHECK: %[[X:.+]] = pos.contract %[[W]], %[[S]] columns from %{{.+}} : tensor<?x?xf64>, tensor<2xf32> -> tensor<3xf32>
// CHECK: %[[B1:.+]] = pos.elements %[[B]] : tensor<?xf64> -> tensor<3xf32>
// CHECK: %[[Y:.+]] = arith.addf %[[X]], %[[B1]] : tensor<3xf32>
// CHECK: %[[Z:.+]] = tensor.splat %{{.+}} : tensor<3xf32>
// CHECK: %[[P:.+]] = arith.cmpf ogt, %[[Y]], %[[Z]] : tensor<3xf32>
// CHECK: arith.select %[[P]], %[[Y]], %[[Z]] : tensor<3xi1>, tensor<3xf32>
// CHECK: pos.for_heads(%[[S]]) {
// CHECK: } : (tensor<2xf32>) -> tensor<2xf32>
pos.encoding @my_vectors {
  %heads = pos.extent heads
  %three = arith.constant 3 : i32
  %size = arith.index_cast %three : i32 to index
  %twice = arith.addi %heads, %heads : i32
  %zero = arith.constant 0.0 : f32
  %w = pos.param "w" : tensor<?x?xf32> dims(%three, %twice)
  %b = pos.param "b" : tensor<?xf32> dims(%three)
  pos.score {
  ^bb0(%s: tensor<?xf32>):
    %x = pos.contract %w, %s columns from %heads : tensor<?x?xf32>, tensor<?xf32> -> tensor<?xf32>
    %y = arith.addf %x, %b : tensor<?xf32>
    %z = tensor.splat %zero[%size] : tensor<?xf32>
    %p = arith.cmpf ogt, %y, %z : tensor<?xf32>
    %r = arith.select %p, %y, %z : tensor<?xi1>, tensor<?xf32>
    %t = pos.for_heads (%s) {
    ^bb0(%v: f32):
      pos.yield %v : f32
    } : (tensor<?xf32>) -> tensor<?xf32>
    pos.yield %t : tensor<?xf32>
  }
}
func.func @vectors(%q: tensor<?x2x?x8xf64>, %w: tensor<?x?xf64>, %b: tensor<?xf64>) {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@my_vectors, "v">]
    params(%w, %b : tensor<?x?xf64>, tensor<?xf64>)
    : tensor<?x2x?x8xf64>, tensor<?x2x?x8xf64>, (tensor<?x2x?x8xf64>)
    -> (tensor<?x2x?x8xf64>), tensor<?x2x?xf64>
  return
}

// -----

// What hosts add becomes one value per head, or a term of a scalar score; without
// hosts it is 0. Parameters of hosts follow those of the use.
// CHECK-LABEL: func @hosts
// CHECK: ^bb0(%[[A:.+]]: tensor<?xf32>, %[[L:.+]]: tensor<?xf32>, %[[M:.+]]: tensor<?xf32>):
// CHECK: ^bb0(%[[S:.+]]: tensor<2xf32>):
// CHECK: pos.elements %[[A]]
// CHECK: %[[HOST:.+]] = pos.for_heads() {
// CHECK:   %[[X:.+]] = pos.read %[[L]]
// CHECK:   %[[X1:.+]] = arith.negf %[[X]]
// CHECK:   %[[X2:.+]] = arith.addf %[[X1]], %[[X]]
// CHECK:   %[[Y:.+]] = pos.read %[[M]]
// CHECK:   %[[Y1:.+]] = arith.negf %[[Y]]
// CHECK:   %[[Y2:.+]] = arith.addf %[[Y1]], %[[Y]]
// CHECK:   %[[BOTH:.+]] = arith.addf %[[X2]], %[[Y2]]
// CHECK:   pos.yield %[[BOTH]]
// CHECK: arith.addf %[[S]], %[[HOST]] : tensor<2xf32>
// CHECK-LABEL: func @scalar
// CHECK: ^bb0(%[[S:.+]]: f32):
// CHECK:   %[[X:.+]] = pos.read
// CHECK:   %[[X1:.+]] = arith.negf %[[X]]
// CHECK:   %[[X2:.+]] = arith.addf %[[X1]], %[[X]]
// CHECK:   arith.mulf %[[S]], %[[X2]]
// CHECK-LABEL: func @none
// CHECK: %[[ZERO:.+]] = arith.constant dense<0.000000e+00> : tensor<2xf32>
// CHECK: arith.addf %{{.+}}, %[[ZERO]] : tensor<2xf32>
pos.encoding @my_mixer {
  %heads = pos.extent heads
  %a = pos.param "a" : tensor<?xf32> dims(%heads)
  pos.score {
  ^bb0(%s: tensor<?xf32>):
    %u = arith.mulf %s, %a : tensor<?xf32>
    %b = pos.host : tensor<?xf32>
    %t = arith.addf %s, %b : tensor<?xf32>
    %r = arith.addf %t, %u : tensor<?xf32>
    pos.yield %r : tensor<?xf32>
  }
}
pos.encoding @my_scalar {
  pos.score {
  ^bb0(%s: f32):
    %b = pos.host : f32
    %t = arith.mulf %s, %b : f32
    pos.yield %t : f32
  }
}
pos.encoding @my_host {
  %heads = pos.extent heads
  %l = pos.param "l" : tensor<?xf32> dims(%heads)
  pos.score {
  ^bb0(%s: f32):
    %h = pos.head
    %x = pos.read %l[%h] : tensor<?xf32>
    %t = arith.subf %s, %x : f32
    %u = arith.addf %x, %t : f32
    pos.yield %u : f32
  }
}
func.func @hosts(%q: tensor<?x2x?x8xf32>, %p: tensor<?xf32>) {
  %o, %lse = pos.attention %q, %q, (%q)
    uses [#pos.use<@my_mixer, "m", {}, [#pos.use<@my_host, "l">, #pos.use<@my_host, "m">]>]
    params(%p, %p, %p : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32>
  return
}
func.func @scalar(%q: tensor<?x?x?x8xf32>, %p: tensor<?xf32>) {
  %o, %lse = pos.attention %q, %q, (%q)
    uses [#pos.use<@my_scalar, "m", {}, [#pos.use<@my_host, "l">]>]
    params(%p : tensor<?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}
func.func @none(%q: tensor<?x2x?x8xf32>, %p: tensor<?xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@my_mixer, "m">]
    params(%p : tensor<?xf32>)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32>
  return
}

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

// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// Of two axes the third is gone, and without per_head so is the head: matrices
// are shared by batch and heads. Nothing is hoisted.
// CHECK-LABEL: func @liere
// CHECK-NOT: pos.hoist
// CHECK: pos.turn_rows of [query, key] blocks %{{.+}} {
// CHECK-NOT: pos.head
// CHECK-DAG: pos.coord self{{$}}
// CHECK-DAG: pos.coord self axis 1
// CHECK-NOT: axis 2
// CHECK: pos.yield
func.func @liere(%x: tensor<?x?x?x8xf32>, %p0: tensor<?x?x?x?x?xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@liere, "liere">]
    params(%p0 : tensor<?x?x?x?x?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

// -----

// CHECK-LABEL: func @one_axis
// CHECK: pos.turn_rows of [query, key] blocks %{{.+}} {
// CHECK-NOT: axis
// CHECK: pos.head
// CHECK: pos.yield
func.func @one_axis(%x: tensor<?x?x?x8xf32>, %p0: tensor<?x?x?x?x?xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x)
    uses [#pos.use<@liere, "liere", {axes = 1 : i32, per_head = true}>]
    params(%p0 : tensor<?x?x?x?x?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

// RUN: sextant-opt %s --sextant-encoding-pipeline | FileCheck %s

// Both parts of the state for queries, at their index but not before the first key, and
// for keys, at their row.
// CHECK-LABEL: func @turned
// CHECK-COUNT-2: pos.hoist [batch, head, self, lane] {
// CHECK: arith.maxsi
// CHECK: pos.rows of [query] half {
// CHECK:   arith.subf
// CHECK:   arith.addf
// CHECK-COUNT-2: pos.tensor_row self
// CHECK: pos.rows of [key] half {
func.func @turned(%q: tensor<?x?x?x8xf32>, %v: tensor<?x?x?x8xf32>, %zr: tensor<?x?x?x4xf32>, %zi: tensor<?x?x?x4xf32>)
    -> (tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>) {
  %o, %y, %lse = pos.attention %q, %q, (%q, %v) uses [#pos.use<@tape, "tape">]
    params(%zr, %zi : tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o, %y : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>
}

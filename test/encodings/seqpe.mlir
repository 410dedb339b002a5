// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// The bias is a longer product; rows stay as they are.
// CHECK-LABEL: func @bias
// CHECK: %[[LANES:.+]] = arith.constant 8 : i32
// CHECK: %[[A:.+]] = pos.hoist [batch, head, query, lane] {
// CHECK: %[[B:.+]] = pos.hoist [batch, head, key, lane] {
// CHECK: pos.columns %[[LANES]] {
// CHECK:   pos.yield %[[A]], %[[B]]
// CHECK-NOT: pos.read
// CHECK-NOT: arith.mulf
// CHECK-NOT: arith.addf
func.func @bias(%q: tensor<?x?x?x8xf32>, %e: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@seqpe, "seqpe">]
    params(%e, %e : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

// -----

// The other forms map rows, and append nothing.
// CHECK-LABEL: func @mul
// CHECK: %[[NONE:.+]] = arith.constant 0 : i32
// CHECK: pos.columns %[[NONE]] {
// CHECK: pos.read
// CHECK: pos.rows of [query] single {
// CHECK: arith.mulf
// CHECK: pos.read
// CHECK: pos.rows of [key] single {
// CHECK: arith.mulf
func.func @mul(%q: tensor<?x?x?x8xf32>, %e: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@seqpe, "seqpe", {form = "mul"}>]
    params(%e, %e : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

// -----

// CHECK-LABEL: func @sum
// CHECK: pos.rows of [query] single
// CHECK: arith.addf
// CHECK: pos.rows of [key] single
// CHECK: arith.addf
func.func @sum(%q: tensor<?x?x?x8xf32>, %e: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@seqpe, "seqpe", {form = "sum"}>]
    params(%e, %e : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

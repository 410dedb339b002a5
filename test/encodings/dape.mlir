// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s
// RUN: sextant-opt %s --sextant-encoding-pipeline=hoist-vectors=false --split-input-file | FileCheck %s --check-prefix=PLAIN

// What the network makes of the host and its first bias is a table over offsets;
// the residual takes the host's own table.
// CHECK-LABEL: func @residual
// CHECK: %[[BIAS:.+]] = pos.hoist [head, offset] {
// CHECK:   math.log1p
// CHECK: %[[HALF:.+]] = pos.hoist [offset] {
// CHECK:   pos.for_heads() {
// CHECK:     pos.yield %[[BIAS]]
// CHECK:   pos.contract %{{.+}} columns from %{{.+}} -> tensor<4xf32>
// CHECK:   pos.elements
// CHECK: } : tensor<4xf32>
// CHECK: pos.score {
// CHECK-NEXT: ^bb0(%[[S:.+]]: tensor<3xf32>):
// CHECK: %[[B:.+]] = pos.for_heads() {
// CHECK:   pos.yield %[[BIAS]]
// CHECK: %[[SUM:.+]] = arith.addf %[[S]], %[[B]]
// CHECK: %[[SEEN:.+]] = pos.contract %{{.+}}, %[[S]]
// CHECK: %[[PRE:.+]] = arith.addf %[[SEEN]], %[[HALF]]
// CHECK: arith.cmpf ogt, %[[PRE]]
// CHECK: arith.select
// CHECK: %[[OUT:.+]] = pos.contract
// CHECK: arith.addf %[[SUM]]
// CHECK-NOT: pos.contract

// PLAIN-LABEL: func @residual
// PLAIN-NOT: tensor<4xf32>{{$}}
// PLAIN: pos.score {
// PLAIN: pos.contract
// PLAIN: pos.contract
// PLAIN: pos.contract
func.func @residual(%x: tensor<?x3x?x8xf32>, %w: tensor<?x?xf32>, %r: tensor<?xf32>) -> tensor<?x3x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x)
    uses [#pos.use<@dape, "d", {hidden = 4 : i32}, [#pos.use<@kerple_log, "k">]>]
    params(%w, %r, %w, %r, %r, %r : tensor<?x?xf32>, tensor<?xf32>, tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
    : tensor<?x3x?x8xf32>, tensor<?x3x?x8xf32>, (tensor<?x3x?x8xf32>)
    -> (tensor<?x3x?x8xf32>), tensor<?x3x?xf32>
  return %o : tensor<?x3x?x8xf32>
}

// -----

// The sum of score and host is all that the network sees: one product.
// CHECK-LABEL: func @add
// CHECK: pos.score {
// CHECK-NEXT: ^bb0(%[[S:.+]]: tensor<3xf32>):
// CHECK: %[[SUM:.+]] = arith.addf %[[S]]
// CHECK: pos.contract %{{.+}}, %[[SUM]]
// CHECK: pos.contract
// CHECK-NOT: pos.contract
func.func @add(%x: tensor<?x3x?x8xf32>, %w: tensor<?x?xf32>, %r: tensor<?xf32>) -> tensor<?x3x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x)
    uses [#pos.use<@dape, "d", {hidden = 4 : i32, variant = "add_residual"}, [#pos.use<@kerple_log, "k">]>]
    params(%w, %r, %w, %r, %r, %r : tensor<?x?xf32>, tensor<?xf32>, tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
    : tensor<?x3x?x8xf32>, tensor<?x3x?x8xf32>, (tensor<?x3x?x8xf32>)
    -> (tensor<?x3x?x8xf32>), tensor<?x3x?xf32>
  return %o : tensor<?x3x?x8xf32>
}

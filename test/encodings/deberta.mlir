// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// Both products are terms of the score; their rows are clipped offsets.
// CHECK-LABEL: func @deberta
// CHECK: ^bb0(%[[KR:.+]]: tensor<16x8xf32>, %[[QR:.+]]: tensor<8x8xf32>):
// CHECK: pos.score {
// CHECK: %[[C2P:.+]] = pos.query_dot %[[KR]] columns[%{{.+}}]
// CHECK: %[[P2C:.+]] = pos.key_dot %[[QR]] columns[%{{.+}}]
// CHECK: arith.addf %[[C2P]], %[[P2C]]
func.func @deberta(%q: tensor<?x2x?x8xf32>, %k: tensor<?x1x?x8xf32>, %kr: tensor<16x8xf32>, %qr: tensor<8x8xf32>) -> tensor<?x2x?x8xf32> {
  %o, %lse = pos.attention %q, %k, (%k) uses [#pos.use<@deberta, "deberta", {reach = 4 : i32}>]
    params(%kr, %qr : tensor<16x8xf32>, tensor<8x8xf32>)
    : tensor<?x2x?x8xf32>, tensor<?x1x?x8xf32>, (tensor<?x1x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32>
  return %o : tensor<?x2x?x8xf32>
}

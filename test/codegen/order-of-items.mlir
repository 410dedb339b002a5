// The tiles of queries of a forward on tensor cores are the outermost axis of its items,
// the last tile first: under a causal mask blocks find the shortest ones when few are left.
// RUN: sextant-compile %s --target=cuda:sm_80 --emit=kernel --o - | FileCheck %s

// CHECK: func internal @attention_0_forward_fragments_range
// CHECK: %[[TILES:.+]] = arith.divui %{{.+}}, %c128_i64
// CHECK: scf.for %[[ITEM:.+]] = %arg1 to %arg2
// CHECK-NEXT: arith.remui %[[ITEM]], %[[SPLITS:.+]] :
// CHECK-NEXT: %[[ROWS:.+]] = arith.divui %[[ITEM]], %[[SPLITS]]
// CHECK-NEXT: arith.remui %[[ROWS]], %[[HEADS:.+]] :
// CHECK-NEXT: %[[SEQUENCES:.+]] = arith.divui %[[ROWS]], %[[HEADS]]
// CHECK-NEXT: arith.remui %[[SEQUENCES]], %[[BATCH:.+]] :
// CHECK-NEXT: %[[TILE:.+]] = arith.divui %[[SEQUENCES]], %[[BATCH]]
// CHECK-NEXT: %[[LAST:.+]] = arith.subi %[[TILES]], %c1_i64
// CHECK-NEXT: %[[OWN:.+]] = arith.subi %[[LAST]], %[[TILE]]
// CHECK-NEXT: arith.muli %[[OWN]], %c128_i64
func.func @f(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  %o, %lse = pos.attention %q, %k, (%k) uses [#pos.use<@causal, "causal">]
    : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, (tensor<?x?x?x64xbf16>) -> (tensor<?x?x?x64xbf16>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x64xbf16>
}
